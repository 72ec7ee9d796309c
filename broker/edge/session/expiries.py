"""Logins that end by themselves: the token or certificate that a client came in with is not valid for ever.

Ends come by the second, and in pieces: 10,000 tokens that were issued in one minute end in one minute, and each end of
a connection takes 0.1 ms.

Rule: knows numbers of connections and when they end; what an end is its owner says. One entry a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Protocol

PIECE = 20
"""Ends in one turn of the loop: 2 ms."""
LOOK_S = 1.0


class ExpiryTimer(Protocol):
    """edge/transport/timers.py"""

    def deadline(self, at: float, callback: Callable[[], None]) -> object: ...
    def soon(self, callback: Callable[[], None]) -> None: ...


class Expiries:
    """now: seconds of the monotonic clock. end: a connection's login is over."""

    def __init__(self, now: Callable[[], float], beats: ExpiryTimer, end: Callable[[int], None]) -> None:
        self._now = now
        self._beats = beats
        self._end = end
        self._seconds: dict[int, set[int]] = {}
        self._when: dict[int, int] = {}
        self._due: deque[int] = deque()
        self._passed = int(now())
        self._looking = self._ending = False

    def __len__(self) -> int:
        return len(self._when)

    def note(self, connection: int, at: float) -> None:
        """Its login ends then."""
        if not self._when and not self._due:
            self._passed = int(self._now())
        second = max(ceil(at), self._passed + 1)
        self._when[connection] = second
        self._seconds.setdefault(second, set()).add(connection)
        if not self._looking:
            self._look_later()

    def forget(self, connection: int) -> None:
        """It has ended. No effect for one that was not noted."""
        second = self._when.pop(connection, None)
        if second is not None and (among := self._seconds.get(second)) is not None:
            among.discard(connection)
            if not among:
                del self._seconds[second]

    def _look_later(self) -> None:
        self._looking = True
        self._beats.deadline(self._now() + LOOK_S, self._look)

    def _look(self) -> None:
        now = int(self._now())
        # A machine that slept has many seconds to catch up with: those that nobody waits for cost nothing.
        seconds = (
            range(self._passed + 1, now + 1)
            if now - self._passed <= len(self._seconds)
            else [second for second in self._seconds if second <= now]
        )
        for second in seconds:
            self._due.extend(self._seconds.pop(second, ()))
        self._passed = now
        self._looking = False
        if not self._ending:
            self._piece()
        if self._when and not self._looking:
            self._look_later()

    def _piece(self) -> None:
        for _ in range(min(PIECE, len(self._due))):
            connection = self._due.popleft()
            if self._when.pop(connection, None) is not None:
                self._end(connection)
        self._ending = bool(self._due)
        if self._ending:
            self._beats.soon(self._piece)
