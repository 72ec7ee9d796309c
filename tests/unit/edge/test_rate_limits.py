"""Rates: producers are read later, consumers get their room later, nothing is dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.commands import Grant, Publish, Subscribe
from broker.core.errors import Code
from broker.edge.subscriptions.rate_limits import Rates

from .bench import Bench
from .clocked import Socket, Time

SEND = b"SEND\ndestination:/queue/a\n\nx\0"


class Shared:
    """Tokens that another edge may have taken; `away`: nobody can be asked."""

    def __init__(self) -> None:
        self.left = 0
        self.away = False
        self.asked = 0

    def lease(self, name: str, rate: int, most: int, want: int, granted: Any) -> None:
        self.asked += 1
        if self.away:
            granted(None)
            return
        count = min(want, self.left)
        self.left -= count
        granted(count)


def rated(time: Time, tokens: Shared | None = None, **edge: int) -> Bench:
    bench = Bench(**edge)
    bench.edge.rates = Rates(bench.edge.settings.edge, time, time, tokens)  # type: ignore[arg-type]
    return bench


def connected(bench: Bench) -> tuple[Any, Socket]:
    socket = Socket()
    session = bench.edge.open(socket)  # type: ignore[arg-type]
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    socket.take()
    return session, socket


def published(bench: Bench) -> int:
    return sum(len(command.run) for command in bench.port.commands if isinstance(command, Publish))


async def test_without_a_rate_there_is_nothing():
    assert Bench().edge.rates is None


def within(rate: int, published_at: list[tuple[float, int]]) -> bool:
    """In no span were there more than the rate and one second of it (and one: half a message is none)."""
    return all(
        sum(count for at, count in published_at[first : last + 1]) <= rate * (published_at[last][0] - began + 1) + 1
        for first, (began, _) in enumerate(published_at)
        for last in range(first, len(published_at))
    )


@pytest.mark.parametrize("rate", [1, 7, 10, 100, 2000])
@pytest.mark.parametrize("each", [1, 3, 1000])
async def test_a_producer_gets_its_rate_and_no_more_however_it_writes(rate, each):
    time = Time()
    bench = rated(time, max_producer_rate=rate)
    session, socket = connected(bench)
    seen: list[tuple[float, int]] = []
    sent = 0
    for _ in range(12 * 20):
        while socket.reading and sent < rate * 20:
            session.receive(SEND * each)
            sent += each
            if each > 1:
                await asyncio.sleep(0)  # a client that sends much takes a breath (Watch)
        seen.append((time.now, published(bench)))
        bench.port.commands.clear()
        time.run(0.05)
    passed = sum(count for _, count in seen)
    assert within(rate, seen)
    assert passed >= min(12 * rate * 0.95 - 2, sent)


async def test_of_one_read_only_as_much_passes_as_may_and_everything_in_its_order():
    """2,019 passed in the first second of a rate of 10."""
    time = Time()
    bench = rated(time, max_producer_rate=10)
    session, _ = connected(bench)
    frames = [b"SEND\ndestination:/queue/a\nreceipt:%d\n\n%d\0" % (i, i) for i in range(40)]
    frames.insert(15, b"SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0")
    session.receive(b"".join(frames) + b"DISCONNECT\nreceipt:bye\n\n\0")
    seen: list[tuple[float, int]] = []
    for _ in range(40):
        seen.append((time.now, published(bench) - sum(count for _, count in seen)))
        time.run(0.2)
    assert within(10, seen) and published(bench) == 40
    kinds = [type(command).__name__ for command in bench.port.commands]
    assert kinds.index("Subscribe") > 0 and kinds[-1] != "Publish"
    bodies = [record for c in bench.port.commands if isinstance(c, Publish) for record in c.run.records]
    assert [record.split(b"\n\n")[-1] for record in bodies] == [b"%d\0" % i for i in range(40)]


async def test_a_connection_that_is_cut_off_or_refused_meanwhile_takes_nothing_of_what_waits():
    time = Time()
    bench = rated(time, max_producer_rate=10)
    gone, _ = connected(bench)
    refused, _ = connected(bench)
    gone.receive(SEND * 100)
    refused.receive(SEND * 5)
    refused.fail(Code.NOT_ALLOWED, "test")
    passed = published(bench)
    gone.lost()
    time.run(30)
    assert published(bench) == passed


async def test_who_half_closes_has_everything_taken():
    time = Time()
    bench = rated(time, max_producer_rate=10)
    session, _ = connected(bench)
    session.receive(SEND * 30)
    session.eof()
    time.run(5)
    assert published(bench) == 30 and session.closed


async def test_all_connections_of_a_user_share_the_rate_and_take_turns():
    time = Time()
    bench = rated(time, max_producer_rate=100)
    pairs = [connected(bench) for _ in range(3)]
    for session, _ in pairs:
        session.receive(SEND * 600)
    assert not any(socket.reading for _, socket in pairs)
    time.run(6)
    by_session = [0, 0, 0]
    for command in bench.port.commands:
        if isinstance(command, Publish):
            by_session[[session.id for session, _ in pairs].index(command.session)] += len(command.run)
    assert sum(by_session) <= 700 and min(by_session) > 150, by_session
    time.run(20)
    assert all(socket.reading for _, socket in pairs) and published(bench) == 1800


async def test_who_sends_nothing_is_read_on():
    time = Time()
    bench = rated(time, max_producer_rate=10)
    sender, paused = connected(bench)
    other, socket = connected(bench)
    sender.receive(SEND * 100)
    other.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert not paused.reading and socket.reading


async def test_a_consumers_room_comes_back_by_its_rate():
    time = Time()
    bench = rated(time, max_consumer_rate=10)
    session, _ = connected(bench)
    consumer = bench.subscribed(session)
    bench.port.commands.clear()
    bench.deliver(consumer, *[b"x"] * 30, cost=16_000)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    time.run(1)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    time.run(2.5)
    assert [command.nbytes for command in bench.port.commands if isinstance(command, Grant)] == [16_000]


async def test_a_consumer_with_a_rate_has_little_under_way():
    bench = Bench(max_consumer_rate=10)
    session, _ = bench.session()
    bench.subscribed(session)
    assert bench.port.commands[-1].room == 2 * 64  # a fifth of a second's, however small they are


async def test_shared_tokens_decide_and_are_asked_in_slices():
    time, shared = Time(), Shared()
    bench = rated(time, shared, max_producer_rate=1000)
    session, socket = connected(bench)
    session.receive(SEND)
    assert not socket.reading
    shared.left = 500
    time.run(0.2)
    assert socket.reading
    asked = shared.asked
    for _ in range(40):
        session.receive(SEND)
    assert shared.asked == asked


async def test_without_the_shared_tokens_the_edge_has_the_rate_for_itself():
    time, shared = Time(), Shared()
    shared.away = True
    bench = rated(time, shared, max_producer_rate=100)
    session, socket = connected(bench)
    session.receive(SEND * 40)
    assert socket.reading
    session.receive(SEND * 60)
    assert not socket.reading
    time.run(1.2)
    assert socket.reading


async def test_who_subscribes_while_the_rate_is_used_up_begins_when_it_is_not():
    time = Time()
    bench = rated(time, max_consumer_rate=10)
    session, _ = connected(bench)
    consumer = bench.subscribed(session)
    bench.deliver(consumer, *[b"x"] * 30, cost=16_000)
    session.receive(b"SUBSCRIBE\nid:late\ndestination:/queue/b\n\n\0")
    late = bench.port.last(Subscribe)
    assert late.room == 0
    bench.port.commands.clear()
    time.run(1)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    time.run(2.5)
    assert late.consumer in [command.consumer for command in bench.port.commands if isinstance(command, Grant)]
