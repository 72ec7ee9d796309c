"""Sessions against an owner and a socket turned by hand: ends, large bodies, faults, bounds."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from broker.core.commands import Barrier, Disconnect, Publish, Subscribe
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Blob, Run
from broker.core.reasons import Reason
from broker.link.owner_port import Away

from .bench import Bench


async def test_a_half_close_behind_a_large_send_still_ends_the_connection() -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    session.eof()
    assert wire.closed is None
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(Blob(1, 2000), "")
    publish = bench.port.last(Publish)
    bench.edge.on_effects([Done(session.id, publish.seq)])
    assert b"receipt-id:r" in wire.sent
    assert wire.closed is Reason.CLIENT_GONE


@pytest.mark.parametrize(
    ("why", "code"),
    [
        ("no space left", 1601),
        (Away("nothing heard for 500 ms"), 1607),
        (Away("no owner has served it for 30 s", Code.OWNER_UNAVAILABLE), 1605),
    ],
)
async def test_a_large_send_that_fails_says_whether_it_was_the_disk_or_the_owner(why: str, code: int) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\nreceipt:r\ncontent-length:2000\n\n" + b"x" * 2000 + b"\0")
    finished = bench.port.writers[0].finished
    assert finished is not None
    finished(None, why)
    assert b"error-code:%d\n" % code in wire.sent and b"receipt-id:r\n" in wire.sent
    assert why.encode() in wire.sent


async def test_a_large_delivery_that_its_owner_left_is_no_fault_of_the_edge() -> None:
    for why, reason in (("cannot read", Reason.INTERNAL), (Away("nothing heard for 500 ms"), Reason.OWNER_STOPPED)):
        bench = Bench()
        session, wire = bench.session()
        reader = bench.deliver_large(bench.subscribed(session), 600_000)
        reader.turn()
        assert reader.waiting is not None
        reader.waiting[1](None, why)
        assert wire.closed == "aborted"
        assert bench.edge.counters.closed == {reason: 1}


@pytest.mark.parametrize("reason", Reason)
async def test_the_owner_hears_whether_a_client_has_failed_or_gone_in_order(reason: Reason) -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    session.abort(reason)
    calm = {Reason.CLIENT_DISCONNECT, Reason.SHUTDOWN, Reason.OWNER_STOPPED, Reason.DISK_FULL}
    assert bench.port.last(Disconnect).calm == (reason in calm)


@pytest.mark.parametrize(("code", "calm"), [(Code.DISK_FULL, True), (Code.ADDRESS_FULL, False)])
async def test_a_full_disk_is_no_failure_of_who_holds_messages(code: Code, calm: bool) -> None:
    """53 messages of a real cluster became dead letters in 10 s: who consumes them sends what it makes of them."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/other\nreceipt:r\n\nx\0")
    bench.edge.on_effects([Refused(session.id, bench.port.last(Publish).seq, code, "retry later")])
    assert b"error-code:%d" % code.number in wire.take() and wire.closed is code.reason
    assert bench.port.last(Disconnect).calm is calm


@pytest.mark.parametrize("receipt", [b"", b"receipt:r\n"])
async def test_disconnect_is_going_in_order_and_the_end_of_the_stream_is_not(receipt: bytes) -> None:
    bench = Bench()
    for frame, calm in ((b"DISCONNECT\n%b\n\0" % receipt, True), (b"", False)):
        session, wire = bench.session()
        bench.subscribed(session)
        bench.port.commands.clear()
        if frame:
            session.receive(frame)
        else:
            session.eof()
        for command in list(bench.port.commands):
            if type(command) is Barrier:
                bench.edge.on_effects([Done(session.id, command.seq)])
        assert wire.closed is not None
        assert {command.calm for command in bench.port.commands if type(command) is Disconnect} == {calm}


async def test_disconnect_is_answered_behind_the_large_body_that_is_under_way() -> None:
    bench = Bench()
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 600_000)
    session.receive(b"DISCONNECT\nreceipt:bye\n\n\0")
    assert [whole[0] for whole in bench.port.whole] == [bench.port.last(Subscribe).consumer], "it takes it along"
    bench.edge.on_effects([Done(session.id, command.seq) for command in bench.port.commands if hasattr(command, "seq")])
    while not reader.closed:
        assert wire.closed is None
        reader.turn()
    head, _, rest = wire.sent.partition(b"\n\n")
    assert b"content-length:600000" in head
    assert rest == b"b" * 600_000 + b"\0RECEIPT\nreceipt-id:bye\n\n\0"
    assert wire.closed is Reason.CLIENT_DISCONNECT


async def test_an_error_comes_behind_the_large_body_and_nothing_behind_the_error() -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    first = bench.deliver_large(consumer, 2000)
    second = bench.deliver_large(consumer, 3000)
    session.receive(b"NONSENSE\n\n\0")
    third = bench.deliver_large(consumer, 4000)
    assert third.closed, "its file is not kept open"
    first.turn()
    second.turn()
    assert wire.sent.count(b"MESSAGE\n") == 2
    assert wire.sent.rindex(b"ERROR\n") > wire.sent.rindex(b"MESSAGE\n")
    assert wire.closed is Reason.PROTOCOL_ERROR


