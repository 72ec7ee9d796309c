"""Time. Rule: nobody else calls `time.*`; tests hand in a clock they move by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: the wall for timestamps and expiry, the monotonic one for intervals."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some start. Never goes back."""
        ...


class SystemClock:
    """The real one."""

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    monotonic = staticmethod(time.monotonic)
    """Not a method around it: every step of a loop looks at it twice."""
