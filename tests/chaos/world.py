"""What all clients of a chaos run share: where the edges are, the history, how a client lives and goes.

Rule: whoever loses its connection opens another one at any edge; being refused or thrown out is written down, and is no
broken promise by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar

import broker.client
from broker.client import Client, ClientError, ConnectionLost, Message, Subscription

from .history import History, Kind

PAUSE_S = 0.01
"""Between two messages of a producer: about 600/s altogether, which two cores carry beside a cluster."""
BEAT_MS = 5000
"""A machine that is starved is not silence."""
LARGE = 200_000
"""Bytes of the smallest body of chaos.large."""
LONG_S = 2.0
"""Of a wait: then it is kept who waited."""
SIZES = 23
"""Bodies of chaos.sized have up to 2 ** SIZES bytes, each power of two as often as any other."""
KEPT_SIZES = 19
"""The same of chaos.vault, which has to find room on every disk."""


def body_of(key: str) -> bytes:
    """The one body that a message of this key may have."""
    seed = zlib.crc32(key.encode())
    if key.startswith("chaos.large"):
        size = LARGE + seed % (9 * LARGE)
    elif key.startswith(("chaos.sized", "chaos.vault")):
        size = int(2 ** (seed % 10_000 / 10_000 * (SIZES if key.startswith("chaos.sized") else KEPT_SIZES)))
    else:
        size = seed % 300
    start = f"{key} {seed:08x} ".encode()
    return (start * (size // len(start) + 1))[: max(size, len(start))]


class Arrivals(deque[Message]):
    """What waits in a client. A consumer takes it when it is done with what came before, perhaps long after."""

    at: ClassVar[dict[int, tuple[str, float]]] = {}
    """id() of a message → message-id, when it came."""

    def append(self, message: Message) -> None:
        self.at[id(message)] = (message.id, time.time())
        super().append(message)

    @classmethod
    def of(cls, message: Message) -> float:
        """When it came; 0: nobody has seen that."""
        known, at = cls.at.pop(id(message), ("", 0.0))
        return at if known == message.id else 0.0


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
    async def client(self, name: str, *, beats: bool = True, **options: object) -> AsyncIterator[tuple[Client, str]]:
        """A connection to any edge and its name, closed without farewell if anything goes wrong. beats: it leaves an
        edge that says nothing any more."""
        port = self.random.choice(self.ports())
        me = f"{name}.{next(self.names)}"
        beat = BEAT_MS if beats else 0
        async with asyncio.timeout(10):
            client = await broker.client.connect(
                f"stomp://127.0.0.1:{port}", heartbeat=(beat, beat), timeout=8, receipt_timeout=30, **options  # type: ignore[arg-type]
            )  # fmt: skip
        self.history.add(Kind.CONNECTED, me)
        why = ""
        try:
            yield client, me
        except (ClientError, OSError, TimeoutError) as error:
            why = f"{type(error).__name__} {getattr(error, 'code', None) or ''} {error}"
            raise
        finally:
            self.history.add(Kind.ENDED, me, why=why)
            await client.kill()

    async def timed(self, answer: Awaitable[None], what: str) -> None:
        """Awaits an answer; how long it took is kept, also if none came."""
        at, begun = time.time(), time.monotonic()
        try:
            await answer
        finally:
            seconds = time.monotonic() - begun
            self.history.waits.append((at, seconds))
            if seconds > LONG_S:
                self.history.slow.append((at, seconds, what))

    def came(self, message: Message, body: bytes, who: str, subscriber: str = "") -> str:
        """Writes a delivery down; its key. A dead letter is a new message, so it counts as marked."""
        key = key_of(body)
        reason = message.headers.get("dead-letter-reason", "")
        marked = message.headers.get("redelivered") == "true" or reason not in ("", "expired")
        full = f"{subscriber}:{key}" if subscriber else f"expired:{key}" if reason == "expired" else key
        self.history.add(Kind.DELIVERED, full, who=who, redelivered=marked, came=Arrivals.of(message))
        if body != body_of(key):
            self.history.add(Kind.CORRUPT, full)
        return full


def key_of(body: bytes) -> str:
    """The key of a message that has this body."""
    return body[:200].split(b" ", 1)[0].decode(errors="replace")


async def forever(world: World, session: Callable[[], Awaitable[None]], sends: bool = False) -> None:
    """One connection after the other until cancelled; who `sends` is done when nothing new is sent."""
    while True:
        try:
            await session()
            if world.stopping and sends:
                return
        except (ClientError, OSError, TimeoutError) as error:
            name = f"{type(error).__name__} {getattr(error, 'code', '') or ''}".strip()
            world.errors[name] = world.errors.get(name, 0) + 1
            await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def subscribed(sub: Subscription) -> AsyncIterator[None]:
    """SUBSCRIBE with its receipt; no UNSUBSCRIBE at the end: whoever goes here goes without a word."""
    sub._buffer = Arrivals(sub._buffer)
    await sub.__aenter__()
    try:
        yield
    except StopAsyncIteration:
        raise ConnectionLost("the subscription has ended") from None


async def take(world: World, sub: Subscription, me: str, subscriber: str = "") -> tuple[Message, str]:
    """The next message and its key. Raises StopAsyncIteration at the end."""
    message = await sub.__anext__()
    return message, world.came(message, await message.read(), me, subscriber)
