"""A line now and then of what takes long, and none of what does not.

Rule: says what has been done, never what is hoped for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.seams.clock import Clock, SystemClock

Say = Callable[[str], object]
EVERY_S: Final = 10.0


class Progress:
    """`at` may be called as often as one likes, from one thread at a time."""

    def __init__(self, say: Say, total: int, what: str, clock: Clock | None = None) -> None:
        """what: such as "messages sent"."""
        self._say, self._total, self._what = say, total, what
        self._clock = clock or SystemClock()
        self._last = self._clock.monotonic()

    def at(self, done: int) -> None:
        now = self._clock.monotonic()
        if now - self._last >= EVERY_S:
            self._last = now
            self._say(f"{done} of {self._total} {self._what}")
