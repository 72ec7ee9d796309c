"""Ending connections gently: all of them before a stop, some of them when other edges have far fewer.

Rule: at idle points (Session.idle) and at a bounded rate, so that a client loses nothing, no transaction is cut, and
the other edges are not stormed. Must not know why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from broker.core.errors import Code
from broker.seams.clock import Clock

from .timers import TimerWheel

STEP_S = 0.05
AT_ONCE = 10
"""Connections ended in one turn of the loop: each takes some 0.1 ms."""
LOOKED = 1000
"""… and looked at, whether they are idle."""
LEFT_FOR_THE_LAST = 0.8
"""Of the time for a drain: by then every connection has had its turn, however many there are."""


class Drainable(Protocol):
    """One connection."""

    @property
    def idle(self) -> bool:
        """A point at which its end takes nothing from the client but the connection."""
        ...

    def fail(self, code: Code, detail: str) -> None:
        """One ERROR frame, then the end."""
        ...


class Shedding:
    """`sessions()`: those that are open now, in any order."""

    __slots__ = (
        "_beats", "_budget", "_clock", "_detail", "_going_on", "_left", "_look", "_rate", "_round", "_running",
        "_sessions",
    )  # fmt: skip

    def __init__(self, sessions: Callable[[], Iterable[Drainable]], clock: Clock, beats: TimerWheel) -> None:
        self._sessions = sessions
        self._clock = clock
        self._beats = beats
        self._left = 0
        self._rate = 0.0
        self._budget = 0.0
        self._detail = ""
        self._running = self._going_on = False
        self._round: deque[Drainable] = deque()
        """Whose turn to be looked at it is."""
        self._look = 0
        """So many of them in this step."""

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
        self._budget = 0.0
        if not self._running:
            self._running = True
            self._step()

    def _step(self) -> None:
        # What nobody was idle for is not saved up: a storm later would be what the rate is there to prevent.
        more = self._rate * STEP_S
        self._budget = min(self._budget + more, more + 1)
        self._look = count = sum(1 for _ in self._sessions())
        if not self._going_on:
            self._some()
        if self._left <= 0 or not count:
            self._running = False
            self._round.clear()
            return
        self._beats.deadline(self._clock.monotonic() + STEP_S, self._step)

    def _some(self) -> None:
        """The next few that this step may end; the others in the next turn of the loop."""
        self._going_on = False
        room = min(int(self._budget), self._left)
        if room > 0 and not self._round:
            self._round.extend(self._sessions())
        taken = looked = 0
        while taken < min(room, AT_ONCE) and looked < min(LOOKED, self._look) and self._round:
            looked += 1
            session = self._round.popleft()
            if session.idle:
                session.fail(Code.SHUTDOWN, self._detail)
                taken += 1
        self._left -= taken
        self._budget -= taken
        self._look -= looked
        if room > taken and self._look > 0:
            self._going_on = True
            self._beats.soon(self._some)


def excess(mine: int, others: list[int], relative: float, least: int) -> int:
    """How many of `mine` connections are too many, beside edges that have so many: down to the mean, once there are
    more than `relative` times the mean, and at least `least` more."""
    mean = (mine + sum(others)) / (1 + len(others))
    if not others or mine <= mean * relative or mine - mean < least:
        return 0
    return int(mine - mean)
