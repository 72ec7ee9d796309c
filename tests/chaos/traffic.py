"""Clients of every kind that outlive what is done to the cluster, and write down what they see.

Rule: nothing is sent twice: what got no answer stays unknown. Whoever loses its connection opens another one at any
edge; being refused or thrown out is no broken promise, only what the history shows is.

| queue | traffic |
| --- | --- |
| chaos.plain | receipts; individual ACKs with receipts, some NACKs, some consumers that go without a word |
| chaos.batch | cumulative ACKs (mode `client`), every tenth message |
| chaos.group | JMSXGroupID, two groups, each with a producer of its own |
| chaos.split | an address of four partitions |
| chaos.later | AMQ_SCHEDULED_DELAY up to 4 s |
| chaos.large | bodies of 200 KB to 2 MB |
| chaos.a, chaos.b | written together in transactions, every sixth aborted |
| chaos.in → chaos.out | moved by ACK and SEND in one transaction |
| chaos.news.x | a topic with a durable subscription to it and one to chaos.news.* |
| chaos.sized | bodies of 40 bytes to 8 MB: larger ones than an edge keeps (`cluster.kept_body_bytes`) |
| chaos.still.0 … | nothing else is in their slots; a receipt for each before the next one; taken at the end alone |
| chaos.grown, chaos.spread | a queue and a topic whose addresses get more partitions (faults.py) |
| others | passing.py |

Some clients have no heart-beats: they stay at an edge that is frozen, and hear what it says afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from functools import partial

from broker.client import ClientError

from . import passing
from .history import Kind
from .world import World, body_of, subscribed, take

SETTINGS: dict[str, object] = {
    "engine.addresses.chaos.split.partitions": 4,
    "engine.addresses.chaos.brief.expiry_address": "chaos.expired",
    "cluster.kept_body_bytes": 4 << 20,
    "journal.segment_bytes": 1 << 20,
}
UNORDERED = ("chaos.split", "chaos.later", "chaos.grown", "s3:chaos.spread", "expired:chaos.brief")
"""Several slots, or an order of its own."""
STILL = tuple(f"chaos.still.{n}" for n in range(8))
STAYS = (*passing.STAYS, *(f"{queue}/" for queue in STILL))
"""Nobody takes all of these before everything is drained."""
QUEUES = (
    "chaos.plain", "chaos.batch", "chaos.group", "chaos.split", "chaos.later", "chaos.large", "chaos.a", "chaos.b",
    "chaos.in", "chaos.out", "chaos.sized", "chaos.grown", *STILL, *passing.QUEUES, "DLQ",
)  # fmt: skip
SUBSCRIBERS = {"s1": "/topic/chaos.news.x", "s2": "/topic/chaos.news.*", "s3": "/topic/chaos.spread"}
READERS = {"chaos.news.x": ("s1", "s2"), "chaos.spread": ("s3",)}
SLOW = {"chaos.large": 20, "chaos.sized": 20, **dict.fromkeys(STILL, 2)}
"""Queue → so many pauses between two messages of a producer."""
DRAIN_S = 300.0
"""For a queue, on a machine that does other things as well."""


def producer(world: World, name: str, queue: str, **headers: Callable[[], str]) -> Callable[[], Awaitable[None]]:
    """Numbered messages with a receipt each. `headers`: name → what gives the value of the next message."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count():
                if world.stopping:
                    return
                key = f"{queue}/{me}/{number}"
                extra = {header: value() for header, value in headers.items()}
                delay = float(extra.get("AMQ_SCHEDULED_DELAY", 0)) / 1000
                world.history.add(Kind.SENT, key, due=time.time() + delay if delay else 0.0)
                await world.timed(
                    client.send(f"/queue/{queue}", body_of(key), {"persistent": "true", **extra}, receipt=True), key
                )
                world.history.add(Kind.RECEIPTED, key)
                await asyncio.sleep(world.pause_s * SLOW.get(queue, 1))

    return session


