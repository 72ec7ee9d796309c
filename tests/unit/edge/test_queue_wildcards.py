"""A wildcard of queues: parts for what is found, in pieces, up to a limit, and none for what its user may not have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import TEMPORARY, Routing
from broker.core.commands import Hold, Subscribe, Transact, Unsubscribe
from broker.core.effects import ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.message import Run
from broker.core.reasons import Reason
from broker.edge.subscribing import queue_wildcards
from broker.edge.subscribing.queue_wildcards import MOST, PIECE, Found

from .bench import Bench


class Known:
    """Queues there are."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.asked: list[list[str]] = []
        self.waiting: Found | None = None

    def find(self, patterns: Iterable[str], most: int, done: Found) -> None:
        self.asked.append(list(patterns))
        self.waiting = done

    def answer(self) -> None:
        done, self.waiting = self.waiting, None
        assert done is not None
        found: Mapping[str, Sequence[str]] = {pattern: self.names for pattern in self.asked[-1]}
        done(found)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_wildcards, "LOOK_S", 0.01)
    monkeypatch.setattr(queue_wildcards, "SPARE", 0)


def made(*names: str) -> tuple[Bench, Known, Any, Any]:
    bench, known = Bench(dialect="activemq"), Known(*names)
    bench.edge.queue_wildcards.found_by(known.find)
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:client-individual\nreceipt:r\n\n\0")
    return bench, known, session, wire


def parts(bench: Bench) -> list[Subscribe]:
    return [each for each in bench.port.commands if isinstance(each, Subscribe) and each.routing is Routing.ANYCAST]


async def turns(until: Any) -> None:
    for _ in range(1000):
        if until():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it does not come")


async def test_what_is_found_has_parts_and_what_comes_has_one_more(often: None) -> None:
    bench, known, session, wire = made("a.x", "a.y")
    standing = bench.port.last(Subscribe)
    assert standing.address.startswith(TEMPORARY) and standing.routing is Routing.MULTICAST
    bench.edge.on_effects([Done(session.id, standing.seq)])
    assert b"receipt-id:r" in wire.take()
    assert known.asked == [["a.#"]]
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.x", "a.y"]
    known.names.append("a.z")
    await turns(lambda: known.waiting)
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.x", "a.y", "a.z"]
    consumers = {part.consumer for part in parts(bench)} | {standing.consumer}
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    assert {each.consumer for each in bench.port.commands if isinstance(each, Unsubscribe)} == consumers
    await turns(lambda: known.waiting is None and not bench.edge.consumers)
    await asyncio.sleep(0.05)
    assert len(known.asked) <= 3  # nobody wants to know any more


async def test_a_queue_that_is_deleted_ends_its_part_alone(often: None) -> None:
    bench, known, session, wire = made("a.x", "a.y")
    known.answer()
    gone = parts(bench)[0].consumer
    wire.take()
    bench.edge.on_effects([ConsumerClosed(gone, Reason.QUEUE_DELETED)])
    assert wire.take() == b"" and not session.closed and gone not in bench.edge.consumers
    await turns(lambda: known.waiting)
    known.answer()  # it was made again meanwhile
    assert [part.address for part in parts(bench)] == ["a.x", "a.y", "a.x"]
    standing = next(each for each in bench.port.commands if isinstance(each, Subscribe))
    bench.edge.on_effects([ConsumerClosed(standing.consumer, Reason.QUEUE_DELETED)])
    assert session.leaving or session.closed


async def test_many_are_made_in_pieces_and_too_many_are_refused(often: None) -> None:
    bench, known, session, wire = made(*[f"a.{number:04}" for number in range(MOST + 1)])
    known.answer()
    assert len(parts(bench)) == PIECE
    await turns(lambda: session.leaving or session.closed)
    assert len(parts(bench)) == MOST
    standing = next(each for each in bench.port.commands if isinstance(each, Subscribe))
    bench.edge.on_effects([Done(session.id, standing.seq)])
    assert b"stands for more than 1000 queues" in wire.take()


