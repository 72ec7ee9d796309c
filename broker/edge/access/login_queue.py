"""Which login is checked next, and which has to wait because its user or address was wrong before.

An argon2 check takes tens of milliseconds of a processor on purpose, so an attacker who wants to keep others out only
has to ask for many. Checks therefore wait by address, and the addresses take turns: 990 wrong logins of one address
cost the next client of another one check, not 990. A client that has logged in before with this name from this address
waits in a queue of its own, which gets three turns of four.

A storm from a thousand addresses has a thousand turns, though, and all of them before the next newcomer. So of the
clients that never came in one that is no suspect goes first, and gets three turns of four: no login was wrong lately
from its address, and none again and again for its name from wherever. A suspect waits behind, and is refused nothing
for that.

A storm from a thousand new addresses is no suspect before each was wrong once. So where a check would have to wait the
passcode of a client that is no suspect is tried first, in a lane of its own, if the name is one that has a passcode at
all: such a storm has no right names to say. What is right is in then; what is not waits as if it had not been tried,
and auth.py sees to it that a name that no user has takes as long to be told no.

Wrong passcodes earn waits by name and address. An address as a whole earns them after many failures (one guess each for
many names), and then only for names that never came in from there: those behind one balancer do not pay for others.

Rule: knows addresses and names, never passcodes. One thing waits in several queues when several ask for it; it leaves
them all at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final

from broker.core.errors import Code, RefusedError
from broker.core.states import StateTable
from broker.seams.clock import Clock

from ..transport.fair_places import FairPlaces

FREE_FAILURES = 3
"""Wrong passcodes of a name from one address that have no consequence: people mistype."""
FREE_OF_ADDRESS = 30
"""The same of all names from one address together, before those pay that never came in from there."""
MAX_PENALTY_S = 5.0
"""Longest wait before an answer; less than login_timeout_s, so that the client still gets its ERROR frame."""
FORGET_S = 300.0
"""Failures are forgotten after this time without another."""
MAX_KEPT = 20_000
"""Failures that are counted, and logins that are remembered as proven; the longest unseen go first."""
PROVEN_TURNS = 4
"""Every so many turns one is for those who never came in, however many others wait."""
SUSPECT_TURNS = 4
"""… and of those turns every so many one is for suspects."""
TRY_TURNS = 4
"""Of the turns of those who never came in every so many one is for checks that are in their place, not tried first."""
BUSY = "too many logins at once; try again in a few seconds"

Pair = tuple[str, str]
"""(address, name)"""
ALL = "\n"
"""All names of an address, or all addresses of a name; no login can be called that."""
TRIED: Final = "\n\n"
"""The same of passcodes that were tried before their turn. Counted apart: a name that nobody has must earn no less."""


def busy() -> RefusedError:
    return RefusedError(Code.LOGIN_FAILED, BUSY)


class CheckState(Enum):
    """Of one passcode for one name."""

    WAITING = "waiting"
    """It holds places in the queues of the addresses that ask, and no thread."""
    GRANTED = "granted"
    """It has a thread and no place: others of its address move up."""
    REFUSED = "refused"
    """It has neither: all its places went to others, or the broker ends. Those who asked are told to try again (or wait
    for their turn, if it was tried before that)."""
    OVER = "over"
    """It has neither: it is known whether the passcode is right, or nobody asks any more."""


LOGIN_CHECK: Final = StateTable(
    "The check of a passcode, that any number of connections may wait for (`edge/access/login_queue.py`).",
    CheckState,
    {CheckState.WAITING: "a login whose passcode nobody has found right yet"},
    {
        CheckState.WAITING: {
            CheckState.GRANTED: "a thread is free, and it is its turn",
            CheckState.REFUSED: "its last place goes to another, it may not be tried before its turn any more, or the "
            "broker ends",
            CheckState.OVER: "another edge has found it right, or nobody asks any more",
        },
        CheckState.GRANTED: {CheckState.OVER: "the thread has its answer, or nobody asks any more"},
        CheckState.REFUSED: {CheckState.OVER: "those who asked have been told"},
    },
    {CheckState.OVER: "it is forgotten"},
)


class Check:
    """One passcode for one name. state   see CheckState.

    granted   it is its turn.    entries   address → whether a penalty was served there."""

    __slots__ = ("entries", "granted", "name", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = LOGIN_CHECK.begin(CheckState.WAITING)
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.entries: dict[str, bool] = {}

    def grant(self) -> None:
        """It is its turn."""
        self.state = LOGIN_CHECK.to(self.state, CheckState.GRANTED)
        if not self.granted.done():  # who waits for it may have gone in this very turn of the loop
            self.granted.set_result(None)

    def refuse(self, error: RefusedError | None = None) -> None:
        """It will have no turn. None: nobody is told why, the broker ends."""
        self.state = LOGIN_CHECK.to(self.state, CheckState.REFUSED)
        if error is None:
            self.granted.cancel()
        elif not self.granted.done():  # as in grant()
            self.granted.set_exception(error)

    def end(self) -> None:
        """It has been done, or is not needed any more."""
        self.state = LOGIN_CHECK.to(self.state, CheckState.OVER)


class LoginQueue:
    """threads: checks at a time. most: that may wait. blocked: has the pair earned a wait meanwhile. suspect: has
    a login been wrong from this address, or for this name. may_try: before its turn."""

    def __init__(
        self,
        threads: int,
        most: int,
        blocked: Callable[[Pair], bool],
        suspect: Callable[[Pair], bool],
        may_try: Callable[[Pair], bool] = lambda pair: True,
    ) -> None:
        self._free = threads
        self._blocked = blocked
        self._suspect = suspect
        self._may_try = may_try
        self._proven: dict[Check, None] = {}
        self._strangers: dict[str, dict[Check, None]] = {}
        """By address; the address whose turn is next comes first."""
        self._suspects: dict[str, dict[Check, None]] = {}
        """The same of those who were suspects when they came, or when their turn was."""
        self._tries: dict[str, dict[Check, None]] = {}
        """Those that are tried first, as _strangers; they have no place."""
        self._tried_from: dict[Check, str] = {}
        """The address of each of them."""
        self._places: FairPlaces[tuple[str, Check]] = FairPlaces(most)
        self._turn = self._try_turn = self._strange_turn = 0

    @property
    def busy(self) -> bool:
        """A check would have to wait."""
        return not self._free

    @property
    def can_try(self) -> bool:
        """There is room for one more that is tried before its turn."""
        return len(self._tried_from) < self._places.most

    def ahead(self, address: str) -> int:
        """So many at most have their turn in the lane of tries before one that comes from there now: each address' next
        one, as often as it has some itself."""
        return min(len(self._tries) * max(len(self._tries.get(address, ())), 1), len(self._tried_from))

    def try_first(self, check: Check, address: str) -> None:
        """It waits in the lane of those that are tried before their turn. It is refused there when somebody turns out
        to have been wrong meanwhile; that says nothing of its turn."""
        self._tries.setdefault(address, {})[check] = None
        self._tried_from[check] = address
        self._next()

    def wait(self, check: Check, address: str, proven: bool, paid: bool) -> None:
        """It waits as this address' now, too. Raises RefusedError if that has waiting what it may have."""
        if check.state is not CheckState.WAITING:
            return
        if proven:
            if len(self._proven) >= self._places.most and check not in self._proven:
                raise busy()
            self._proven[check] = None
        elif address in check.entries:
            check.entries[address] |= paid
        else:
            suspect = self._suspect((address, check.name))
            victim = self._gives_way(address, suspect)
            # Before another gives way: that may be the only place this very check has had.
            check.entries[address] = paid
            lane = self._suspects if suspect else self._strangers
            lane.setdefault(address, {})[check] = None
            if victim is not None:
                self._drop(*victim)
            self._places.admit(address, (address, check))
        self._next()

    def _gives_way(self, address: str, suspect: bool) -> tuple[str, Check] | None:
        """Whose place one more of this address gets; None: there is a free one. Raises RefusedError: nobody's."""
        places = self._places
        if len(places) < places.most:
            return None
        if places.top > places.held(address) + 1:
            return places.longest
        if suspect or not self._suspects:
            raise busy()
        last = next(reversed(self._suspects))
        return last, next(reversed(self._suspects[last]))

    def over(self, check: Check) -> None:
        """It has been done, or is not needed any more."""
        was = check.state
        check.end()
        if was is CheckState.WAITING:
            self._leave(check)
        elif was is CheckState.GRANTED:
            self._free += 1
            self._next()

    def close(self) -> None:
        """Nothing that waits will have its turn."""
        lanes = (*self._tries.values(), *self._strangers.values(), *self._suspects.values())
        waiting = [*self._proven, *(check for queue in lanes for check in queue)]
        for check in dict.fromkeys(waiting):  # one may wait as several addresses'
            check.refuse()
        self._proven.clear()
        self._tries.clear()
        self._tried_from.clear()
        self._strangers.clear()
        self._suspects.clear()

    def _next(self) -> None:
        while self._free:
            check = self._pick()
            if check is None:
                return
            self._leave(check)
            self._free -= 1
            check.grant()

    def _pick(self) -> Check | None:
        self._turn += 1
        others = self._strangers or self._suspects
        if self._proven and (not (others or self._tries) or self._turn % PROVEN_TURNS):
            return next(iter(self._proven))
        self._try_turn += 1
        first = self._tried() if not others or self._try_turn % TRY_TURNS else None
        return first or self._stranger() or self._tried() or next(iter(self._proven), None)

    def _tried(self) -> Check | None:
        """Of those that are tried before their turn: addresses take turns. Who may not any more leaves the lane, so
        this takes as many steps as it is long at most."""
        while self._tries:
            address = next(iter(self._tries))
            queue = self._tries.pop(address)
            self._tries[address] = queue  # behind all others
            check = next(iter(queue))
            if self._may_try((address, check.name)):
                return check
            self._leave(check)
            check.refuse(busy())
        return None

    def _stranger(self) -> Check | None:
        """Of those who never came in, whose turn it is. Each is looked at once and leaves its lane, so this takes as
        many steps as there are places at most, and seldom more than one."""
        while self._strangers or self._suspects:
            its_turn = not self._strangers or not (self._strange_turn + 1) % SUSPECT_TURNS
            lane = self._suspects if self._suspects and its_turn else self._strangers
            address = next(iter(lane))
            queue = lane.pop(address)
            check = next(iter(queue))
            lane[address] = queue  # behind all others
            pair = address, check.name
            if not check.entries[address] and self._blocked(pair):
                self._drop(address, check)
            elif lane is self._strangers and self._suspect(pair):
                _leave_lane(lane, address, check)
                self._suspects.setdefault(address, {})[check] = None
            else:
                self._strange_turn += 1
                return check
        return None

    def _drop(self, address: str, check: Check) -> None:
        """It waits as this address' no more; with the last of its entries it is refused."""
        self._remove(address, check)
        del check.entries[address]
        if not check.entries and check not in self._proven:
            check.refuse(busy())

    def _leave(self, check: Check) -> None:
        self._proven.pop(check, None)
        tried_from = self._tried_from.pop(check, None)
        if tried_from is not None:
            _leave_lane(self._tries, tried_from, check)
        for address in check.entries:
            self._remove(address, check)
        check.entries.clear()

    def _remove(self, address: str, check: Check) -> None:
        self._places.leave((address, check))
        lane = self._strangers if check in self._strangers.get(address, ()) else self._suspects
        _leave_lane(lane, address, check)


