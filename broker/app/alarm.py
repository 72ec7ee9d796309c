"""One wake-up at a wall-clock time. Rule: a later call replaces an earlier one; after stop() there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.seams.clock import Clock


class Alarm:
    """The shard's `alarm` on an asyncio loop."""

    __slots__ = ("_clock", "_loop", "_stopped", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def set(self, at_ms: int, callback: Callable[[], None]) -> None:
        """Calls back at that time (epoch milliseconds), or soon if it has passed."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopped:
            self._timer = self._loop.call_later(max(0.0, (at_ms - self._clock.wall_ms()) / 1000), callback)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