def publisher(world: World, name: str, topic: str) -> Callable[[], Awaitable[None]]:
    """A topic: one key for each durable subscription, all or nothing."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count():
                if world.stopping:
                    return
                key = f"{topic}/{me}/{number}"
                copies = [f"{subscriber}:{key}" for subscriber in READERS[topic]]
                for copy in copies:
                    world.history.add(Kind.SENT, copy, tx=f"fan {key}")
                world.history.add(Kind.COMMIT_SENT, f"fan {key}")
                await world.timed(
                    client.send(f"/topic/{topic}", body_of(key), {"persistent": "true"}, receipt=True), key
                )
                for copy in copies:
                    world.history.add(Kind.RECEIPTED, copy)
                await asyncio.sleep(world.pause_s)

    return session


def writer(world: World, name: str) -> Callable[[], Awaitable[None]]:
    """Transactions over two queues, which mostly lie at two owners; every sixth is aborted."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count(0, 2):
                if world.stopping:
                    return
                tx = f"{me}-{number}"
                await client.request("BEGIN", [("transaction", tx)])
                for offset, queue in enumerate(("chaos.a", "chaos.b")):
                    key = f"{queue}/{me}/{number + offset}"
                    world.history.add(Kind.SENT, key, tx=tx)
                    lines = [("destination", f"/queue/{queue}"), ("persistent", "true"), ("transaction", tx)]
                    await client.request("SEND", lines, body_of(key))
                if number % 12 == 10:
                    world.history.add(Kind.ABORTED, tx)
                    await world.timed(client.request("ABORT", [("transaction", tx)], receipt=True), f"ABORT {tx}")
                else:
                    world.history.add(Kind.COMMIT_SENT, tx)
                    await world.timed(client.request("COMMIT", [("transaction", tx)], receipt=True), f"COMMIT {tx}")
                    world.history.add(Kind.COMMITTED, tx)
                await asyncio.sleep(world.pause_s)

    return session


def consumer(world: World, name: str, queue: str, beats: bool = True) -> Callable[[], Awaitable[None]]:
    """Individual ACKs with receipts; sometimes a NACK; sometimes it goes with messages in its hands."""

    async def session() -> None:
        async with world.client(name, beats=beats) as (client, me):
            sub = client.subscribe(f"/queue/{queue}", "client-individual", prefetch=20)
            async with subscribed(sub):
                for left in range(world.random.randrange(100, 2000), -1, -1):
                    message, key = await take(world, sub, me)
                    if left == 0:
                        return
                    if world.random.random() < 0.02:
                        await message.nack()
                        continue
                    await world.timed(message.ack(receipt=True), f"ACK of {key} by {me}")
                    world.history.add(Kind.SETTLED, key, who=me)

    return session


