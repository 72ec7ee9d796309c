"""How fast users, virtual hosts and addresses of clients may send and receive, in messages and in bytes, over all of
their connections, and over all edges where these share.

A Meter (meters.py) is one bucket of them on this edge. Of what has been read from a socket so many SENDs are carried
out as there are tokens; the rest waits in its connection, whose socket is not read meanwhile, however much one read has
brought. What an owner has handed out is delivered: there tokens may run into debt, by what is under way to a consumer
(`under_way`: little), and while they are, no room is given back, so that messages stay in the queue. By bytes a message
goes as a whole, and what it was too large is owed. Nothing is dropped or refused.

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
from broker.wire.events import BodyData, BodyStart, Event, Sends

from ..quotas.meters import BURST_S, LocalTokens, Meter, Pace, RatedUsage, Tokens, Way
from ..transport.timers import TimerWheel
from .subscription import SlotSubscription, Subscriber

UNDER_WAY_S = 0.2
"""What is under way to a consumer is no more than it may get in that time …"""
LEAST_COST = 64
"""… with messages of so many bytes: shorter ones there are none, by what stands in front of each …"""
RATED_ROOM = 16 * 1024
"""… and never more than so many bytes, whatever the rate."""


class Quoted(Protocol):
    """Whose rates there are besides (quotas.Quotas).    sends, receives   has any entry a rate of that kind."""

    sends: bool
    receives: bool

    def part(self, limit: int, others: int) -> int: ...


class RatedSession(Protocol):
    """A connection whose messages are counted."""

    @property
    def id(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    @property
    def principal(self) -> str: ...
    @property
    def usage(self) -> RatedUsage | None: ...
    @property
    def acceptor(self) -> AcceptorSettings: ...


class Rates:
    """All meters of an edge. `tokens`: shared with other edges; None: each edge for itself."""

    def __init__(
        self,
        settings: EdgeSettings,
        clock: Clock,
        beats: TimerWheel,
        tokens: Tokens | None,
        quoted: Quoted | None = None,
    ) -> None:
        self._producer_rate = settings.max_producer_rate
        self._consumer_rate = settings.max_consumer_rate
        self._clock = clock
        self._beats = beats
        self._local = LocalTokens(clock)
        self._tokens = tokens
        self._quoted = quoted
        self._producers: dict[str, Meter] = {}
        self._consumers: dict[str, Meter] = {}
        self._paces: dict[int, Pace] = {}
        """By session."""

    def lease(self, meter: Meter, want: int, granted: Callable[[int], None]) -> None:
        """See meters.Leases."""

        def answered(count: int | None) -> None:
            if count is None:
                self._alone(meter, want, granted)
            else:
                granted(count)

        if self._tokens is None:
            self._alone(meter, want, granted)
        else:
            self._tokens.lease(meter.name, meter.rate, _burst(meter.rate), want, answered)

    def _alone(self, meter: Meter, want: int, granted: Callable[[int], None]) -> None:
        """Nobody else can be asked. Better the full rate on every edge than nobody served; of a quota its part."""
        rate = meter.rate
        if meter.divided and self._quoted is not None:
            rate = max(self._quoted.part(rate, 0), 1)
        self._local.lease(meter.name, rate, _burst(rate), want, lambda count: granted(count or 0))

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        """See meters.Leases."""
        self._beats.deadline(self._clock.monotonic() + seconds, callback)

    def admit(
        self, session: RatedSession, events: list[Event], go_on: Callable[[], None], again: bool = False
    ) -> tuple[list[Event], list[Event]]:
        """What of that may be carried out now, and the rest: `go_on` is called when its turn has come. again: that has
        happened."""
        own, quoted = session.acceptor.max_producer_rate, self._quoted is not None and self._quoted.sends
        if not session.connected or (own < 0 and self._producer_rate < 0 and not quoted):
            return events, []
        count = room = sum([_sent(event) for event in events])
        now, pace = self._clock.monotonic(), None
        if own >= 0 and count:
            pace = self._paces.get(session.id)
            if pace is None:
                pace = self._paces[session.id] = Pace(own, now)
            room = min(room, pace.room(now))
        by_message, by_byte = self._sending(session) if count or quoted else ((), ())
        first, late, waits = _past(events, room, by_message, by_byte, again)
        if pace is not None:
            pace.spend(sum([_sent(event) for event in first]), now)
        if not late:
            return first, []
        if waits is None or (pace is not None and pace.room(now) < 1):
            assert pace is not None
            self.later(pace.until(count - room), go_on)
        else:
            waits.wait(session.id, go_on)
            if waits.open:
                self.later(0, waits.serve)
        return first, late

    def _sending(self, session: RatedSession) -> tuple[Sequence[Meter], Sequence[Meter]]:
        """What messages that come from there pass: by number, and by bytes."""
        quotas = self._quotas(session, Way.IN)
        if self._producer_rate >= 0:
            quotas = [self._meter(self._producers, "in", session.principal, self._producer_rate), *quotas]
        return quotas, self._quotas(session, Way.IN_BYTES)

    def _receiving(self, session: Subscriber, way: Way) -> list[Meter]:
        """What messages that go there pass."""
        meters = self._quotas(session, way)
        if self._consumer_rate >= 0 and way is Way.OUT:
            meters.insert(0, self._meter(self._consumers, "out", session.principal, self._consumer_rate))
        return meters

    def _quotas(self, session: RatedSession | Subscriber, way: Way) -> list[Meter]:
        found: list[Meter] = []
        if (usage := session.usage) is not None:
            for account in usage.accounts:
                if (rate := account.rates[way]) >= 0:
                    meter = account.meters[way]
                    if meter is None:
                        # No user can be called so that his own meter (`in:NAME`) is this one.
                        name = f"quota-{way.name.lower()}:{account.who}"
                        meter = Meter(self, name, rate, account.tallies[way], divided=True, paid=account.paid)
                        account.meters[way] = meter
                        meter.spend(0)
                    found.append(meter)
        return found

    def forget(self, session: int) -> None:
        """Its connection is gone."""
        self._paces.pop(session, None)

    def delivered(self, effects: Sequence[Effect], consumers: dict[int, SlotSubscription]) -> None:
        """These have come from an owner."""
        if not self.paces_consumers:
            return
        counts: dict[Subscriber, list[int]] = {}
        for effect in effects:
            if type(effect) is Deliver:
                sub = consumers.get(effect.consumer)
                if sub is not None:
                    to = counts.get(sub.session)
                    if to is None:
                        to = counts[sub.session] = [0, 0]
                    to[0] += len(effect.run)
                    to[1] += effect.run.nbytes
        for session, (messages, nbytes) in counts.items():
            for way, count in ((Way.OUT, messages), (Way.OUT_BYTES, nbytes)):
                for meter in self._receiving(session, way):
                    meter.passes(count)
                    meter.spend(count)

    def granting(self, subs: list[SlotSubscription]) -> list[SlotSubscription]:
        """Those of them whose room may be given back now; the turn of the rest comes by itself."""
        if not self.paces_consumers:
            return subs
        now: list[SlotSubscription] = []
        for sub in subs:
            meter = self._closed(sub.session)
            if meter is None:
                now.append(sub)
            else:
                meter.wait(sub.consumer, sub.give_room)
        return now

    def _closed(self, session: Subscriber) -> Meter | None:
        """What its messages wait for."""
        for way in (Way.OUT, Way.OUT_BYTES):
            for meter in self._receiving(session, way):
                if not meter.open:
                    return meter
        return None

    @property
    def paces_consumers(self) -> bool:
        """Has what goes to users a rate."""
        return self._consumer_rate >= 0 or (self._quoted is not None and self._quoted.receives)

    def paces(self, session: Subscriber) -> bool:
        """Has what goes to this one a rate."""
        return self.paces_consumers and any(self._receiving(session, way) for way in (Way.OUT, Way.OUT_BYTES))

    def begins(self, sub: SlotSubscription, room: int) -> bool:
        """May a new subscription have its room now; otherwise its turn comes by itself."""
        meter = self._closed(sub.session) if self.paces_consumers else None
        if meter is not None:
            sub.owes(room)
            meter.wait(sub.consumer, sub.give_room)
        return meter is None

    def room(self, session: Subscriber, most: int, number: int) -> int:
        """Bytes that may be under way to a new consumer of it, of `most`: what is under way has left the queue."""
        if not self.paces_consumers:
            return most
        messages = [meter.rate for meter in self._receiving(session, Way.OUT)]
        nbytes = [meter.rate for meter in self._receiving(session, Way.OUT_BYTES)]
        if messages:
            most = under_way(min(messages), min(most, RATED_ROOM), number)
        if nbytes:
            most = max(min(int(min(nbytes) * UNDER_WAY_S) // number, most, RATED_ROOM), 1)
        return most

    def _meter(self, meters: dict[str, Meter], way: str, user: str, rate: int) -> Meter:
        meter = meters.get(user)
        if meter is None:
            meter = meters[user] = Meter(self, f"{way}:{user}", rate)
            meter.spend(0)
        return meter


def _burst(rate: int) -> int:
    return max(int(rate * BURST_S), 1)


def _past(
    events: list[Event], room: int, by_message: Sequence[Meter], by_byte: Sequence[Meter], again: bool
) -> tuple[list[Event], list[Event], Meter | None]:
    """`room` messages of these at most, as far as the meters let them by; the rest, and which meter it waits for."""
    waits: Meter | None = None
    drawn: list[tuple[Meter, int]] = []
    for meter in by_message:
        drawn.append((meter, now := meter.draw(room, again)))
        if now < room:
            room, waits = now, meter
    first, late = split(events, room)
    if by_byte:
        nbytes = most = sum(map(_bytes, first))
        weighed: list[tuple[Meter, int]] = []
        for meter in by_byte if nbytes else ():
            weighed.append((meter, now := meter.draw(most, again)))
            if now < most:
                most, waits = now, meter
        if most < nbytes:
            first, more = split_bytes(first, most)
            late = more + late
            nbytes = sum(map(_bytes, first))
        for meter, taken in weighed:
            meter.passes(nbytes)
            meter.spend(nbytes - taken)  # the last message may be larger than what was left: that is owed
        room = sum(map(_sent, first))
    for meter, taken in drawn:
        meter.passes(room)
        if taken != room:
            meter.spend(room - taken)
    return first, late, waits if late else None


def _sent(event: Event) -> int:
    """Messages that a client sends with it."""
    kind = type(event)
    return len(event.records) if kind is Sends else int(kind is BodyStart)  # type: ignore[union-attr]


def _bytes(event: Event) -> int:
    """Bytes of messages that a client sends with it."""
    kind = type(event)
    if kind is Sends:
        return event.nbytes  # type: ignore[union-attr]
    return len(event.data) if kind is BodyData else 0  # type: ignore[union-attr]


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


def split_bytes(events: list[Event], room: int) -> tuple[list[Event], list[Event]]:
    """Everything until that many bytes are passed: the message with the last of them goes as a whole."""
    for at, event in enumerate(events):
        count = _bytes(event)
        if count < room or not count:
            room -= count
        elif room <= 0:
            return events[:at], events[at:]
        elif not isinstance(event, Sends):
            return events[: at + 1], events[at + 1 :]
        else:
            head, messages = len(event.head.lines), 0
            while room > 0:
                room -= head + len(event.records[messages])
                messages += 1
            if messages == len(event.records):
                return events[: at + 1], events[at + 1 :]
            first, second = event.cut(messages)
            return [*events[:at], first], [second, *events[at + 1 :]]
    return events, []


def under_way(rate: int, most: int, number: int = 1) -> int:
    """Bytes that may be under way to a consumer with that rate, of `most`; `number`: of so many on its connection.
    No more messages than a fifth of a second's, however small they are; but one at a time, however large."""
    return max(min(int(rate * UNDER_WAY_S) * LEAST_COST // number, most), 1)


def make_rates(
    settings: EdgeSettings,
    clock: Clock,
    beats: TimerWheel,
    tokens: Tokens | None,
    quoted: Quoted,
    paced: bool,
) -> Rates | None:
    """None where no rate is set. `paced`: some acceptor has one for single connections."""
    wanted = paced or quoted.sends or quoted.receives
    if settings.max_producer_rate < 0 and settings.max_consumer_rate < 0 and not wanted:
        return None
    return Rates(settings, clock, beats, tokens, quoted)
