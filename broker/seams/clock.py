"""Time. Rule: nobody else calls `time.*`; tests hand in a clock they move by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

Later = Callable[[float, Callable[[], None]], Any]
"""Call after so many seconds; what it returns can be cancelled."""
Schedule = Callable[[Callable[[], None]], Any]
"""Call in the next turn of the loop."""


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

    wall = staticmethod(time.time)
    """Seconds."""
    ticks = staticmethod(time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT))
    """As monotonic, and those seconds count as well that the machine has slept through."""


RATE: Final = 0.05
"""By so much a steady clock runs faster or slower until the wall clock has it again: a length of time is right to 5 %,
and a step of a minute is made up for in 20."""
FAR_S: Final = 86_400.0
"""A wall clock that is further away had not been set: what rests in a journal must not wait for years."""
STEP_S: Final = 1.0
"""What is less is no step, but a clock that is being kept right."""


class SteadyClock:
    """The wall clock of an owner, by which delays and times to live are counted: a step of the system's moves none of
    them. It goes on as before and follows slowly (Erlang's "no time warp"). wall, ticks: seconds, of the system.

    ahead   of the system's, in milliseconds."""

    __slots__ = ("_last", "_now", "_ticks", "_wall", "ahead")

    def __init__(self, wall: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._wall = wall
        self._ticks = ticks
        self._last = ticks()
        self._now = wall()
        self.ahead = 0

    def wall_ms(self) -> int:
        ticks, wall = self._ticks(), self._wall()
        passed, self._last = ticks - self._last, ticks
        now = self._now + passed
        behind, most = wall - now, passed * RATE
        if -most <= behind <= most:
            now, self.ahead = wall, 0
        elif -FAR_S < behind < FAR_S:
            now += most if behind > 0 else -most
            self.ahead = 0 if -STEP_S < behind < STEP_S else int((now - wall) * 1000)
        else:
            now, self.ahead = wall, 0
        self._now = now
        return int(now * 1000)


thread_seconds: Final = time.thread_time
"""Seconds of the processor that this thread has used. To tell people, never to decide by."""
