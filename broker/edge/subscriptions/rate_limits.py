"""How fast a user may send and receive, over all of the user's connections, and over all edges where they share.

A Meter is one user's one direction on this edge. It is given tokens in slices (Tokens.lease), one per message, so that
nobody is asked per message. Of what has been read from a socket so many SENDs are carried out as there are tokens; the
rest waits in its connection, whose socket is not read meanwhile, however much one read has brought. What an owner has
handed out is delivered: there tokens may run into debt, by what is under way to a consumer (`under_way`: little), and
while they are, no room is given back, so that messages stay in the queue. Nothing is dropped or refused.

An acceptor may have a rate for each of its connections besides (Pace); that is nobody else's affair.

Rule: does not exist where no rate is set. Must not know queues or who keeps the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.config.acceptor import AcceptorSettings
from broker.config.settings import EdgeSettings
from broker.core.effects import Deliver, Effect
from broker.seams.clock import Clock
from broker.wire.events import BodyStart, Event, Sends

from ..transport.timers import TimerWheel
from .subscription import SlotSubscription

SLICE_S = 0.1
"""Tokens are taken for so long ahead, and asked for again after so long when there were none."""
BURST_S = 0.5
"""Tokens nobody took for longer than this are lost."""
UNDER_WAY_S = 0.2
"""What is under way to a consumer is no more than it may get in that time …"""
LEAST_COST = 64
"""… with messages of so many bytes: shorter ones there are none, by what stands in front of each."""

Granted = Callable[[int | None], None]


class RatedSender(Protocol):
    """A connection whose messages are counted."""

    @property
    def id(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    @property
    def principal(self) -> str: ...
    @property
    def acceptor(self) -> AcceptorSettings: ...


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

    __slots__ = ("_asking", "_left", "_name", "_rate", "_rates", "_share", "waiting")

    def __init__(self, rates: Rates, name: str, rate: int) -> None:
        self._rates = rates
        self._name = name
        self._rate = rate
        self._left = 0
        self._share = 1
        self._asking = False
        self.waiting: dict[int, Callable[[], None]] = {}
        """By session or consumer: who goes on when there are tokens again."""

    @property
    def open(self) -> bool:
        return self._left > 0

    def draw(self, most: int, again: bool) -> int:
        """Takes up to so many tokens: all there are, if nobody waits; a share of them for one who did (`again`)."""
        if self.waiting:
            most = min(most, self._share) if again else 0
        drawn = 0
        while drawn < most and self._left > 0:
            now = min(self._left, most - drawn)
            drawn += now
            self.take(now)  # there may be more then
        return drawn

    def serve(self) -> None:
        """Whoever waits goes on, in turn, while there are tokens; who wants more waits again, behind the others."""
        waiting = self.waiting
        while self._left > 0 and waiting:
            self._share = max(self._left // len(waiting), 1)
            for who in list(waiting):
                if self._left > 0 and (go_on := waiting.pop(who, None)) is not None:
                    go_on()

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
        self.serve()

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


class Rates:
    """All meters of an edge. `tokens`: shared with other edges; None: each edge for itself."""

    def __init__(self, settings: EdgeSettings, clock: Clock, beats: TimerWheel, tokens: Tokens | None) -> None:
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
        most = max(int(rate * BURST_S), 1)

        def answered(count: int | None) -> None:
            if count is None:
                # Better the full rate on every edge than nobody served.
                self._local.lease(name, rate, most, want, answered)
            else:
                granted(count)

        self._tokens.lease(name, rate, most, want, answered)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._beats.deadline(self._clock.monotonic() + seconds, callback)

    def admit(
        self, session: RatedSender, events: list[Event], go_on: Callable[[], None], again: bool = False
    ) -> tuple[list[Event], list[Event]]:
        """What of that may be carried out now, and the rest: `go_on` is called when its turn has come. again: that has
        happened."""
        own, shared = session.acceptor.max_producer_rate, self._producer_rate
        if not session.connected or (own < 0 and shared < 0):
            return events, []
        count = room = sum([_sent(event) for event in events])
        if not count:
            return events, []
        now, pace, meter = self._clock.monotonic(), None, None
        if own >= 0:
            pace = self._paces.get(session.id)
            if pace is None:
                pace = self._paces[session.id] = Pace(own, now)
            room = min(room, pace.room(now))
        if shared >= 0:
            meter = self._meter(self._producers, "in", session.principal, shared)
            room = meter.draw(room, again)
        if pace is not None:
            pace.take(room, now)
        if room == count:
            return events, []
        if pace is not None and pace.room(now) < 1:
            self.later(pace.until(count - room), go_on)
        else:
            assert meter is not None
            meter.waiting[session.id] = go_on
            if meter.open:
                self.later(0, meter.serve)
        return split(events, room)

    def forget(self, session: int) -> None:
        """Its connection is gone."""
        self._paces.pop(session, None)

    def delivered(self, effects: Sequence[Effect], consumers: dict[int, SlotSubscription]) -> None:
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

    def granting(self, subs: list[SlotSubscription]) -> list[SlotSubscription]:
        """Those of them whose room may be given back now; the others' turn comes by itself."""
        if self._consumer_rate < 0:
            return subs
        now: list[SlotSubscription] = []
        for sub in subs:
            meter = self._meter(self._consumers, "out", sub.session.principal, self._consumer_rate)
            if meter.open:
                now.append(sub)
            else:
                meter.waiting[sub.consumer] = sub.give_room
        return now

    @property
    def paces_consumers(self) -> bool:
        """Has what goes to users a rate."""
        return self._consumer_rate >= 0

    def begins(self, sub: SlotSubscription, room: int) -> bool:
        """May a new subscription have its room now; otherwise its turn comes by itself."""
        if self._consumer_rate < 0:
            return True
        meter = self._meter(self._consumers, "out", sub.session.principal, self._consumer_rate)
        if not meter.open:
            sub.owes(room)
            meter.waiting[sub.consumer] = sub.give_room
        return meter.open

    def _meter(self, meters: dict[str, Meter], way: str, user: str, rate: int) -> Meter:
        meter = meters.get(user)
        if meter is None:
            meter = meters[user] = Meter(self, f"{way}:{user}", rate)
            meter.take(0)
        return meter


def _sent(event: Event) -> int:
    """Messages that a client sends with it."""
    kind = type(event)
    return len(event.records) if kind is Sends else int(kind is BodyStart)  # type: ignore[union-attr]


def split(events: list[Event], room: int) -> tuple[list[Event], list[Event]]:
    """Everything in front of the message behind that many; and the rest."""
    for at, event in enumerate(events):
        count = _sent(event)
        if count <= room:
            room -= count
        elif room:
            assert isinstance(event, Sends)
            first, second = event.cut(room)
            return [*events[:at], first], [second, *events[at + 1 :]]
        else:
            return events[:at], events[at:]
    return events, []


def under_way(rate: int, most: int, number: int = 1) -> int:
    """Bytes that may be under way to a consumer with that rate, of `most`; `number`: of so many on its connection.
    No more messages than a fifth of a second's, however small they are; but one at a time, however large."""
    return max(min(int(rate * UNDER_WAY_S) * LEAST_COST // number, most), 1)


def make_rates(
    settings: EdgeSettings, clock: Clock, beats: TimerWheel, tokens: Tokens | None, paced: bool = False
) -> Rates | None:
    """None where no rate is set. `paced`: some acceptor has one for single connections."""
    if settings.max_producer_rate < 0 and settings.max_consumer_rate < 0 and not paced:
        return None
    return Rates(settings, clock, beats, tokens)