async def test_small_messages_behind_a_large_body_give_no_room_back_before_they_leave() -> None:
    """Else a slow download lets everything of the other queues gather in memory."""
    bench = Bench(consumer_room_bytes=1000)
    session, wire = bench.session()
    slow, other = bench.subscribed(session), bench.subscribed(session, "2")
    reader = bench.deliver_large(slow, 2000)
    bench.port.commands.clear()
    bench.deliver(other, b"small", cost=900)
    assert bench.port.commands == []
    reader.turn()
    assert b"small" in wire.sent
    assert sorted((g.consumer, g.nbytes) for g in bench.port.commands) == [(slow, 2000), (other, 900)]


async def test_what_waits_behind_a_large_body_is_bounded() -> None:
    bench = Bench(max_outbox_bytes=10_000)
    session, wire = bench.session()
    reader = bench.deliver_large(bench.subscribed(session), 2000)
    for _ in range(200):
        session.receive(b"SEND\ndestination:/queue/q\nreceipt:%b\n\n\0" % (b"r" * 100))
        bench.edge.on_effects([Done(session.id, bench.port.last(Publish).seq)])
        if wire.closed:
            break
    assert wire.closed == "aborted"
    assert reader.closed
    assert bench.edge.counters.closed == {Reason.SLOW_CONSUMER: 1}


async def test_one_turn_cannot_fill_the_memory_of_a_client_that_does_not_read() -> None:
    bench = Bench(max_outbox_bytes=3 << 20)
    session, wire = bench.session()
    consumers = [bench.subscribed(session, str(n)) for n in range(8)]
    session.pause_writing()
    run = Run(range(1, 2), b"\n", [b"x" * 500_000 + b"\0"], 500_002)
    wire.waiting = 4 << 20
    bench.edge.on_effects([Deliver(consumer, run, run.nbytes) for consumer in consumers])
    assert wire.closed == "aborted"
    assert len(wire.sent) < 3 << 20


async def test_the_rooms_of_many_subscriptions_together_fit_the_outbox() -> None:
    bench = Bench(max_outbox_bytes=1 << 26, consumer_room_bytes=1 << 20)
    session, _ = bench.session()
    for n in range(2000):
        bench.subscribed(session, str(n))
    rooms = [c.room for c in bench.port.commands if type(c) is Subscribe]
    assert rooms[0] == 1 << 20
    assert min(rooms) > 0
    assert sum(rooms) < 1 << 26


@pytest.mark.parametrize("where", ["deliver", "done", "write"])
async def test_a_mistake_of_ours_ends_one_connection_and_not_the_owner(where: str, caplog: Any) -> None:
    bench = Bench()
    (bad, bad_wire), (good, good_wire) = bench.session(), bench.session()
    consumers = bench.subscribed(bad), bench.subscribed(good)

    seqs = [session.answers.ask([b"r"]) for session in (bad, good)]
    broken: Any = None
    if where == "deliver":
        bench.edge.consumers[consumers[0]]._plain = broken
    elif where == "done":
        bad.answers = broken
    else:
        bad_wire.write = broken  # type: ignore[method-assign]
    run = Run(range(1, 2), b"\n", [b"body\0"], 6)
    effects: list[Any] = []
    for session, consumer, seq in zip((bad, good), consumers, seqs, strict=True):
        effects += [Deliver(consumer, run, 6), Done(session.id, seq)]
    bench.edge.on_effects(effects)
    assert bad_wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}
    assert "internal error" in caplog.text and "Traceback" in caplog.text
    assert good_wire.sent.count(b"body") == 1 and b"RECEIPT" in good_wire.sent
    assert good_wire.closed is None


async def test_a_mistake_while_reading_ends_the_connection_by_name(caplog: Any) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.wire = None  # type: ignore[assignment]
    session.receive(b"SEND\n")
    assert wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}


@pytest.mark.parametrize("frame", [b"ACK\nid:%b\n\n\0", b"NACK\nid:%b\n\n\0", b"ACK\nid:%b\ntransaction:t\n\n\0"])
async def test_an_ack_of_a_number_with_thousands_of_digits_is_refused(frame: bytes) -> None:
    bench = Bench()
    session, wire = bench.session()
    consumer = bench.subscribed(session)
    session.receive(b"BEGIN\ntransaction:t\n\n\0" + frame % (b"boot-%d-%b" % (consumer, b"1" * 5000)))
    assert b"error-code:1309" in wire.sent
    assert wire.closed is Reason.REFUSED


async def test_the_memory_of_a_connection_is_free_when_it_is_over() -> None:
    """And not when the collector comes by: thousands may go at once."""
    bench = Bench()
    session, wire = bench.session()
    bench.subscribed(session)
    session.receive(b"SEND\ndestination:/queue/q\n\nbody\0")
    gc.collect()
    gc.disable()
    try:
        session.lost()
        known, parts = id(session), {id(session.intake), id(session.outbox), id(session.wire)}
        del session
        left = set(map(id, gc.get_objects()))  # nothing is made before they are listed: it could get such an id anew
    finally:
        gc.enable()
    assert known not in left
    assert not parts & left
    assert wire.closed is None