async def test_queues_that_its_user_may_not_consume_are_left_out(often: None) -> None:
    bench, known, session, _ = made("a.mine", "a.secret")

    class Rights:
        def at(self, address: str, queue: str | None) -> frozenset[str]:
            return frozenset() if address == "a.secret" else frozenset({"consume"})

    session.rights = Rights()
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.mine"]


async def test_without_anybody_who_knows_queues_it_is_refused() -> None:
    bench = Bench(dialect="activemq")
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\n\n\0")
    assert b"ERROR" in wire.take()


async def test_a_connection_has_a_number_of_them(often: None) -> None:
    bench = Bench(dialect="activemq", max_wildcard_subscriptions=2)
    bench.edge.queue_wildcards.found_by(Known().find)
    session, wire = bench.session()
    for id in (b"1", b"2"):
        session.receive(b"SUBSCRIBE\nid:%b\ndestination:/queue/a.>\n\n\0" % id)
    assert wire.take() == b""
    session.receive(b"SUBSCRIBE\nid:3\ndestination:/queue/b.>\n\n\0")
    for command in [each for each in bench.port.commands if isinstance(each, Subscribe)]:
        bench.edge.on_effects([Done(session.id, command.seq)])
    assert b"max_wildcard_subscriptions" in wire.take()


class Counted(list[str]):
    """How many of its names were looked at."""

    seen = 0

    def __iter__(self) -> Any:
        for name in super().__iter__():
            Counted.seen += 1
            yield name


