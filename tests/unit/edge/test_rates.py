"""Rates: producers are read later, consumers get their room later, nothing is dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.commands import Grant, Publish
from broker.edge.rates import Rates

from .clocked import Socket, Time
from .test_session import Bench

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


@pytest.mark.parametrize("rate", [1, 7, 100, 2000])
async def test_a_producer_gets_its_rate_and_everything_it_sent_is_taken(rate):
    time = Time()
    bench = rated(time, max_producer_rate=rate)
    session, socket = connected(bench)
    sent, each = 0, rate // 10 + 1
    for _ in range(50 * 20):
        if socket.reading:
            session.receive(SEND * each)
            sent += each
            await asyncio.sleep(0)  # a client that sends much takes a breath (Watch)
        time.run(0.05)
    assert published(bench) == sent
    # A burst of half a second at first, and the last read may be ahead by its own size.
    assert 50 * rate * 0.97 <= sent <= 50 * rate + rate * 0.6 + each + 2


async def test_all_connections_of_a_user_share_the_rate_and_reading_begins_again_for_all():
    time = Time()
    bench = rated(time, max_producer_rate=100)
    pairs = [connected(bench) for _ in range(3)]
    for session, _ in pairs:
        session.receive(SEND * 60)
    assert not pairs[2][1].reading
    time.run(3)
    assert all(socket.reading for _, socket in pairs)


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
    assert bench.port.commands[-1].room == 16 * 1024


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
