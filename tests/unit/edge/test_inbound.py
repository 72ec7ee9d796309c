"""The reading half of a session: frames in their order, whatever some of them wait for; one batch a read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.commands import Disconnect, Publish, Subscribe
from broker.core.effects import Done
from broker.core.reasons import Reason
from broker.edge.requests import inbound
from broker.edge.requests.inbound import BEGUN, BEGUN_SHORT
from tests.harness.waiting import eventually

from .bench import Bench


def send(*bodies: bytes, to: bytes = b"/queue/a") -> bytes:
    return b"".join(b"SEND\ndestination:%b\n\n%b\0" % (to, body) for body in bodies)


SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"


def sent(bench: Bench) -> list[bytes]:
    """Bodies that have left, in order."""
    found = [
        (command.run.lines + record).rpartition(b"\n")[2][:-1]
        for command in bench.port.commands
        if type(command) is Publish
        for record in command.run.records
    ]
    bench.port.commands.clear()
    return found


def watched(monkeypatch: pytest.MonkeyPatch, wire: Any) -> list[str]:
    """What becomes of the socket."""
    seen: list[str] = []
    monkeypatch.setattr(wire, "pause_reading", lambda: seen.append("rests"))
    monkeypatch.setattr(wire, "resume_reading", lambda: seen.append("reads"))
    return seen


async def test_what_a_read_asks_for_leaves_at_once():
    bench = Bench()
    session, _ = bench.session()
    submits: list[list[str]] = []
    bench.port.submit = lambda commands: submits.append([type(each).__name__ for each in commands])  # type: ignore
    session.receive(send(b"1") + SUBSCRIBE + send(b"2"))
    assert submits == [["Publish", "Subscribe", "Publish"]]


async def test_frames_behind_one_that_waits_wait_and_come_in_their_order(monkeypatch):
    bench = Bench()
    session, wire = bench.session()
    seen = watched(monkeypatch, wire)
    inbound: Any = session.inbound
    inbound.park()
    inbound.park()
    session.receive(send(b"1"))
    session.receive(send(b"2", b"3"))
    assert sent(bench) == [] and inbound.parked and seen == ["rests"]
    inbound.unpark()
    assert sent(bench) == [b"1", b"2", b"3"] and not inbound.parked and seen == ["rests", "reads"]


async def test_one_that_waits_in_the_middle_holds_up_what_is_behind_it_only(monkeypatch):
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    publisher_sends = None

    session.receive(send(b"0"))
    publisher = inbound.publisher
    publisher_sends = type(publisher).sends

    def sends(self: Any, event: Any) -> None:
        publisher_sends(self, event)
        if b"park" in event.records[-1]:
            inbound.park()

    monkeypatch.setattr(type(publisher), "sends", sends)
    session.receive(send(b"1") + send(b"park", to=b"/queue/b") + SUBSCRIBE + send(b"2"))
    assert [type(each) for each in bench.port.commands] == [Publish, Publish, Publish]
    assert sent(bench) == [b"0", b"1", b"park"]
    inbound.unpark()
    assert [type(each) for each in bench.port.commands] == [Subscribe, Publish]


async def test_a_session_that_has_ended_meanwhile_does_nothing_more():
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    inbound.park()
    session.receive(send(b"1"))
    session.abort(Reason.CLIENT_GONE)
    bench.port.commands.clear()
    inbound.unpark()
    assert sent(bench) == []


async def test_what_came_before_a_mistake_is_done_and_nothing_behind_it():
    bench = Bench()
    session, wire = bench.session()
    session.receive(send(b"1") + b"ACK\nid:boot-9-1\nreceipt:r\n\n\0" + send(b"2"))
    assert sent(bench) == [b"1"] and wire.closed is Reason.REFUSED
    assert wire.sent.startswith(b"ERROR\n") and b"receipt-id:r\n" in wire.sent


async def test_what_a_session_has_asked_for_leaves_before_its_end():
    """An owner that heard of the end first would drop it."""
    bench = Bench()
    session, _ = bench.session()
    session.receive(SUBSCRIBE)
    bench.port.commands.clear()
    session.receive(send(b"1") + b"DISCONNECT\nreceipt:r\n\n\0" + send(b"2"))
    kinds = [type(each) for each in bench.port.commands]
    assert kinds[0] is Publish and Disconnect in kinds and kinds.count(Publish) == 1


async def test_the_socket_reads_again_when_nobody_holds_it(monkeypatch):
    bench = Bench()
    session, wire = bench.session()
    seen = watched(monkeypatch, wire)
    inbound: Any = session.inbound
    inbound.pause_reading("owner")
    inbound.pause_reading("body")
    assert not inbound.reading, "its silence is ours"
    inbound.resume_reading("owner")
    inbound.resume_reading("never held")
    assert "reads" not in seen
    inbound.resume_reading("body")
    inbound.resume_reading("body")
    assert seen.count("reads") == 1 and inbound.reading


async def test_a_socket_of_a_session_that_has_ended_is_left_alone(monkeypatch):
    bench = Bench()
    session, wire = bench.session()
    inbound: Any = session.inbound
    inbound.pause_reading("owner")
    session.abort(Reason.CLIENT_GONE)
    seen = watched(monkeypatch, wire)
    inbound.resume_reading("owner")
    assert seen == []


async def test_an_owner_that_cannot_keep_up_pauses_who_sends(monkeypatch):
    bench = Bench()
    session, wire = bench.session()
    seen = watched(monkeypatch, wire)
    submit = bench.port.submit
    bench.port.submit = lambda commands: (submit(commands), True)[1]  # type: ignore[method-assign]
    session.receive(send(b"1"))
    assert seen == ["rests"]
    bench.edge.on_relief()
    assert seen == ["rests", "reads"]


async def test_frames_that_begin_much_let_others_have_their_turn(monkeypatch):
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    waits: list[Any] = []
    monkeypatch.setattr(type(bench.edge.rounds), "wait", lambda self, it: waits.append(it))
    inbound.begins(BEGUN - 1)
    assert not inbound.parked and waits == []
    inbound.begins(1)
    assert inbound.parked and waits == [inbound]
    session.receive(send(b"1"))
    assert sent(bench) == []
    inbound.read_portion()
    assert sent(bench) == [b"1"] and not inbound.parked


async def test_they_begin_less_while_others_send_little(monkeypatch):
    """48 SUBSCRIBEs a turn are up to 5 ms: a message of somebody else waits for four or five of those."""
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    monkeypatch.setattr(type(bench.edge.rounds), "short", True)
    inbound.begins(BEGUN_SHORT - 1)
    assert not inbound.parked
    inbound.begins(1)
    assert inbound.parked


async def test_what_follows_much_for_owners_waits_for_their_answer(monkeypatch):
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    waits: list[Any] = []
    monkeypatch.setattr(type(bench.edge.rounds), "wait", lambda self, it: waits.append(it))
    rested = inbound.rest()
    session.receive(send(b"1"))
    inbound.pause_reading("owner")
    inbound.resume_reading("owner")
    inbound.read_portion()
    assert waits == [] and sent(bench) == []
    rested()
    assert waits == [inbound]
    inbound.read_portion()
    assert sent(bench) == [b"1"] and not inbound.parked
    rested()
    assert waits == [inbound], "an answer that comes late asks for nothing"


async def test_who_has_hung_up_waits_for_no_answer():
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    inbound.rest()
    session.receive(send(b"1"))
    session.eof()
    await asyncio.sleep(0.01)
    assert sent(bench) == [b"1"]


async def test_a_turn_that_comes_while_the_owner_has_no_room_is_taken_later(monkeypatch):
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    waits: list[Any] = []
    monkeypatch.setattr(type(bench.edge.rounds), "wait", lambda self, it: waits.append(it))
    inbound.breathe()
    session.receive(send(b"1"))
    inbound.pause_reading("owner")
    inbound.read_portion()
    assert sent(bench) == []
    waits.clear()
    inbound.resume_reading("owner")
    assert waits == [inbound]
    inbound.read_portion()
    assert sent(bench) == [b"1"]


async def test_what_has_only_waited_for_its_turn_counts_when_the_client_is_gone():
    bench = Bench()
    session, _ = bench.session()
    inbound: Any = session.inbound
    inbound.breathe()
    session.receive(send(b"1"))
    inbound.finish()
    assert sent(bench) == [b"1"]
    inbound.park()
    session.receive(send(b"2"))
    inbound.finish()
    assert sent(bench) == [], "what waits for something else does not"


async def test_frames_are_counted():
    bench = Bench()
    session, _ = bench.session()
    consumer = bench.subscribed(session)
    before = bench.edge.counters.frames_in
    session.receive(send(b"1", b"2") + b"ACK\nid:boot-%d-1\n\n\0" % consumer + b"BEGIN\ntransaction:t\n\n\0")
    assert bench.edge.counters.frames_in - before == 4


async def test_an_answer_that_came_while_it_read_leaves_with_the_read():
    bench = Bench()
    session, wire = bench.session()
    session.receive(b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")
    bench.edge.on_effects([Done(session.id, bench.port.last(Publish).seq)])
    assert b"receipt-id:r\n" in wire.take()


async def test_a_mistake_while_reading_ends_the_connection_by_name(caplog: Any) -> None:
    bench = Bench()
    session, wire = bench.session()
    session.wire = None  # type: ignore[assignment]
    session.receive(b"SEND\n")
    assert wire.closed == "aborted"
    assert bench.edge.counters.closed == {Reason.INTERNAL: 1}


async def test_what_a_read_brings_alone_is_carried_out_at_once_where_the_owner_can(monkeypatch):
    """One message that is not to be stored; anything else gathers, and so does what is sent while effects are told."""
    bench = Bench()
    session, _ = bench.session()
    taken: list[Publish] = []
    bench.port.at_once = lambda command: bool(taken.append(command)) or len(taken) < 3  # type: ignore[assignment]
    session.receive(send(b"1"))
    assert len(taken) == 1 and not bench.port.commands
    session.receive(SUBSCRIBE)
    session.receive(send(b"2", to=b"/queue/a") + send(b"3", to=b"/queue/b"))
    session.receive(b"SEND\ndestination:/queue/a\npersistent:true\n\n4\0")
    monkeypatch.setattr(bench.edge, "dispatching", True)
    session.receive(send(b"5"))
    monkeypatch.setattr(bench.edge, "dispatching", False)
    assert len(taken) == 1 and sent(bench) == [b"2", b"3", b"4", b"5"]
    session.receive(send(b"6"))
    session.receive(send(b"7"))
    assert len(taken) == 3 and sent(bench) == [b"7"], "it could not, the last time: then it waits for its turn"
    session.receive(send(b"8"))
    bench.port.at_once = None
    session.receive(send(b"9"))
    assert sent(bench) == [b"8", b"9"]


async def test_what_waits_for_an_answer_waits_no_longer_than_that(monkeypatch):
    """Answers are told in their order, and that of an earlier SEND may not come for hours."""
    monkeypatch.setattr(inbound, "RESTS_S", 0.05)
    bench = Bench()
    session, _ = bench.session()
    half: Any = session.inbound
    half.rest()
    session.receive(send(b"1"))
    assert sent(bench) == []
    await eventually(lambda: sent(bench) == [b"1"])
    assert not half.parked and half._rests is None
