"""Ending connections gently: all of them before a stop, some of them when other edges have far fewer.

Rule: at idle points (Session.idle) and at a bounded rate, so that a client loses nothing, no transaction is cut, and
the other edges are not stormed. Before a stop all of them are ended; when others have far fewer, those of the users who
have most here, down to as many as all of these have then: no client has to move because another user has opened
thousands.
"""

# Example. Of 800 connections here 300 are too many: alice has 700, a hundred users have one each.
#     survey    some sessions a turn are counted by who they are of. Without 300 of hers alice has 400, still the most
#     shed      20 a second of alice's, as each comes to an idle point
#     none is   all of alice's are busy: she is waited for, and nobody else goes instead

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from typing import Protocol

from broker.core.errors import Code
from broker.seams.clock import Clock

from .timers import TimerWheel

STEP_S = 0.05
AT_ONCE = 10
"""Connections ended in one turn of the loop: each takes some 0.1 ms."""
LOOKED = 1000
"""… and looked at, whether they are idle."""
COUNTED = 250
"""… or counted, by who they are of: an address is looked at more closely than a name."""
LEFT_FOR_THE_LAST = 0.8
"""Of the time for a drain: by then every connection has had its turn, however many there are."""


class Drainable(Protocol):
    """One connection."""

    @property
    def idle(self) -> bool:
        """A point at which its end takes nothing from the client but the connection."""
        ...

    @property
    def connected(self) -> bool:
        """Its client has logged in, and has not gone."""
        ...

    @property
    def whose(self) -> str:
        """Of a user, or of an address where nobody has logged in by name."""
        ...

    def fail(self, code: Code, detail: str) -> None:
        """One ERROR frame, then the end."""
        ...


class Shedding:
    """`sessions()`: those that are open now, in any order."""

    __slots__ = (
        "_beats", "_budget", "_clock", "_counted", "_detail", "_going_on", "_left", "_look", "_rate", "_round",
        "_running", "_sessions", "_stay", "_uncounted",
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
        self._counted: dict[str, int] | None = None
        """User → how many connections, as far as they have been counted; None: all have to go."""
        self._stay = 0
        """Who has no more than that keeps all."""
        self._uncounted: deque[Drainable] = deque()
        self._look = 0
        """So many of them in this step."""

    def drain(self, rate: float, within_s: float, detail: str) -> None:
        """Ends every connection as it comes to an idle point, at `rate` a second; faster when that would not be
        enough within `within_s`. What comes to none is left to the caller."""
        count = sum(1 for _ in self._sessions())
        self._counted = None
        self._uncounted.clear()
        self._begin(1 << 62, max(rate, count / max(within_s * LEFT_FOR_THE_LAST, STEP_S)), detail)

    def shed(self, count: int, rate: float, detail: str) -> None:
        """Ends `count` connections of those who have most, at `rate` a second. Replaces what an earlier call has left
        over."""
        # Called again and again: what is being counted is counted to its end.
        if not self._uncounted:
            self._counted = {}
            self._uncounted = deque(self._sessions())
            self._beats.soon(self._count_some)
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
        if not self._going_on and not self._uncounted:
            self._some()
        if self._left <= 0 or not count:
            self._running = False
            self._round.clear()
            return
        self._beats.deadline(self._clock.monotonic() + STEP_S, self._step)

    def _count_some(self) -> None:
        counted = self._counted
        if counted is None:
            return  # all have to go by now
        for _ in range(min(COUNTED, len(self._uncounted))):
            session = self._uncounted.popleft()
            if session.connected:
                counted[session.whose] = counted.get(session.whose, 0) + 1
        if self._uncounted:
            self._beats.soon(self._count_some)
        else:
            self._stay = level(counted.values(), self._left)

    def _moves(self, session: Drainable) -> bool:
        """May it be ended: all are, or its user has more than those keep who have most. A stranger's login has its own
        time."""
        counted = self._counted
        if counted is None:
            return session.idle
        if not (session.idle and session.connected) or counted.get(session.whose, 0) <= self._stay:
            return False
        counted[session.whose] -= 1
        return True

    def _some(self) -> None:
        """The next few that this step may end; the rest in the next turn of the loop."""
        self._going_on = False
        room = min(int(self._budget), self._left)
        if room > 0 and not self._round:
            self._round.extend(self._sessions())
        taken = looked = 0
        while taken < min(room, AT_ONCE) and looked < min(LOOKED, self._look) and self._round:
            looked += 1
            session = self._round.popleft()
            if self._moves(session):
                session.fail(Code.SHUTDOWN, self._detail)
                taken += 1
        self._left -= taken
        self._budget -= taken
        self._look -= looked
        if room > taken and self._look > 0:
            self._going_on = True
            self._beats.soon(self._some)


def level(counts: Collection[int], count: int) -> int:
    """How many connections those who have most are left with, when `count` of theirs have gone: who has fewer keeps
    all, and other edges have as many as each other, but for one."""
    users, above = Counter(counts), 0
    steps = [*sorted(users, reverse=True), 0]
    for here, next_one in pairwise(steps):
        above += users[here]
        if (here - next_one) * above >= count:
            return here + -count // above
        count -= (here - next_one) * above
    return 0


def excess(mine: int, others: list[int], relative: float, least: int) -> int:
    """How many of `mine` connections are too many, beside edges that have so many: down to the mean, once there are
    more than `relative` times the mean, and at least `least` more."""
    mean = (mine + sum(others)) / (1 + len(others))
    if not others or mine <= mean * relative or mine - mean < least:
        return 0
    return int(mine - mean)
