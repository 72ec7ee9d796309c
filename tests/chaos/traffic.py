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
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import broker.client
from broker.client import Client, ClientError, Message, Subscription

from .history import History, Kind

SETTINGS = {"engine.addresses.chaos.split.partitions": 4}
UNORDERED = ("chaos.split", "chaos.later")
"""Several slots, or an order of its own."""
QUEUES = (
    "chaos.plain", "chaos.batch", "chaos.group", "chaos.split", "chaos.later", "chaos.large", "chaos.a", "chaos.b",
    "chaos.in", "chaos.out", "DLQ",
)  # fmt: skip
SUBSCRIBERS = {"s1": "/topic/chaos.news.x", "s2": "/topic/chaos.news.*"}
DRAIN_TRIES = 5
PAUSE_S = 0.01
"""Between two messages of a producer: about 600/s altogether, which two cores carry beside a cluster."""


def body_of(key: str) -> bytes:
    """The one body that a message of this key may have."""
    seed = zlib.crc32(key.encode())
    size = 200_000 + seed % 1_800_000 if key.startswith("chaos.large") else seed % 300
    start = f"{key} {seed:08x} ".encode()
    return (start * (size // len(start) + 1))[: max(size, len(start))]


@dataclass
class World:
    """What all clients share. `stopping`: nothing new is sent."""

    ports: Callable[[], list[int]]
    random: random.Random
    history: History = field(default_factory=History)
    stopping: bool = False
    names: itertools.count[int] = field(default_factory=itertools.count)
    errors: dict[str, int] = field(default_factory=dict)
    pause_s: float = PAUSE_S

    @contextlib.asynccontextmanager
    async def client(self, name: str, **options: object) -> AsyncIterator[tuple[Client, str]]:
        """A connection to any edge and its name, closed without farewell if anything goes wrong."""
        port = self.random.choice(self.ports())
        me = f"{name}.{next(self.names)}"
        async with asyncio.timeout(10):
            client = await broker.client.connect(
                f"stomp://127.0.0.1:{port}", heartbeat=(2000, 2000), timeout=8, receipt_timeout=30, **options  # type: ignore[arg-type]
            )  # fmt: skip
        self.history.add(Kind.CONNECTED, me)
        try:
            yield client, me
        finally:
            await client.kill()

    async def timed(self, answer: Awaitable[None]) -> None:
        """Awaits an answer; how long it took is kept."""
        begun = time.monotonic()
        await answer
        self.history.waits.append((begun, time.monotonic() - begun))

    def came(self, message: Message, body: bytes, who: str, subscriber: str = "") -> str:
        """Writes a delivery down; its key. A dead letter is a new message, so it counts as marked."""
        key = body[:200].split(b" ", 1)[0].decode(errors="replace")
        full = f"{subscriber}:{key}" if subscriber else key
        marked = message.headers.get("redelivered") == "true" or "dead-letter-reason" in message.headers
        self.history.add(Kind.DELIVERED, full, who=who, redelivered=marked)
        if body != body_of(key):
            self.history.add(Kind.CORRUPT, full)
        return full


async def forever(world: World, session: Callable[[], Awaitable[None]]) -> None:
    """One connection after the other until cancelled."""
    while True:
        try:
            await session()
            if world.stopping:
                return
        except (ClientError, OSError, TimeoutError) as error:
            name = f"{type(error).__name__} {getattr(error, 'code', '') or ''}".strip()
            world.errors[name] = world.errors.get(name, 0) + 1
            await asyncio.sleep(0.05)


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
                    client.send(f"/queue/{queue}", body_of(key), {"persistent": "true", **extra}, receipt=True)
                )
                world.history.add(Kind.RECEIPTED, key)
                await asyncio.sleep(world.pause_s * (20 if queue == "chaos.large" else 1))

    return session


def publisher(world: World, name: str) -> Callable[[], Awaitable[None]]:
    """A topic: one key for each durable subscription, all or nothing."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count():
                if world.stopping:
                    return
                key = f"chaos.news/{me}/{number}"
                copies = [f"{subscriber}:{key}" for subscriber in SUBSCRIBERS]
                for copy in copies:
                    world.history.add(Kind.SENT, copy, tx=f"fan {key}")
                world.history.add(Kind.COMMIT_SENT, f"fan {key}")
                await world.timed(
                    client.send("/topic/chaos.news.x", body_of(key), {"persistent": "true"}, receipt=True)
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
                    await world.timed(client.request("ABORT", [("transaction", tx)], receipt=True))
                else:
                    world.history.add(Kind.COMMIT_SENT, tx)
                    await world.timed(client.request("COMMIT", [("transaction", tx)], receipt=True))
                    world.history.add(Kind.COMMITTED, tx)
                await asyncio.sleep(world.pause_s)

    return session


async def _take(world: World, sub: Subscription, me: str, subscriber: str = "") -> tuple[Message, str]:
    """The next message and its key. Raises StopAsyncIteration at the end."""
    message = await sub.__anext__()
    return message, world.came(message, await message.read(), me, subscriber)


def consumer(world: World, name: str, queue: str) -> Callable[[], Awaitable[None]]:
    """Individual ACKs with receipts; sometimes a NACK; sometimes it goes with messages in its hands."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe(f"/queue/{queue}", "client-individual", prefetch=20)
            async with _subscribed(sub):
                for left in range(world.random.randrange(100, 2000), -1, -1):
                    message, key = await _take(world, sub, me)
                    if left == 0:
                        return
                    if world.random.random() < 0.02:
                        await message.nack()
                        continue
                    await world.timed(message.ack(receipt=True))
                    world.history.add(Kind.SETTLED, key)

    return session


def batcher(world: World, name: str, queue: str) -> Callable[[], Awaitable[None]]:
    """Every tenth ACK covers those before it."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe(f"/queue/{queue}", "client", prefetch=50)
            async with _subscribed(sub):
                while True:
                    batch: list[str] = []
                    message, key = await _take(world, sub, me)
                    batch.append(key)
                    while len(batch) < 10 and (more := await sub.get(0.2)) is not None:
                        message = more
                        batch.append(world.came(more, await more.read(), me))
                    await world.timed(message.ack(receipt=True))
                    for each in batch:
                        world.history.add(Kind.SETTLED, each)

    return session


def mover(world: World, name: str) -> Callable[[], Awaitable[None]]:
    """Takes from chaos.in and writes to chaos.out, both or neither."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe("/queue/chaos.in", "client-individual", prefetch=10)
            async with _subscribed(sub):
                for number in itertools.count():
                    message, key = await _take(world, sub, me)
                    tx, target = f"{me}-{number}", f"chaos.out/{me}~{number}/{key}"
                    await client.request("BEGIN", [("transaction", tx)])
                    await client.request("ACK", [("id", message.headers["ack"]), ("transaction", tx)])
                    world.history.add(Kind.SENT, target, tx=tx)
                    lines = [("destination", "/queue/chaos.out"), ("persistent", "true"), ("transaction", tx)]
                    await client.request("SEND", lines, body_of(target))
                    world.history.add(Kind.COMMIT_SENT, tx)
                    await world.timed(client.request("COMMIT", [("transaction", tx)], receipt=True))
                    world.history.add(Kind.COMMITTED, tx)
                    world.history.add(Kind.SETTLED, key)

    return session


def subscriber(world: World, name: str, ready: asyncio.Event | None = None) -> Callable[[], Awaitable[None]]:
    """A durable subscription of a topic. `ready` is set when it has been there once."""

    async def session() -> None:
        async with world.client(name, client_id=name) as (client, me):
            headers = {"durable-subscription-name": "mine"}
            sub = client.subscribe(SUBSCRIBERS[name], "client-individual", prefetch=20, headers=headers)
            async with _subscribed(sub):
                if ready is not None:
                    ready.set()
                while True:
                    message, key = await _take(world, sub, me, name)
                    await world.timed(message.ack(receipt=True))
                    world.history.add(Kind.SETTLED, key)

    return session


@contextlib.asynccontextmanager
async def _subscribed(sub: Subscription) -> AsyncIterator[None]:
    """SUBSCRIBE with its receipt; no UNSUBSCRIBE at the end: whoever goes here goes without a word."""
    await sub.__aenter__()
    try:
        yield
    except StopAsyncIteration:
        raise ClientError("the subscription has ended") from None


async def drain(world: World) -> None:
    """Over new connections, whatever is still there; nothing that was settled may be."""
    for queue in QUEUES:
        await _again(partial(_drain, world, "drain", f"/queue/{queue}"))
    for name in SUBSCRIBERS:
        headers = {"durable-subscription-name": "mine"}
        await _again(partial(_drain, world, name, SUBSCRIBERS[name], name, client_id=name, headers=headers))


async def _again(session: Callable[[], Awaitable[None]]) -> None:
    """A machine that does other things as well may not answer in time. Raises ClientError when it never does."""
    for left in reversed(range(DRAIN_TRIES)):
        try:
            return await session()
        except (ClientError, OSError, TimeoutError):
            if not left:
                raise
            await asyncio.sleep(1)


async def _drain(
    world: World,
    name: str,
    destination: str,
    subscriber: str = "",
    client_id: str = "",
    headers: dict[str, str] | None = None,
) -> None:
    async with world.client(name, **({"client_id": client_id} if client_id else {})) as (client, me):
        sub = client.subscribe(destination, "client-individual", prefetch=100, headers=headers or {})
        async with _subscribed(sub):
            while (message := await sub.get(2.0)) is not None:
                key = world.came(message, await message.read(), me, subscriber)
                await message.ack(receipt=True)
                world.history.add(Kind.SETTLED, key)


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
        publisher(world, "pn"),
        writer(world, "pw"),
    ]


def consumers(world: World) -> list[Callable[[], Awaitable[None]]]:
    """Everybody who takes, but the durable subscribers."""
    plain = [consumer(world, f"c{n}", queue) for n, queue in enumerate(
        ("chaos.plain", "chaos.plain", "chaos.group", "chaos.group", "chaos.split", "chaos.later", "chaos.large",
         "chaos.a", "chaos.b", "chaos.out"))]  # fmt: skip
    return [*plain, batcher(world, "cb", "chaos.batch"), mover(world, "m1"), mover(world, "m2")]
