"""Time. Rule: nobody else calls `time.*`; tests hand in a clock they move by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


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


class SystemClock:
    """The real one."""

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    monotonic = staticmethod(time.monotonic)
    """Not a method around it: every step of a loop looks at it twice."""


def thread_seconds() -> float:
    """Of the processor, that this thread has used. To tell people, never to decide by."""
    return time.thread_time()