def _leave_lane(lane: dict[str, dict[Check, None]], address: str, check: Check) -> None:
    queue = lane[address]
    del queue[check]
    if not queue:
        del lane[address]


class Penalties:
    """Failed logins, the waits they earn (0.5 s doubling up to MAX_PENALTY_S, one login at a time), and who came in."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._failures: dict[Pair, tuple[int, float]] = {}
        """(address, name), (address, ALL), (ALL, name), and as many of TRIED → (how many, when last); oldest first."""
        self._waiting: set[Pair] = set()
        self._proven: dict[Pair, None] = {}

    def proven(self, pair: Pair) -> bool:
        """Has a client logged in with this name from this address."""
        return pair in self._proven

    def blocked(self, pair: Pair) -> bool:
        """Must it wait before its next check."""
        return self._earned(pair) > 0

    async def serve(self, pair: Pair) -> bool:
        """Waits as long as the pair has earned; whether it had. Raises RefusedError while another login waits there."""
        seconds = self._earned(pair)
        if not seconds:
            return False
        key = pair if self._over(pair, FREE_FAILURES) >= 0 else (pair[0], ALL)
        if key in self._waiting:
            raise busy()
        self._waiting.add(key)
        try:
            await self._sleep(seconds)
        finally:
            self._waiting.discard(key)
        return True

    def suspect(self, pair: Pair) -> bool:
        """Was a login wrong lately from this address, or for this name again and again from wherever."""
        address, name = pair
        return self._over((address, ALL), 0) > 0 or self._over((ALL, name), FREE_FAILURES) > 0

    def may_try(self, pair: Pair) -> bool:
        """May its passcode be tried before its turn."""
        address, name = pair
        tried = self._over((address, TRIED), 0) > 0 or self._over((TRIED, name), FREE_FAILURES) > 0
        return not tried and not self.suspect(pair)

    def tried(self, pair: Pair) -> None:
        """It was, and was not right."""
        self._count((pair[0], TRIED), (TRIED, pair[1]))

    def failed(self, pair: Pair) -> None:
        self._count(pair, (pair[0], ALL), (ALL, pair[1]))

    def _count(self, *keys: Pair) -> None:
        for key in keys:
            count, _ = self._failures.pop(key, (0, 0.0))
            if len(self._failures) >= MAX_KEPT:
                del self._failures[next(iter(self._failures))]
            self._failures[key] = (count + 1, self._clock.monotonic())

    def succeeded(self, pair: Pair) -> None:
        """The first time also forgives the address: many clients behind it are no guesser. Later ones do not, or a
        guesser with one right passcode could go on for ever."""
        self._failures.pop(pair, None)
        if pair in self._proven:
            del self._proven[pair]
        else:
            self._failures.pop((pair[0], ALL), None)
            self._failures.pop((pair[0], TRIED), None)
        if len(self._proven) >= MAX_KEPT:
            del self._proven[next(iter(self._proven))]
        self._proven[pair] = None

    def _earned(self, pair: Pair) -> float:
        over = self._over(pair, FREE_FAILURES)
        if pair not in self._proven:
            over = max(over, self._over((pair[0], ALL), FREE_OF_ADDRESS))
        return min(0.5 * 2.0 ** min(over, 10), MAX_PENALTY_S) if over >= 0 else 0.0

    def _over(self, key: Pair, free: int) -> int:
        """Failures beyond the free ones; below 0: none."""
        count, last = self._failures.get(key, (0, 0.0))
        if count and self._clock.monotonic() - last > FORGET_S:
            del self._failures[key]
            return -free
        return count - free
