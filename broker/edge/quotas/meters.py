"""Buckets of tokens: where they are kept, and how an edge takes from them.

A Meter is given tokens in slices (Tokens.lease), one for each message or byte, so that nobody is asked per message. It
may run into debt, which is paid before another client has a token. A Pace is a bucket of one connection.

Rule: a client that wants more than there is waits in turn, and nothing is dropped. Must not know messages, queues or
edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import islice
from typing import Protocol

from broker.seams.clock import Clock

SLICE_S = 0.1
"""Tokens are taken for so long ahead, and asked for again after so long when there were none."""
BURST_S = 0.5
"""Tokens nobody took for longer than this are lost."""

Granted = Callable[[int | None], None]


class Way(IntEnum):
    """What has a rate; in the order of config.quotas.RATES."""

    IN = 0
    IN_BYTES = 1
    OUT = 2
    OUT_BYTES = 3


class Tokens(Protocol):
    """Who keeps the tokens of a rate."""

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        """Up to `want` tokens of `name`, which gets `rate` a second and holds `most`. Answers at once or later; None:
        nobody can say now."""
        ...


class LocalTokens:
    """Of this process. Buckets that are full have no place here, so names may come and go."""

    __slots__ = ("_clock", "_left")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float, float]] = {}
        """Name → (tokens, when, full when nobody takes more); who asked longest ago first."""

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        if not rate:  # a bucket that never fills would never go
            granted(0)
            return
        now = self._clock.monotonic()
        self._forget(now)
        left, then, _ = self._left.pop(name, (float(most), now, now))
        left = min(left + (now - then) * rate, most)
        count = min(int(left), want)
        left -= count
        self._left[name] = (left, now, now + (most - left) / rate)
        granted(count)

    def _forget(self, now: float) -> None:
        """Two for each that may come: so there are never more than have taken something lately."""
        for name, (_, _, full) in list(islice(self._left.items(), 2)):
            if full <= now:
                del self._left[name]


class Leases(Protocol):
    """Whom a meter asks (rate_limits.Rates)."""

    def lease(self, meter: Meter, want: int, granted: Callable[[int], None]) -> None: ...
    def later(self, seconds: float, callback: Callable[[], None]) -> None: ...


class Tally:
    """passed    so much a rate has let by.    waited   how often a session had to wait for it."""

    __slots__ = ("passed", "waited")

    def __init__(self) -> None:
        self.passed = self.waited = 0

    def count(self, passed: int = 0, waited: int = 0) -> None:
        """So much more."""
        self.passed += passed
        self.waited += waited


class Meter:
    """One bucket as this edge takes from it.    divided   edges that cannot share it have a part of its rate each.
    paid   told whenever it owes nothing and nobody waits."""

    __slots__ = ("_asking", "_leases", "_left", "_paid", "_share", "divided", "name", "rate", "tally", "waiting")

    def __init__(
        self,
        leases: Leases,
        name: str,
        rate: int,
        tally: Tally | None = None,
        divided: bool = False,
        paid: Callable[[], None] | None = None,
    ) -> None:
        self._leases = leases
        self.name = name
        self.rate = rate
        self.tally = tally or Tally()
        self.divided = divided
        self._paid = paid
        self._left = 0
        self._share = 1
        self._asking = False
        self.waiting: dict[int, Callable[[], None]] = {}
        """By session or consumer: who goes on when there are tokens again."""

    @property
    def open(self) -> bool:
        return self._left > 0

    @property
    def owes(self) -> bool:
        """Has it given more than it had, or does a session wait for it."""
        return self._left < 0 or bool(self.waiting)

    def wait(self, who: int, go_on: Callable[[], None]) -> None:
        """Its turn comes by itself."""
        self.tally.count(waited=1)
        self.waiting[who] = go_on
        if not self._asking:  # not at once: who waits is not done yet
            self._asking = True
            self._leases.later(0.0, self._again)

    def passes(self, count: int) -> None:
        """So many have gone by, for those who look at it."""
        self.tally.count(count)

    def draw(self, most: int, again: bool) -> int:
        """Takes up to so many tokens: all there are, if nobody waits; a share of them for one who did (`again`)."""
        if self.waiting:
            most = min(most, self._share) if again else 0
        drawn = 0
        while drawn < most and self._left > 0:
            now = min(self._left, most - drawn)
            drawn += now
            self.spend(now)  # there may be more then
        return drawn

    def serve(self) -> None:
        """Sessions that wait go on, in turn, while there are tokens; one that wants more waits again, behind the
        rest."""
        waiting = self.waiting
        while self._left > 0 and waiting:
            self._share = max(self._left // len(waiting), 1)
            for who in list(waiting):
                if self._left > 0 and (go_on := waiting.pop(who, None)) is not None:
                    go_on()
        if self._paid is not None and not self.owes:
            self._paid()

    def spend(self, count: int) -> None:
        """So many have gone by; below 0: they have not after all."""
        self._left -= count
        if self._left * 2 < self._slice and not self._asking:
            self._ask()

    @property
    def _slice(self) -> int:
        return max(int(self.rate * SLICE_S), 1)

    def _ask(self) -> None:
        self._asking = True
        self._leases.lease(self, self._slice - self._left, self._granted)

    def _granted(self, count: int) -> None:
        short = count < self._slice - self._left
        self._left += count
        if short:
            self._leases.later(SLICE_S, self._again)
        else:
            self._asking = False
        self.serve()

    def _again(self) -> None:
        self._asking = False
        if self._left <= 0 and (self.rate or self.owes):  # a rate of 0 has nothing for those who have gone
            self._ask()


class Rated(Protocol):
    """A user, virtual host or address whose rates edge.quotas says (quotas.Account).

    rates, tallies, meters   by Way"""

    who: str
    meters: list[Meter | None]

    @property
    def rates(self) -> Sequence[int]: ...
    @property
    def tallies(self) -> Sequence[Tally]: ...
    def paid(self) -> None:
        """What it owed is paid."""
        ...


class RatedUsage(Protocol):
    """What a connection counts for."""

    @property
    def accounts(self) -> Sequence[Rated]: ...


class Pace:
    """What one connection may send: a bucket that fills with time and may run into debt."""

    __slots__ = ("_left", "_rate", "_then")

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._left = max(rate * BURST_S, 1.0)
        self._then = now

    def spend(self, count: int, now: float) -> float:
        """So many messages have come. Seconds until the next one may be read; 0: at once."""
        self._fill(now)
        self._left -= count
        return -self._left / self._rate if self._left < 0 else 0.0

    def room(self, now: float) -> int:
        """So many may come now."""
        self._fill(now)
        return max(int(self._left), 0)

    def until(self, count: int) -> float:
        """Seconds until there is room for so many, or for as many as come in a slice."""
        wanted = max(min(count, self._rate * SLICE_S), 1.0)
        return max((wanted - self._left) / self._rate, 0.001) if self._rate else SLICE_S  # never in vain for rounding

    def _fill(self, now: float) -> None:
        self._left = min(self._left + (now - self._then) * self._rate, max(self._rate * BURST_S, 1.0))
        self._then = now
