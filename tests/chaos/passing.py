"""Clients of a chaos run that leave less to hold on to: what expires, what is consumed on arrival, who only looks, who
says goodbye and waits for no answer.

Rule: as in world.py. What may be promised of each stands in promises.py.

| queue | traffic |
| --- | --- |
| chaos.brief → chaos.expired | times to live of 0.3 to 5 s, a consumer that is too slow for half of them |
| chaos.auto | one consumer with `ack:auto`, which goes without a word now and then |
| chaos.shelf | nobody takes anything; browsers look at it, and at chaos.plain |
| chaos.vault | nobody takes anything; up to 512 KB: for copies (copies.py) |
| chaos.news.# | subscribers without a durable name |
| chaos.held.0 … | a consumer each that holds twenty, and thinks before each ACK: one is always about to be said |
| chaos.leave → chaos.left | five ACKs, or a COMMIT of them and a SEND, and DISCONNECT in one write; no receipts |
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from broker.client import Client, ConnectionLost, Subscription

from .history import Kind
from .world import World, body_of, key_of, subscribed, take

HELD = tuple(f"chaos.held.{n}" for n in range(6))
QUEUES = (
    "chaos.shelf", "chaos.vault", "chaos.auto", "chaos.leave", "chaos.left", "chaos.brief", "chaos.expired", *HELD,
)  # fmt: skip
STAYS = ("chaos.shelf/", "chaos.vault/", "chaos.held.")
LOOKS = 20
"""Of one browser's connection."""
SHELF_S = 0.5
"""Between two messages of a queue that only grows."""
HELD_S, THINKS_S = 0.1, 0.25
"""Between two messages of chaos.held; at most, before an ACK: more than come at a time are there, and wait."""
GOODBYE_S = 10.0
"""Until the broker must have closed a connection after DISCONNECT."""
Session = Callable[[], Awaitable[None]]


def brief(world: World, name: str) -> Session:
    """Messages that expire."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count():
                if world.stopping:
                    return
                key = f"chaos.brief/{me}/{number}"
                expires = time.time() + world.random.uniform(0.3, 5)
                world.history.add(Kind.SENT, key, expires=expires)
                world.history.add(Kind.SENT, f"expired:{key}")
                headers = {"persistent": "true", "expires": str(int(expires * 1000))}
                await world.timed(client.send("/queue/chaos.brief", body_of(key), headers, receipt=True), key)
                world.history.add(Kind.RECEIPTED, key)
                await asyncio.sleep(world.pause_s * 2)

    return session


def dawdler(world: World, name: str) -> Session:
    """Takes its time."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe("/queue/chaos.brief", "client-individual", prefetch=3)
            async with subscribed(sub):
                while True:
                    message, key = await take(world, sub, me)
                    await asyncio.sleep(world.pause_s * world.random.uniform(0, 8))
                    await world.timed(message.ack(receipt=True), f"ACK of {key} by {me}")
                    world.history.add(Kind.SETTLED, key, who=me)

    return session


def taker(world: World, name: str) -> Session:
    """`ack:auto`."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe("/queue/chaos.auto", "auto")
            async with subscribed(sub):
                for _ in range(world.random.randrange(100, 1000)):
                    await take(world, sub, me)

    return session


def ponderer(world: World, name: str, queue: str) -> Session:
    """Holds many, and acknowledges one after the other: whatever is done to the owner of this queue, an ACK is said
    just then, and what its client has the receipt of must not come again."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe(f"/queue/{queue}", "client-individual", prefetch=20)
            async with subscribed(sub):
                while True:
                    message, key = await take(world, sub, me)
                    await asyncio.sleep(world.random.uniform(0, THINKS_S))
                    await world.timed(message.ack(receipt=True), f"ACK of {key} by {me}")
                    world.history.add(Kind.SETTLED, key, who=me)

    return session


