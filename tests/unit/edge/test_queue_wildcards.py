"""A wildcard of queues: parts for what is found, in pieces, up to a limit, and none for what its user may not have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from broker.core.address import TEMPORARY, Routing
from broker.core.commands import Subscribe, Unsubscribe
from broker.core.effects import ConsumerClosed, Done
from broker.core.reasons import Reason
from broker.edge.requests import queue_wildcards
from broker.edge.requests.queue_wildcards import MOST, PIECE, Found

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
