"""Time. Rule: nobody else calls `time.*`; tests hand in a clock they move by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol


class Clock(Protocol):
    """Two clocks: the wall for timestamps and expiry, the monotonic one for intervals."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start. Never goes back."""
        ...


def burnt_by(thread: int) -> Callable[[], float]:
    """Seconds of CPU that this thread (threading.get_ident) has used, from any thread. Where the system cannot tell
    (macOS) it stays 0."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of is None:
        return lambda: 0.0
    clock = clock_of(thread)
    return lambda: time.clock_gettime(clock)


_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """The real one."""

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    monotonic = staticmethod(time.monotonic)
    """Not a method around it: every step of a loop looks at it twice."""

    @staticmethod
    def ticks() -> float:
        """As monotonic(), and those seconds count as well that the machine has slept through."""
        return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


RATE: Final = 0.05
"""By so much a steady clock runs faster or slower until the wall clock has it again: a length of time is right to 5 %,
and a step of a minute is made up for in 20."""
FAR_MS: Final = 86_400_000
"""A wall clock that is further away had not been set: what rests in a journal must not wait for years."""
STEP_MS: Final = 1000
"""What is less is no step, but a clock that is being kept right."""


class SteadyClock:
    """The wall clock of an owner, by which delays and times to live are counted: a step of the system's moves none of
    them. It goes on as before and follows slowly (Erlang's "no time warp"). wall_ms, ticks: of the system.

    ahead   of the system's, in milliseconds."""

    __slots__ = ("_last", "_now", "_ticks", "_wall_ms", "ahead")

    def __init__(self, wall_ms: Callable[[], int], ticks: Callable[[], float]) -> None:
        self._wall_ms = wall_ms
        self._ticks = ticks
        self._last = ticks()
        self._now = float(wall_ms())
        self.ahead = 0

    def wall_ms(self) -> int:
        ticks, wall = self._ticks(), self._wall_ms()
        passed, self._last = (ticks - self._last) * 1000, ticks
        self._now += passed
        behind = wall - self._now
        if -FAR_MS < behind < FAR_MS:
            most = passed * RATE
            self._now += min(max(behind, -most), most)
        else:
            self._now = float(wall)
        now = int(self._now)
        off = now - wall
        self.ahead = off if off >= STEP_MS or off <= -STEP_MS else 0
        return now


def thread_seconds() -> float:
    """Of the processor, that this thread has used. To tell people, never to decide by."""
    return time.thread_time()
