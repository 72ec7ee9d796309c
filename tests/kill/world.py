"""What the tasks of one kill run share: the broker, the number of its life, the history, and the bodies of messages.

Rule: the test process lives on while the broker does not; nothing here is reset by a kill.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from dataclasses import dataclass, field

from tests.harness import Broker

from .history import History


def body_of(key: str) -> bytes:
    """The one body a message of this key may have: mostly small, 5 % some KiB; of `kill.plain` and `kill.topic` 1 %
    large enough for a file of their own (refused in transactions)."""
    seed = zlib.crc32(key.encode())
    percent = seed % 100
    size = seed % 8_000 if percent <= 5 else seed % 300
    if percent == 0 and key.startswith(("kill.plain", "kill.topic")):
        size = 110_000 + seed % 110_000
    start = f"{key} {seed:08x} ".encode()
    return (start * (size // len(start) + 1))[: max(size, len(start))]


def key_in(body: bytes) -> str:
    """The key a body claims to be of; the caller compares the whole body."""
    return body[:200].split(b" ", 1)[0].decode(errors="replace")


@dataclass
class World:
    """`life` counts up before each start. `stopping`: producers send nothing new. `drained`: the life in which the
    queues were emptied in peace."""

    broker: Broker
    random: random.Random
    history: History = field(default_factory=History)
    life: int = 0
    drained: int = 0
    stopping: bool = False
    over: bool = False
    last_event: float = 0.0
    recoveries: list[float] = field(default_factory=list)

    def touch(self) -> None:
        """Something arrived."""
        self.last_event = time.monotonic()

    async def quiet(self, seconds: float, at_most: float) -> None:
        """Returns when nothing has arrived for a while, or the time is up (the checker then says what is missing)."""
        end = time.monotonic() + at_most
        self.touch()
        while True:
            left = min(self.last_event + seconds, end) - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(left)
