"""How often a peer has done something of late, and whether that is too often.

Rule: what is refused for being too often is no event: else a flood that goes on would never be let in again.
"""

from __future__ import annotations

from collections import deque

from broker.seams.clock import Clock

FLOOD = 20
FLOOD_S = 10.0
"""More new streams than that of one edge, or greetings that fail from one address, in so many seconds: refused."""


class FloodGuard:
    """By name. It keeps FLOOD moments of each name, and no name for longer than FLOOD_S after its last event."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._events: dict[str, deque[float]] = {}

    def flooded(self, who: str) -> bool:
        """Have there been too many events of late."""
        times = self._events.get(who)
        return times is not None and len(times) == FLOOD and times[0] > self._clock.monotonic() - FLOOD_S

    def count(self, who: str) -> None:
        """An event."""
        now = self._clock.monotonic()
        times = self._events.get(who)
        if times is None:
            for name in [name for name, times in self._events.items() if times[-1] < now - FLOOD_S]:
                del self._events[name]
            times = self._events[who] = deque(maxlen=FLOOD)
        times.append(now)