def stocker(world: World, name: str, queue: str, pause_s: float = SHELF_S) -> Session:
    """Sends all the time: what stays until the end, or comes faster than it is taken."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in itertools.count():
                if world.stopping:
                    return
                key = f"{queue}/{me}/{number}"
                world.history.add(Kind.SENT, key)
                await world.timed(
                    client.send(f"/queue/{queue}", body_of(key), {"persistent": "true"}, receipt=True), key
                )
                world.history.add(Kind.RECEIPTED, key)
                await asyncio.sleep(pause_s)

    return session


def browser(world: World, name: str, queue: str) -> Session:
    """Looks, one time after the other."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            for number in range(LOOKS):
                look = f"{me}-{number}"
                world.history.add(Kind.LOOKS, queue, who=look)
                await _look(world, client.subscribe(f"/queue/{queue}", browse=True), queue, look)
                await asyncio.sleep(world.random.uniform(0.2, 2))

    return session


async def _look(world: World, sub: Subscription, queue: str, look: str) -> None:
    async with subscribed(sub):
        async for message in sub:
            body = await message.read()
            world.history.add(Kind.SEEN, key_of(body), who=look)
            if body != body_of(key_of(body)):
                world.history.add(Kind.CORRUPT, key_of(body))
        world.history.add(Kind.LOOKED, queue, who=look)
        await sub.client.request("UNSUBSCRIBE", [("id", sub.id)], receipt=True)


def watcher(world: World, name: str, beats: bool) -> Session:
    """A topic, by a wildcard and without a durable name."""

    async def session() -> None:
        async with world.client(name, beats=beats) as (client, me):
            sub = client.subscribe("/topic/chaos.news.#", "auto")
            async with subscribed(sub):
                world.history.add(Kind.SUBSCRIBED, me)
                while True:
                    message = await sub.__anext__()
                    world.history.add(Kind.SEEN, key_of(await message.read()), who=me)

    return session


def leaver(world: World, name: str) -> Session:
    """Goes with DISCONNECT, which stands behind what it asks for in one read of its edge."""

    async def session() -> None:
        async with world.client(name) as (client, me):
            sub = client.subscribe("/queue/chaos.leave", "client-individual", prefetch=8)
            async with subscribed(sub):
                taken = [await take(world, sub, me) for _ in range(5)]
                acks = [message.headers["ack"] for message, _ in taken]
                done = [key for _, key in taken]
                if world.random.random() < 0.5:
                    done.append(target := f"chaos.left/{me}/0")
                    await _in_transaction(world, client, me, acks, target)
                else:
                    for ack in acks:
                        await client.request("ACK", [("id", ack)])
                await client.request("DISCONNECT", [])
                if await _closed(world, sub, me):
                    for key in done:
                        world.history.add(Kind.PARTED, key)
        await asyncio.sleep(world.pause_s)

    return session


async def _in_transaction(world: World, client: Client, tx: str, acks: list[str], target: str) -> None:
    world.history.add(Kind.SENT, target, tx=tx)
    world.history.add(Kind.COMMIT_SENT, tx)
    await client.request("BEGIN", [("transaction", tx)])
    for ack in acks:
        await client.request("ACK", [("id", ack), ("transaction", tx)])
    lines = [("destination", "/queue/chaos.left"), ("persistent", "true"), ("transaction", tx)]
    await client.request("SEND", lines, body_of(target))
    await client.request("COMMIT", [("transaction", tx)])


async def _closed(world: World, sub: Subscription, me: str) -> bool:
    """The broker closed it; what was on its way here before that came."""
    try:
        async with asyncio.timeout(GOODBYE_S):
            while True:
                await take(world, sub, me)
    except ConnectionLost:
        return True
    except TimeoutError:
        return False  # an owner is away


def producers(world: World) -> list[Session]:
    """Who sends."""
    held = [stocker(world, f"ph{n}", queue, HELD_S) for n, queue in enumerate(HELD)]
    return [brief(world, "pe"), stocker(world, "pk", "chaos.shelf"), stocker(world, "pu", "chaos.vault"), *held]


def consumers(world: World) -> list[Session]:
    """Who takes, or looks."""
    return [
        dawdler(world, "ce"),
        taker(world, "ca"),
        browser(world, "bs", "chaos.shelf"),
        browser(world, "bp", "chaos.plain"),
        watcher(world, "w1", beats=True),
        watcher(world, "w2", beats=False),
        leaver(world, "cl"),
        *[ponderer(world, f"ch{n}", queue) for n, queue in enumerate(HELD)],
    ]
