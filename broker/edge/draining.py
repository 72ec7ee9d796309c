"""Ending connections gently: all of them before a stop, some of them when other edges have far fewer.

Rule: at idle points (Session.idle) and at a bounded rate, so that a client loses nothing, no transaction is cut, and
the other edges are not stormed. Must not know why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.core.errors import Code
from broker.seams.clock import Clock

from .timers import TimerWheel

if TYPE_CHECKING:
    from .session import Session

STEP_S = 0.05
LEFT_FOR_THE_LAST = 0.8
"""Of the time for a drain: by then every connection has had its turn, however many there are."""


class Shedding:
    """`sessions()`: those that are open now, in any order."""

    __slots__ = ("_beats", "_budget", "_clock", "_detail", "_left", "_rate", "_running", "_sessions")

    def __init__(self, sessions: Callable[[], Iterable[Session]], clock: Clock, beats: TimerWheel) -> None:
        self._sessions = sessions
        self._clock = clock
        self._beats = beats
        self._left = 0
        self._rate = 0.0
        self._budget = 0.0
        self._detail = ""
        self._running = False

    def drain(self, rate: float, within_s: float, detail: str) -> None:
        """Ends every connection as it comes to an idle point, at `rate` a second; faster when that would not be
        enough within `within_s`. What comes to none is left to the caller."""
        count = sum(1 for _ in self._sessions())
        self._begin(1 << 62, max(rate, count / max(within_s * LEFT_FOR_THE_LAST, STEP_S)), detail)

    def shed(self, count: int, rate: float, detail: str) -> None:
        """Ends `count` connections, at `rate` a second. Replaces what an earlier call has left over."""
        self._begin(count, rate, detail)

    def _begin(self, count: int, rate: float, detail: str) -> None:
        self._left, self._rate, self._detail = count, rate, detail
        self._budget = 1.0
        if not self._running:
            self._running = True
            self._step()

    def _step(self) -> None:
        taken = 0
        room = min(int(self._budget), self._left)
        if room > 0:
            for session in list(self._sessions()):
                if taken == room:
                    break
                if session.idle:
                    session.fail(Code.SHUTDOWN, self._detail)
                    taken += 1
        self._left -= taken
        # What nobody was idle for is not saved up: a storm later would be what the rate is there to prevent.
        self._budget = min(self._budget - taken + self._rate * STEP_S, self._rate * STEP_S + 1)
        if self._left <= 0 or not any(True for _ in self._sessions()):
            self._running = False
            return
        self._beats.deadline(self._clock.monotonic() + STEP_S, self._step)


def excess(mine: int, others: list[int], relative: float, least: int) -> int:
    """How many of `mine` connections are too many, beside edges that have so many: down to the mean, once there are
    more than `relative` times the mean, and at least `least` more."""
    mean = (mine + sum(others)) / (1 + len(others))
    if not others or mine <= mean * relative or mine - mean < least:
        return 0
    return int(mine - mean)
