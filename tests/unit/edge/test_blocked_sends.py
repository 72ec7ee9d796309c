"""What waits for full addresses: bounds, patience, pace; and clients that stop in the middle of a large body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.commands import Disconnect, Publish
from broker.core.effects import AddressBlocked, Done
from broker.core.reasons import Reason
from broker.edge.session import blocked_sends
from broker.edge.session.session import Session
from tests.harness.waiting import eventually

from .bench import Bench


class Full(Bench):
    """A session that was told that a.b is full."""

    def __init__(self, **edge: Any) -> None:
        super().__init__(**edge)
        self.session_, self.wire = self.session()
        self.session_.receive(frame())
        self.first: Publish = self.port.last(Publish)
        self.told(True)
        self.port.commands.clear()

    def told(self, full: bool, passing: bool = False) -> None:
        self.edge.on_effects([AddressBlocked(self.session_.id, self.first.slot, self.first.address, full, passing)])

    def consumes(self) -> None:
        self.session_.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/other\n\n\0")
        self.port.commands.clear()

    def send(self, *bodies: bytes, address: str = "a.b", receipt: str = "") -> None:
        for body in bodies:
            self.session_.receive(frame(body, address, receipt))

    def left(self) -> list[bytes]:
        """Bodies that have left for the owner since it was last asked."""
        commands, self.port.commands = self.port.commands, []
        return [r.partition(b"\n\n")[2].rstrip(b"\0") for c in commands for r in c.run.records]

    def answer(self, publish: Publish) -> None:
        self.edge.on_effects([Done(self.session_.id, publish.seq)])


def frame(body: bytes = b"x", address: str = "a.b", receipt: str = "") -> bytes:
    more = f"receipt:{receipt}\n" if receipt else ""
    return f"SEND\ndestination:/queue/{address}\n{more}\n".encode() + body + b"\0"


def holds(session: Session) -> set[str]:
    return session.inbound._holds or set()


async def test_what_waits_leaves_in_order_and_frees_its_memory() -> None:
    bench = Full()
    bench.send(b"1", b"2")
    bench.send(b"other", address="c")
    assert bench.left() == [b"other"]
    assert bench.edge.blocked_bytes == bench.session_.blocked.nbytes > 0
    bench.told(False)
    assert bench.left() == [b"1", b"2"]
    assert bench.edge.blocked_bytes == 0


async def test_the_next_piece_waits_for_the_answer_to_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_sends, "PIECE", 500)
    bench = Full()
    bench.send(*(bytes([65 + n]) * 500 for n in range(3)))
    bench.told(False)
    (first,) = bench.port.commands
    bench.told(False)
    assert bench.port.commands == [first], "it is not known yet whether it is full again"
    bench.told(True)
    bench.answer(first)
    assert bench.port.commands == [first], "it was full again when the first had been taken"
    bench.told(False)
    second = bench.port.commands[-1]
    bench.answer(second)
    assert len(bench.port.commands) == 3


async def test_above_the_bound_a_producer_is_not_read_until_half_of_it_has_left() -> None:
    bench = Full(park_bytes=1000)
    bench.send(b"x" * 700)
    assert holds(bench.session_) == set()
    bench.send(b"x" * 700)
    assert holds(bench.session_) == {"blocked"}
    assert not bench.session_.inbound.reading
    bench.told(False)
    assert bench.session_.inbound.reading


async def test_a_session_is_not_read_where_the_owner_has_only_much_to_do_and_nothing_overtakes() -> None:
    """Who consumes got ERROR 1511 for 2 MB at once to a topic with 500 subscribers, whose address has no limit; and
    an ACK went before what was sent on ahead of it, which was dropped when the connection broke."""
    bench = Full(park_bytes=1000)
    bench.told(False)
    bench.consumes()
    bench.told(True, passing=True)
    assert holds(bench.session_) == {"busy"} and not bench.session_.inbound.reading
    bench.send(b"x" * 700, b"y" * 700)
    bench.send(b"other", address="c")
    bench.told(False, passing=True)
    assert bench.session_.inbound.reading and not bench.session_.closed
    assert bench.left() == [b"x" * 700, b"y" * 700, b"other"]


async def test_one_reason_to_wait_ends_without_the_other() -> None:
    bench = Full()
    bench.told(True, passing=True)
    bench.told(False, passing=True)
    bench.send(b"1")
    assert bench.left() == []
    bench.told(True, passing=True)
    bench.told(False)
    assert holds(bench.session_) == {"busy"} and bench.left() == [b"1"]


async def test_when_all_sessions_keep_too_much_everybody_who_keeps_something_is_paused() -> None:
    bench = Full(park_total_bytes=1000)
    bench.edge.blocked_bytes = 1000
    bench.send(b"x")
    assert holds(bench.session_) == {"blocked"}


async def test_a_session_that_ends_gives_back_what_it_kept() -> None:
    bench = Full()
    bench.send(b"1", b"2")
    bench.session_.lost()
    assert bench.edge.blocked_bytes == 0


async def test_patience_ends_in_an_error_that_names_the_first_receipt() -> None:
    bench = Full(block_timeout_s=0.1)
    bench.send(b"1", receipt="first")
    bench.send(b"2", receipt="second")
    await eventually(lambda: bench.wire.closed is not None)
    assert b"error-code:1511" in bench.wire.sent and b"receipt-id:first" in bench.wire.sent
    assert b"block_timeout_s" in bench.wire.sent
    assert bench.wire.closed is Reason.REFUSED
    bench.told(False)
    assert bench.left() == []


async def test_patience_begins_anew_with_every_step_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_sends, "PIECE", 500)
    bench = Full(block_timeout_s=2.0)
    bench.send(*(b"x" * 500 for _ in range(3)))
    for _ in range(3):
        await asyncio.sleep(0.8)
        bench.told(False)
        bench.answer(bench.port.commands[-1])
        bench.told(True)
    assert bench.wire.closed is None


async def test_who_has_closed_its_side_gives_back_what_it_consumes_and_then_waits() -> None:
    bench = Full()
    session = bench.session_
    slot = bench.edge.consumers[bench.subscribed(session)].slot
    bench.send(b"1")
    bench.port.commands.clear()
    session.eof()
    assert [(command.slot, command.session) for command in bench.port.commands] == [(slot, session.id)]
    assert isinstance(bench.port.last(Disconnect), Disconnect) and bench.wire.closed is None
    bench.told(False)
    bench.answer(bench.port.last(Publish))
    assert bench.wire.closed is Reason.CLIENT_GONE


async def test_what_it_sent_waits_no_longer_after_a_step_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_sends, "PIECE", 500)
    monkeypatch.setattr(blocked_sends, "GONE_S", 0.1)
    bench = Full()
    bench.send(*(b"x" * 500 for _ in range(3)))
    bench.session_.eof()
    bench.told(False)
    bench.told(True)
    bench.answer(bench.port.last(Publish))
    await eventually(lambda: bench.wire.closed is not None)
    assert b"error-code:1511" in bench.wire.sent


async def test_receipts_of_others_do_not_wait() -> None:
    bench = Full()
    bench.send(b"1", receipt="late")
    assert bench.wire.take() == b""
    bench.send(b"other", address="c", receipt="soon")
    bench.answer(bench.port.last(Publish))
    assert b"receipt-id:soon" in bench.wire.take()
    bench.told(False)
    bench.answer(bench.port.last(Publish))
    assert b"receipt-id:late" in bench.wire.take()


async def test_a_transaction_waits_and_what_comes_behind_it_for_its_addresses_too() -> None:
    bench = Full()
    data = b"BEGIN\ntransaction:t\n\n\0"
    for address in ("a.b", "c"):
        data += f"SEND\ndestination:/queue/{address}\ntransaction:t\n\nin\0".encode()
    bench.session_.receive(
        data + b"COMMIT\ntransaction:t\nreceipt:done\n\n\0" + frame(b"behind", "c") + frame(b"d", "d")
    )
    assert bench.left() == [b"d"]
    bench.told(False)
    transact, publish = bench.port.commands
    assert [part.address for part in transact.parts] == ["a.b", "c"]
    assert publish.address == "c"


async def test_a_client_that_stops_reading_in_the_middle_of_a_large_body_is_closed() -> None:
    bench = Bench(frame_timeout_s=0.1)
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 600_000)
    session.pause_writing()
    wire.waiting = 200_000
    reader.turn()
    await eventually(lambda: wire.closed is not None)
    assert wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.SLOW_CONSUMER: 1}


async def test_a_client_that_reads_a_large_body_slowly_or_waits_for_its_owner_stays() -> None:
    bench = Bench(frame_timeout_s=1.0)
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 600_000)
    await asyncio.sleep(1.2)  # the owner is slow: nobody's fault here
    session.pause_writing()
    wire.waiting = 200_000
    reader.turn()
    for _ in range(6):
        await asyncio.sleep(0.2)
        wire.waiting -= 10
    assert wire.closed is None