async def test_what_is_known_is_looked_at_in_pieces_and_nobody_is_asked_meanwhile(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand wildcards of a thousand queues each are a million looks, each second."""
    bench, known, session, _ = made(*[f"a.q{n}" for n in range(40)])
    for n in range(10):
        session.receive(b"SUBSCRIBE\nid:w%d\ndestination:/queue/a.>\nack:client-individual\n\n\0" % n)
    known.answer()
    await turns(lambda: len(parts(bench)) == 11 * 40 and known.waiting)
    monkeypatch.setattr(queue_wildcards, "LOOKED", 100)
    known.names, Counted.seen, asked = Counted(known.names), 0, len(known.asked)
    known.answer()
    steps = []
    while len(known.asked) == asked:
        steps.append(Counted.seen)
        await asyncio.sleep(0 if Counted.seen < 11 * 40 else 0.001)
        assert len(steps) < 5000
    assert steps[0] <= 100 and max(b - a for a, b in pairwise(steps)) <= 100
    assert Counted.seen == 11 * 40, "all of them before anybody is asked again"


async def test_who_comes_and_goes_does_not_have_others_looked_for_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each SUBSCRIBE between two looks left a chain of timers of its own: 4 looks a second became 23, and stayed so."""
    monkeypatch.setattr(queue_wildcards, "LOOK_S", 0.1)
    _, known, session, _ = made("a.x")
    known.answer()
    for n in range(20):
        session.receive(b"SUBSCRIBE\nid:w%d\ndestination:/queue/a.>\n\n\0UNSUBSCRIBE\nid:w%d\n\n\0" % (n, n))
        await asyncio.sleep(0)
        if known.waiting:
            known.answer()
    asked, began = len(known.asked), asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - began < 1.0:
        if known.waiting:
            known.answer()
        await asyncio.sleep(0.01)
    assert 2 <= len(known.asked) - asked <= 12


async def test_what_may_not_be_consumed_takes_no_place_and_is_consumed_when_it_may(often: None) -> None:
    bench, known, session, _ = made("a.mine", *[f"a.secret{n}" for n in range(MOST)])
    allowed = {"a.mine"}

    class Rights:
        def at(self, address: str, queue: str | None) -> frozenset[str]:
            return frozenset({"consume"} if address in allowed else ())

    session.rights = Rights()
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.mine"] and not session.leaving
    await turns(lambda: known.waiting)
    allowed.add("a.secret7")
    known.answer()
    await turns(lambda: known.waiting)
    assert [part.address for part in parts(bench)] == ["a.mine", "a.secret7"] and not session.leaving


async def test_a_part_that_its_owner_refuses_ends_alone_and_is_asked_for_again(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue with max_consumers ended the connection, and everything it consumed elsewhere."""
    bench, known, session, wire = made("a.full", "a.y")
    standing = bench.port.last(Subscribe)
    known.answer()
    full = parts(bench)[0]
    bench.edge.on_effects([Refused(session.id, full.seq, Code.CONSUMER_LIMIT, "a.full has 1 (max_consumers)")])
    assert wire.take() == b"" and not session.leaving and full.consumer not in bench.edge.consumers
    bench.edge.on_effects([Done(session.id, parts(bench)[1].seq), Done(session.id, standing.seq)])
    assert b"receipt-id:r" in wire.take(), "nobody's receipt waits for a part"
    await turns(lambda: known.waiting)
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.full", "a.y"], "not at each look"
    monkeypatch.setattr(bench.edge.clock, "monotonic", lambda now=bench.edge.clock.monotonic: now() + 11)
    await turns(lambda: known.waiting)
    known.answer()
    assert [part.address for part in parts(bench)] == ["a.full", "a.y", "a.full"]


async def test_a_queue_that_goes_before_its_part_is_there_is_not_made_again(often: None) -> None:
    bench, known, session, wire = made("a.x")
    known.answer()
    part = parts(bench)[0]
    assert not part.create
    bench.edge.on_effects([Refused(session.id, part.seq, Code.NOT_ALLOWED, "a.x is not there")])
    assert wire.take() == b"" and not session.leaving
    await turns(lambda: known.waiting)
    known.answer()  # it is there again
    assert len(parts(bench)) == 2


@pytest.mark.parametrize("frame", ["NACK", "ACK"])
async def test_nack_and_transactions_about_a_queue_that_is_gone_are_late(often: None, frame: str) -> None:
    bench, known, session, wire = made("a.x", "a.y")
    known.answer()
    bench.edge.on_effects([Done(session.id, bench.port.commands[0].seq)])
    gone, other = (part.consumer for part in parts(bench))
    bench.edge.on_effects([Deliver(gone, Run([1, 2], b"\n", [b"one\0", b"two\0"], 9), 9)])
    bench.edge.on_effects([Deliver(other, Run([3], b"\n", [b"three\0"], 9), 9)])
    first, second, third = [each.split("\n")[0] for each in wire.take().decode().split("\nack:")[1:]]
    session.receive(f"BEGIN\ntransaction:t\n\n\0ACK\nid:{first}\ntransaction:t\n\n\0".encode())
    bench.edge.on_effects([ConsumerClosed(gone, Reason.QUEUE_DELETED)])
    late = f"{frame}\nid:{second}\nreceipt:late\n\n\0{frame}\nid:{second}\ntransaction:t\nreceipt:too\n\n\0"
    session.receive(late.encode())
    session.receive(f"ACK\nid:{third}\ntransaction:t\n\n\0COMMIT\ntransaction:t\n\n\0".encode())
    told = wire.take()
    assert b"receipt-id:late" in told and b"receipt-id:too" in told and not session.leaving
    assert [part.consumer for part in bench.port.last(Transact).parts] == [other]
    assert {each.consumer for each in bench.port.commands if isinstance(each, Hold)} == {gone, other}


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_what_was_held_of_a_queue_that_is_gone_takes_no_place_and_its_ack_is_late(often: None, ack: str) -> None:
    """Nothing of the other queue was ever shown, and the ACK ended the connection."""
    bench, known = Bench(dialect="activemq"), Known("a.x", "a.y")
    bench.edge.queue_wildcards.found_by(known.find)
    session, wire = bench.session()
    session.receive(f"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:{ack}\nactivemq.prefetchSize:1\n\n\0".encode())
    known.answer()
    gone, other = (part.consumer for part in parts(bench))
    wire.take()
    bench.edge.on_effects([Deliver(gone, Run([1], b"\n", [b"one\0"], 9), 9)])
    bench.edge.on_effects([Deliver(other, Run([2], b"\n", [b"two\0"], 9), 9)])
    shown = wire.take()
    assert b"one" in shown and b"two" not in shown
    bench.edge.on_effects([ConsumerClosed(gone, Reason.QUEUE_DELETED)])
    assert b"two" in wire.take()
    late = shown.split(b"\nack:")[1].split(b"\n")[0]
    session.receive(b"ACK\nid:" + late + b"\nreceipt:late\n\n\0")
    assert b"receipt-id:late" in wire.take() and not session.leaving


@pytest.mark.parametrize("ack", ["client", "client-individual"])
async def test_what_waits_for_long_is_everybodys_again_until_there_is_room(
    often: None, monkeypatch: pytest.MonkeyPatch, ack: str
) -> None:
    """A window of one took a message of each queue, for as long as its client held the first one."""
    monkeypatch.setattr(queue_wildcards, "REST_S", 0.02)
    bench, known = Bench(dialect="activemq"), Known("a.x", "a.y")
    bench.edge.queue_wildcards.found_by(known.find)
    session, wire = bench.session()
    session.receive(f"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:{ack}\nactivemq.prefetchSize:1\n\n\0".encode())
    known.answer()
    one, other = parts(bench)
    wire.take()
    for part, id, body in ((one, 1, b"one\0"), (other, 2, b"two\0")):
        bench.edge.on_effects([Deliver(part.consumer, Run([id], b"\n", [body], 9), 9)])
    shown = wire.take()
    assert b"one" in shown and b"two" not in shown
    await turns(lambda: any(isinstance(each, Unsubscribe) for each in bench.port.commands))
    assert [each.consumer for each in bench.port.commands if isinstance(each, Unsubscribe)] == [other.consumer]
    assert other.consumer not in bench.edge.consumers and one.consumer in bench.edge.consumers
    await turns(lambda: known.waiting)
    known.answer()
    assert len(parts(bench)) == 2, "it rests as long as there is no room"
    session.receive(b"ACK\nid:" + shown.split(b"\nack:")[1].split(b"\n")[0] + b"\n\n\0")
    await turns(lambda: len(parts(bench)) == 3)
    again = parts(bench)[2]
    assert again.address == "a.y" and not again.create
    bench.edge.on_effects([Deliver(again.consumer, Run([2], b"\n", [b"two\0"], 9), 9)])
    assert b"two" in wire.take()


async def test_what_an_open_transaction_has_acknowledged_is_given_to_nobody_else(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its part rested, so its message went to another consumer, and COMMIT was about one that nobody held."""
    monkeypatch.setattr(queue_wildcards, "REST_S", 0.01)
    bench, known = Bench(dialect="activemq"), Known("a.x", "a.y")
    bench.edge.queue_wildcards.found_by(known.find)
    session, wire = bench.session()
    session.receive(
        b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:client-individual\nactivemq.prefetchSize:1\n\n\0"
        b"BEGIN\ntransaction:t\n\n\0"
    )
    known.answer()
    one, other = parts(bench)
    wire.take()
    for part, id in ((one, 1), (other, 2)):
        bench.edge.on_effects([Deliver(part.consumer, Run([id], b"\n", [b"x\0"], 9), 9)])
    ack = wire.take().split(b"\nack:")[1].split(b"\n")[0]
    session.receive(b"ACK\nid:" + ack + b"\ntransaction:t\n\n\0")
    bench.edge.on_effects([Deliver(one.consumer, Run([3], b"\n", [b"x\0"], 9), 9)])
    await asyncio.sleep(0.1)
    assert not any(isinstance(each, Unsubscribe) for each in bench.port.commands)
    session.receive(b"COMMIT\ntransaction:t\n\n\0")
    await turns(lambda: any(isinstance(each, Unsubscribe) for each in bench.port.commands))
    assert [each.consumer for each in bench.port.commands if isinstance(each, Unsubscribe)] == [one.consumer]


async def test_a_queue_that_would_be_emptied_keeps_its_consumer(often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_wildcards, "REST_S", 0.01)
    settings = EngineSettings(addresses={"a.y": {"purge_on_no_consumers": True}})
    bench, known = Bench(dialect="activemq", engine=settings), Known("a.x", "a.y")
    bench.edge.queue_wildcards.found_by(known.find)
    session, _ = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:client\nactivemq.prefetchSize:1\n\n\0")
    known.answer()
    for id, part in enumerate(parts(bench), 1):
        bench.edge.on_effects([Deliver(part.consumer, Run([id], b"\n", [b"x\0"], 9), 9)])
    await asyncio.sleep(0.1)
    assert not any(isinstance(each, Unsubscribe) for each in bench.port.commands)


async def test_however_often_there_is_room_one_piece_is_made_in_a_turn(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ACK began a chain of pieces of its own."""
    monkeypatch.setattr(queue_wildcards, "REST_S", 0.01)
    monkeypatch.setattr(queue_wildcards, "PIECE", 4)
    names = [f"a.{number:02}" for number in range(41)]
    bench, known = Bench(dialect="activemq"), Known(*names)
    bench.edge.queue_wildcards.found_by(known.find)
    session, wire = bench.session()
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:client\nactivemq.prefetchSize:1\n\n\0")
    known.answer()
    await turns(lambda: len(parts(bench)) == 41)
    for id, part in enumerate(parts(bench), 1):
        bench.edge.on_effects([Deliver(part.consumer, Run([id], b"\n", [b"x\0"], 9), 9)])
    ack = wire.take().split(b"\nack:")[1].split(b"\n")[0]
    order = session.subscriptions["1"].split.order
    await turns(lambda: not order.waiting)
    session.receive(b"ACK\nid:" + ack + b"\n\n\0")
    asked: list[object] = []
    soon = bench.edge.beats.soon
    monkeypatch.setattr(bench.edge.beats, "soon", lambda then: (asked.append(then), soon(then))[1])
    for _ in range(39):
        order.eased()
    assert len(asked) <= 1
    await turns(lambda: len(parts(bench)) == 82 or len(parts(bench)) == 81)


async def test_who_loses_many_queues_has_nothing_of_another_connection_forgotten(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections had one list of 10,000: a late ACK of another one ended it."""
    monkeypatch.setattr(queue_wildcards, "REMEMBERED", 3)
    bench, known = Bench(dialect="activemq"), Known("a.x")
    bench.edge.queue_wildcards.found_by(known.find)
    acks = []
    sessions = [bench.session() for _ in range(2)]
    for number, (session, _) in enumerate(sessions):
        session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a.>\nack:client-individual\n\n\0")
        known.names = ["a.x"] if not number else [f"a.{each}" for each in range(9)]
        await turns(lambda: known.waiting)
        known.answer()
    await turns(lambda: len(parts(bench)) >= 10)
    mine = [part for part in parts(bench) if part.session == sessions[0][0].id and part.address == "a.x"]
    others = [part for part in parts(bench) if part.session == sessions[1][0].id]
    bench.edge.on_effects([Deliver(mine[0].consumer, Run([1], b"\n", [b"x\0"], 9), 9)])
    acks.append(sessions[0][1].take().split(b"\nack:")[1].split(b"\n")[0])
    for part in (mine[0], *others):
        bench.edge.on_effects([ConsumerClosed(part.consumer, Reason.QUEUE_DELETED)])
    sessions[0][0].receive(b"ACK\nid:" + acks[0] + b"\nreceipt:late\n\n\0")
    assert b"receipt-id:late" in sessions[0][1].take() and not sessions[0][0].leaving
    remembered = bench.edge.queue_wildcards._ended
    assert len(remembered[sessions[1][0].id]) == 3
    bench.edge.forget(sessions[1][0])
    assert sessions[1][0].id not in remembered
