"""One wake-up at a wall-clock time. Rule: a later call replaces an earlier one; after stop() there is none.

The clock may not run as the loop's does: the time is looked at again at least every LOOK_S.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

LOOK_S: Final = 1.0
"""Seconds. A wake-up costs microseconds, and there is none while nothing is due."""


class Alarm:
    """The shard's `alarm` on an asyncio loop."""

    __slots__ = ("_loop", "_stopped", "_timer", "_wall_ms")

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._wall_ms = wall_ms
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def set(self, at_ms: int, callback: Callable[[], None]) -> None:
        """Calls back at that time (epoch milliseconds), or soon if it has passed."""
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopped:
            left = (at_ms - self._wall_ms()) / 1000
            if left > LOOK_S:
                self._timer = self._loop.call_later(LOOK_S, self.set, at_ms, callback)
            else:
                self._timer = self._loop.call_later(max(0.0, left), callback)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
