"""Rates of edge.quotas: messages and bytes a second of users, hosts and addresses; shared, divided, live, owed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.quotas import RATES, QuotaSettings, check_quota
from broker.core.commands import Grant, Publish, Subscribe
from broker.core.errors import ConfigError
from broker.edge.quotas.meters import Way
from broker.edge.subscriptions.rate_limits import Rates

from .bench import Bench
from .clocked import Socket, Time

SEND = b"SEND\ndestination:/queue/a\n\n%b\0"
Table = dict[str, dict[str, int]]


class Shared:
    """Tokens of all edges; keeps who asked for which rate."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.away = False

    def lease(self, name: str, rate: int, most: int, want: int, granted: Any) -> None:
        self.asked[name] = rate
        granted(None if self.away else want)


def rated(time: Time, table: Table, tokens: Shared | None = None) -> Bench:
    bench = Bench(quotas=table)
    if bench.edge.rates is not None:
        bench.edge.rates = Rates(bench.edge.settings.edge, time, time, tokens, bench.edge.quotas)  # type: ignore[arg-type]
    return bench


def connected(bench: Bench, peer: str = "10.0.0.7:1") -> tuple[Any, Socket]:
    socket = Socket()
    socket.peer = peer
    session = bench.edge.open(socket)  # type: ignore[arg-type]
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    socket.take()
    return session, socket


def published(bench: Bench) -> int:
    return sum(len(command.run) for command in bench.port.commands if isinstance(command, Publish))


def test_ways_stand_as_the_settings_do():
    assert [way.name for way in Way] == ["IN", "IN_BYTES", "OUT", "OUT_BYTES"]
    assert RATES == ("max_producer_rate", "max_producer_byte_rate", "max_consumer_rate", "max_consumer_byte_rate")


async def test_without_a_rate_among_the_quotas_nobody_is_paced():
    assert Bench(quotas={"user:*": {"max_connections": 3}}).edge.rates is None


async def test_connections_of_one_address_share_its_rate_and_another_address_has_its_own():
    time = Time()
    bench = rated(time, {"ip:*": {"max_producer_rate": 10}})
    one, two, other = connected(bench), connected(bench, "10.0.0.7:2"), connected(bench, "10.0.0.8:1")
    for session, _ in (one, two):
        session.receive(SEND % b"x" * 40)
    time.run(2)
    first = published(bench)
    assert 15 <= first <= 30 and not one[1].reading and not two[1].reading
    other[0].receive(SEND % b"x" * 5)
    assert published(bench) == first + 5 and other[1].reading
    time.run(10)
    assert published(bench) == 85 and one[1].reading and two[1].reading


@pytest.mark.parametrize(("rate", "size"), [(10_000, 10), (10_000, 900), (300, 900)])
async def test_bytes_have_a_rate_and_a_large_message_is_owed(rate, size):
    time = Time()
    bench = rated(time, {"user:*": {"max_producer_byte_rate": rate}})
    session, socket = connected(bench)
    seen: list[tuple[float, int]] = []
    for _ in range(200):
        while socket.reading:
            session.receive(SEND % (b"x" * size) * 3)
        nbytes = sum(command.run.nbytes for command in bench.port.commands if isinstance(command, Publish))
        seen.append((time.now, nbytes))
        time.run(0.1)
    began, passed = seen[0][0], seen[-1][1]
    spent = seen[-1][0] - began
    assert rate * spent * 0.9 - size <= passed <= rate * (spent + 1) + size + 100


async def test_a_streamed_body_is_read_by_the_rate_too():
    time = Time()
    bench = rated(time, {"user:*": {"max_producer_byte_rate": 1000}})
    session, socket = connected(bench)
    session.receive(b"SEND\ndestination:/queue/a\ncontent-length:5000\n\n" + b"x" * 2000)
    session.receive(b"x" * 1000)
    assert not socket.reading and len(bench.port.writers[0].data) == 2000, "the first piece is owed"
    for _ in range(30):
        if socket.reading:
            session.receive(b"x" * 1000)
        time.run(0.1)
    assert 2000 < len(bench.port.writers[0].data) <= 4500, "3 s of 1,000 bytes"


async def test_who_comes_back_has_not_paid_by_going():
    time = Time()
    bench = rated(time, {"user:*": {"max_producer_byte_rate": 100}})
    for _ in range(5):
        session, _ = connected(bench)
        session.receive(SEND % (b"x" * 900))
        session.lost()
    assert published(bench) == 1
    time.run(20)
    assert not bench.edge.quotas.accounts, "an account that owes nothing stays"


