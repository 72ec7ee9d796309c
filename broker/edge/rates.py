"""How fast a user may send and receive, over all of the user's connections, and over all edges where they share.

A Meter is one user's one direction on this edge. It is given tokens in slices (Tokens.lease), one per message, so that
nobody is asked per message. What has been read from a socket is carried out, and what an owner has handed out is
delivered: tokens may run into debt. While they are, producers' sockets are not read, and consumers' room is not given
back, so that their messages stay in the queue. Nothing is dropped or refused.

An acceptor may have a rate for each of its connections besides (Pace); that is nobody else's affair.

Rule: does not exist where no rate is set. Must not know frames, queues or who keeps the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.config.settings import EdgeSettings
from broker.core.effects import Deliver, Effect
from broker.seams.clock import Clock
from broker.wire.events import BodyStart, Event, Sends

from .timers import Beats

if TYPE_CHECKING:
    from .session import Session
    from .subscription import Subscription

SLICE_S = 0.1
"""Tokens are taken for so long ahead, and asked for again after so long when there were none."""
BURST_S = 0.5
"""Tokens nobody took for longer than this are lost."""

Granted = Callable[[int | None], None]


class Tokens(Protocol):
    """Who keeps the tokens of a rate."""

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        """Up to `want` tokens of `name`, which gets `rate` a second and holds `most`. Answers at once or later; None:
        nobody can say now."""
        ...


class LocalTokens:
    """Of this process."""

    __slots__ = ("_clock", "_left")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Name → (tokens, when)."""

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        now = self._clock.monotonic()
        left, then = self._left.get(name, (float(most), now))
        left = min(left + (now - then) * rate, most)
        count = min(int(left), want)
        self._left[name] = (left - count, now)
        granted(count)


class Meter:
    """One user, one direction, this edge."""

    __slots__ = ("_asking", "_left", "_name", "_rate", "_rates", "waiting")

    def __init__(self, rates: Rates, name: str, rate: int) -> None:
        self._rates = rates
        self._name = name
        self._rate = rate
        self._left = 0
        self._asking = False
        self.waiting: dict[int, Callable[[], None]] = {}
        """By session or consumer: who goes on when there are tokens again."""

    @property
    def open(self) -> bool:
        return self._left > 0

    def take(self, count: int) -> None:
        """So many messages have gone by."""
        self._left -= count
        if self._left * 2 < self._slice and not self._asking:
            self._ask()

    @property
    def _slice(self) -> int:
        return max(int(self._rate * SLICE_S), 1)

    def _ask(self) -> None:
        self._asking = True
        self._rates.lease(self._name, self._rate, self._slice - self._left, self._granted)

    def _granted(self, count: int) -> None:
        short = count < self._slice - self._left
        self._left += count
        if short:
            self._rates.later(SLICE_S, self._again)
        else:
            self._asking = False
        if self._left > 0 and self.waiting:
            waiting, self.waiting = self.waiting, {}
            for go_on in waiting.values():
                go_on()

    def _again(self) -> None:
        self._asking = False
        if self._left <= 0:
            self._ask()


class Pace:
    """What one connection may send: a bucket that fills with time and may run into debt."""

    __slots__ = ("_left", "_rate", "_then")

    def __init__(self, rate: int, now: float) -> None:
        self._rate = rate
        self._left = max(rate * BURST_S, 1.0)
        self._then = now

    def take(self, count: int, now: float) -> float:
        """So many messages have come. Seconds until the next one may be read; 0: at once."""
        self._left = min(self._left + (now - self._then) * self._rate, max(self._rate * BURST_S, 1.0)) - count
        self._then = now
        return -self._left / self._rate if self._left < 0 else 0.0


class Rates:
    """All meters of an edge. `tokens`: shared with other edges; None: each edge for itself."""

    def __init__(self, settings: EdgeSettings, clock: Clock, beats: Beats, tokens: Tokens | None) -> None:
        self._producer_rate = settings.max_producer_rate
        self._consumer_rate = settings.max_consumer_rate
        self._clock = clock
        self._beats = beats
        self._local = LocalTokens(clock)
        self._tokens = tokens or self._local
        self._producers: dict[str, Meter] = {}
        self._consumers: dict[str, Meter] = {}
        self._paces: dict[int, Pace] = {}
        """By session."""

    def lease(self, name: str, rate: int, want: int, granted: Callable[[int], None]) -> None:
        most = max(int(rate * BURST_S), 2)  # with 1, what comes while nobody asks would be lost

        def answered(count: int | None) -> None:
            if count is None:
                # Better the full rate on every edge than nobody served.
                self._local.lease(name, rate, most, want, answered)
            else:
                granted(count)

        self._tokens.lease(name, rate, most, want, answered)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._beats.deadline(self._clock.monotonic() + seconds, callback)

    def received(self, session: Session, events: Sequence[Event]) -> None:
        """These have been read from the session's socket."""
        if not session.connected or (self._producer_rate < 0 and session.acceptor.max_producer_rate < 0):
            return
        count = 0
        for event in events:
            if type(event) is Sends:
                count += len(event.records)
            elif type(event) is BodyStart:
                count += 1
        if not count:
            return
        if session.acceptor.max_producer_rate >= 0:
            self._pace(session, count)
        if self._producer_rate < 0:
            return
        meter = self._meter(self._producers, "in", session.principal, self._producer_rate)
        meter.take(count)
        if not meter.open:
            session.intake.hold("rate")
            meter.waiting[session.id] = lambda: session.intake.release("rate")

    def _pace(self, session: Session, count: int) -> None:
        now = self._clock.monotonic()
        pace = self._paces.get(session.id)
        if pace is None:
            pace = self._paces[session.id] = Pace(session.acceptor.max_producer_rate, now)
        wait = pace.take(count, now)
        if wait:
            session.intake.hold("pace")
            self.later(wait, lambda: session.intake.release("pace"))

    def forget(self, session: int) -> None:
        """Its connection is gone."""
        self._paces.pop(session, None)

    def delivered(self, effects: Sequence[Effect], consumers: dict[int, Subscription]) -> None:
        """These have come from an owner."""
        if self._consumer_rate < 0:
            return
        counts: dict[str, int] = {}
        for effect in effects:
            if type(effect) is Deliver:
                sub = consumers.get(effect.consumer)
                if sub is not None:
                    user = sub.session.principal
                    counts[user] = counts.get(user, 0) + len(effect.run)
        for user, count in counts.items():
            self._meter(self._consumers, "out", user, self._consumer_rate).take(count)

    def granting(self, subs: list[Subscription]) -> list[Subscription]:
        """Those of them whose room may be given back now; the others' turn comes by itself."""
        if self._consumer_rate < 0:
            return subs
        now: list[Subscription] = []
        for sub in subs:
            meter = self._meter(self._consumers, "out", sub.session.principal, self._consumer_rate)
            if meter.open:
                now.append(sub)
            else:
                meter.waiting[sub.consumer] = sub.give_room
        return now

    def _meter(self, meters: dict[str, Meter], way: str, user: str, rate: int) -> Meter:
        meter = meters.get(user)
        if meter is None:
            meter = meters[user] = Meter(self, f"{way}:{user}", rate)
            meter.take(0)
        return meter


def make_rates(
    settings: EdgeSettings, clock: Clock, beats: Beats, tokens: Tokens | None, paced: bool = False
) -> Rates | None:
    """None where no rate is set. `paced`: some acceptor has one for single connections."""
    if settings.max_producer_rate < 0 and settings.max_consumer_rate < 0 and not paced:
        return None
    return Rates(settings, clock, beats, tokens)