def batcher(world: World, name: str, queue: str) -> Callable[[], Awaitable[None]]:
    """Every tenth ACK covers those before it."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe(f"/queue/{queue}", "client", prefetch=50)
            async with subscribed(sub):
                while True:
                    batch: list[str] = []
                    message, key = await take(world, sub, me)
                    batch.append(key)
                    while len(batch) < 10 and (more := await sub.get(0.2)) is not None:
                        message = more
                        batch.append(world.came(more, await more.read(), me))
                    await world.timed(message.ack(receipt=True), f"ACK of {batch[-1]} by {me}")
                    for each in batch:
                        world.history.add(Kind.SETTLED, each, who=me)

    return session


def mover(world: World, name: str, beats: bool = True, thinks_s: float = 0.0) -> Callable[[], Awaitable[None]]:
    """Takes from chaos.in and writes to chaos.out, both or neither. `thinks_s`: so long at most, first."""

    async def session() -> None:
        async with world.client(name, beats=beats) as (client, me):
            sub = client.subscribe("/queue/chaos.in", "client-individual", prefetch=10)
            async with subscribed(sub):
                for number in itertools.count():
                    message, key = await take(world, sub, me)
                    tx, target = f"{me}-{number}", f"chaos.out/{me}~{number}/{key}"
                    await client.request("BEGIN", [("transaction", tx)])
                    await client.request("ACK", [("id", message.headers["ack"]), ("transaction", tx)])
                    world.history.add(Kind.SENT, target, tx=tx)
                    lines = [("destination", "/queue/chaos.out"), ("persistent", "true"), ("transaction", tx)]
                    await client.request("SEND", lines, body_of(target))
                    await asyncio.sleep(world.random.uniform(0, thinks_s))
                    world.history.add(Kind.COMMIT_SENT, tx)
                    await world.timed(client.request("COMMIT", [("transaction", tx)], receipt=True), f"COMMIT {tx}")
                    world.history.add(Kind.COMMITTED, tx)
                    world.history.add(Kind.SETTLED, key, who=me)

    return session


def subscriber(world: World, name: str, ready: asyncio.Event | None = None) -> Callable[[], Awaitable[None]]:
    """A durable subscription of a topic. `ready` is set when it has been there once."""

    async def session() -> None:
        async with world.client(name, client_id=name) as (client, me):
            headers = {"durable-subscription-name": "mine"}
            sub = client.subscribe(SUBSCRIBERS[name], "client-individual", prefetch=20, headers=headers)
            async with subscribed(sub):
                if ready is not None:
                    ready.set()
                while True:
                    message, key = await take(world, sub, me, name)
                    await world.timed(message.ack(receipt=True), f"ACK of {key} by {me}")
                    world.history.add(Kind.SETTLED, key, who=me)

    return session


async def drain(world: World, patience_s: float) -> None:
    """Over new connections, whatever is still there; nothing that was settled may be."""
    drain = partial(_drain, world, patience_s)
    drains = [partial(drain, "drain", f"/queue/{queue}") for queue in QUEUES if queue != "DLQ"]
    headers = {"durable-subscription-name": "mine"}
    for name in SUBSCRIBERS:
        drains.append(partial(drain, name, SUBSCRIBERS[name], name, client_id=name, headers=headers))
    await asyncio.gather(*map(_again, drains))
    await _again(partial(drain, "drain", "/queue/DLQ"))  # last: what comes of the others is there by then


async def _again(session: Callable[[], Awaitable[None]]) -> None:
    """A machine that does other things as well may not answer in time. Raises ClientError when it never does."""
    end = time.monotonic() + DRAIN_S
    while True:
        try:
            return await session()
        except (ClientError, OSError, TimeoutError):
            if time.monotonic() > end:
                raise
            await asyncio.sleep(1)


async def _drain(
    world: World,
    patience_s: float,
    name: str,
    destination: str,
    subscriber: str = "",
    client_id: str = "",
    headers: dict[str, str] | None = None,
) -> None:
    options: dict[str, object] = {"client_id": client_id} if client_id else {}
    async with world.client(name, beats=True, **options) as (client, me):
        sub = client.subscribe(destination, "client-individual", prefetch=100, headers=headers or {})
        async with subscribed(sub):
            while (message := await sub.get(patience_s)) is not None:
                key = world.came(message, await message.read(), me, subscriber)
                await message.ack(receipt=True)
                world.history.add(Kind.SETTLED, key, who=me)


def producers(world: World) -> list[Callable[[], Awaitable[None]]]:
    """Everybody who sends."""
    later = world.random
    return [
        producer(world, "p1", "chaos.plain"),
        producer(world, "p2", "chaos.plain"),
        producer(world, "pb", "chaos.batch"),
        producer(world, "pgx", "chaos.group", JMSXGroupID=lambda: "x"),
        producer(world, "pgy", "chaos.group", JMSXGroupID=lambda: "y"),
        producer(world, "ps", "chaos.split"),
        producer(world, "pl", "chaos.later", AMQ_SCHEDULED_DELAY=lambda: str(later.randrange(200, 4000))),
        producer(world, "px", "chaos.large"),
        producer(world, "pi", "chaos.in"),
        producer(world, "pz", "chaos.sized"),
        producer(world, "pg", "chaos.grown"),
        producer(world, "pa", "chaos.auto"),
        producer(world, "pv", "chaos.leave"),
        *[producer(world, f"pq{n}", queue) for n, queue in enumerate(STILL)],
        publisher(world, "pn", "chaos.news.x"),
        publisher(world, "pd", "chaos.spread"),
        writer(world, "pw"),
        *passing.producers(world),
    ]


def consumers(world: World) -> list[Callable[[], Awaitable[None]]]:
    """Everybody who takes, but the durable subscribers."""
    plain = [consumer(world, f"c{n}", queue, n % 3 != 0) for n, queue in enumerate(
        ("chaos.plain", "chaos.plain", "chaos.group", "chaos.group", "chaos.split", "chaos.later", "chaos.large",
         "chaos.a", "chaos.b", "chaos.out", "chaos.sized", "chaos.grown", "chaos.left", "chaos.expired"))]  # fmt: skip
    movers = [mover(world, "m1"), mover(world, "m2", beats=False), mover(world, "m3", beats=False, thinks_s=0.5)]
    return [*plain, batcher(world, "cb", "chaos.batch"), *movers, *passing.consumers(world)]