async def test_what_is_delivered_has_a_rate_and_little_is_under_way():
    time = Time()
    bench = rated(time, {"user:*": {"max_consumer_rate": 10}})
    session, _ = connected(bench)
    consumer = bench.subscribed(session)
    assert bench.port.last(Subscribe).room == 2 * 64
    bench.port.commands.clear()
    bench.deliver(consumer, *[b"x"] * 30, cost=16_000)
    time.run(1)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    time.run(2.5)
    assert [command.nbytes for command in bench.port.commands if isinstance(command, Grant)] == [16_000]


async def test_bytes_delivered_have_a_rate():
    time = Time()
    bench = rated(time, {"user:*": {"max_consumer_byte_rate": 1000}})
    session, _ = connected(bench)
    consumer = bench.subscribed(session)
    assert bench.port.last(Subscribe).room == 200
    bench.port.commands.clear()
    bench.deliver(consumer, b"x" * 3000)
    time.run(1.5)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    time.run(2.5)
    assert [command for command in bench.port.commands if isinstance(command, Grant)]


async def test_edges_that_share_tokens_ask_for_the_whole_rate_and_others_have_their_part():
    time, shared = Time(), Shared()
    bench = rated(time, {"user:*": {"max_producer_rate": 90}}, shared)
    bench.edge.quotas.shared_by(3, 0)
    session, _ = connected(bench)
    session.receive(SEND % b"x" * 50)
    assert shared.asked == {"quota-in:user:anonymous": 90} and published(bench) == 50
    shared.away = True
    session.receive(SEND % b"x" * 300)
    before = published(bench)
    time.run(2)
    assert 45 <= published(bench) - before <= 80, "30 a second"


async def test_a_user_who_is_called_like_a_quota_takes_nothing_of_it():
    """`user:ada`, with a rate of all users, drew from the bucket of ada's quota."""
    bench, shared = Bench(quotas={"user:ada": {"max_producer_rate": 90}}, max_producer_rate=1000), Shared()
    rates = Rates(bench.edge.settings.edge, Time(), Time(), shared, bench.edge.quotas)  # type: ignore[arg-type]
    ada = bench.edge.quotas.usage("ada", "/", "10.0.0.7")
    for name, usage in (("user:ada", None), ("ada", ada)):
        rates._sending(SimpleNamespace(principal=name, usage=usage))  # type: ignore[arg-type]
    assert sorted(shared.asked) == ["in:ada", "in:user:ada", "quota-in:user:ada"]


async def test_a_rate_comes_and_goes_live():
    bench = Bench()
    session, socket = connected(bench)
    bench.edge.limit({"user:*": {"max_producer_rate": 2}})
    session.receive(SEND % b"x" * 50)
    assert published(bench) < 5 and not socket.reading
    bench.edge.limit({"user:*": {"max_connections": 10}})
    assert published(bench) == 50 and socket.reading, "it waits for a rate that is not there any more"


async def test_a_consumer_that_waited_for_a_rate_goes_on_without_it():
    bench = rated(Time(), {"user:*": {"max_consumer_rate": 1}})
    session, _ = connected(bench)
    consumer = bench.subscribed(session)
    bench.deliver(consumer, *[b"x"] * 1000, cost=16_000)
    assert not [command for command in bench.port.commands if isinstance(command, Grant)]
    bench.edge.limit({})
    assert [command.nbytes for command in bench.port.commands if isinstance(command, Grant)] == [16_000]


async def test_metrics_tell_what_passed_and_who_waits():
    time = Time()
    bench = rated(time, {"user:*": {"max_producer_rate": 10}})
    session, _ = connected(bench)
    session.receive(SEND % b"x" * 50)
    bench.edge.limit({"user:*": {"max_producer_rate": 10}})
    shown = {
        (family.name, labels["limit"]): value  # type: ignore[index]
        for family in bench.edge.quotas.metrics()
        for labels, value in family.samples  # type: ignore[misc]
    }
    assert shown["stomp_quota_passed_total", "max_producer_rate"] == published(bench)
    assert shown["stomp_quota_waits_total", "max_producer_rate"] == 2, "once more, when it was judged anew"
    assert shown["stomp_quota_limit", "max_producer_rate"] == 10


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"max_producer_rate: 0 would make everybody wait for ever"):
        check_quota("user:ada", QuotaSettings(max_producer_rate=0), "edge.quotas.ada")
