"""Wildcards of queues, as ActiveMQ Classic has them: `/queue/orders.>` consumes every queue that is called so, also
those that come later.

  SUBSCRIBE /queue/orders.>     one part, at an address of its own that nobody can send to: it is the subscription
  a look at the owners          orders.eu and orders.us are there: a part for each, like that of a composite destination
  a second later                orders.asia has come: one more part

Owners tell nobody what queues there are, so they are asked, by one edge once for all of its connections, as long as
there is such a subscription. Whoever consumes a queue by its own name is not different for them.

Rule: a part is made of the standing one, and is like it but for address, slot and number. PIECE of them are made in a
step. Must not know owners.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from broker.core.address import Routing
from broker.core.commands import Command, Subscribe
from broker.core.errors import Code, RefusedError
from broker.seams.clock import Clock

from ..quotas.quotas import Resource
from ..session.session import Session
from ..subscriptions.split_subscription import Fan
from ..subscriptions.subscription import SlotSubscription
from ..transport.timers import TimerWheel

log = logging.getLogger("stampede.edge")

LOOK_S: Final = 1.0
"""A queue that has come is consumed within so long."""
SPARE: Final = 20
"""A look may take one part in so many of the time."""
MOST: Final = 1000
"""Queues of one wildcard."""
PIECE: Final = 50
"""Parts that are made in one step."""

Found = Callable[[Mapping[str, Sequence[str]]], None]
Find = Callable[[Iterable[str], int, Found], None]
"""Patterns, and how many names of each at most → calls back with the names of the queues that there are, by pattern. A
pattern about which not all owners have answered may lack some."""


class Watching(Protocol):
    """The edge."""

    @property
    def clock(self) -> Clock: ...
    @property
    def beats(self) -> TimerWheel: ...


class QueueFan(Fan):
    """The parts of one of them.    pattern   what it is of."""

    __slots__ = ("key", "names", "pattern", "session", "standing")

    def __init__(self, session: Session, key: str, pattern: str, standing: SlotSubscription) -> None:
        super().__init__()
        self.session = session
        self.key = key
        self.pattern = pattern
        self.standing = standing
        self.names: set[str] = set()
        self.join(standing)

    @property
    def live(self) -> bool:
        """Is it not over."""
        found = None if self.session.closed else self.session.subscriptions.get(self.key)
        return found is not None and found.fan is self


class QueueWildcards:
    """Of one edge."""

    __slots__ = ("_all", "_asked", "_edge", "_find", "_new", "_timed")

    def __init__(self, edge: Watching) -> None:
        self._edge = edge
        self._find: Find | None = None
        self._all: list[QueueFan] = []
        self._new: deque[tuple[QueueFan, str]] = deque()
        self._timed = False
        self._asked = 0.0
        """When; 0: nothing is under way."""

    def found_by(self, find: Find) -> None:
        """Who knows what queues there are."""
        self._find = find

    @property
    def served(self) -> bool:
        return self._find is not None

    def add(self, fan: Fan) -> None:
        """It has its standing part."""
        assert isinstance(fan, QueueFan)
        self._all.append(fan)
        self._look()

    def lost(self, sub: SlotSubscription) -> bool:
        """A queue has gone: is it one of a wildcard, which goes on without it."""
        fan = sub.fan
        if not isinstance(fan, QueueFan) or sub is fan.standing:
            return False
        fan.parts.remove(sub)
        fan.names.discard(sub.address)
        fan.session.remove_part(sub)
        return True

    def _look(self) -> None:
        self._timed = False
        if self._asked or self._find is None:
            return
        self._all = [fan for fan in self._all if fan.live]
        if self._all:
            self._asked = self._edge.clock.monotonic()
            self._find(sorted({fan.pattern for fan in self._all}), MOST + 1, self._seen)

    def _seen(self, found: Mapping[str, Sequence[str]]) -> None:
        now = self._edge.clock.monotonic()
        again = now + max(LOOK_S, SPARE * (now - self._asked))
        self._asked = 0.0
        missed = False
        for fan in self._all:
            if fan.pattern not in found:
                missed = True  # it has come while the others were asked for
            self._new.extend([(fan, name) for name in found.get(fan.pattern, ()) if name not in fan.names])
        if self._new:
            self._piece()
        if missed:
            self._look()
        elif not self._timed:
            self._timed = True
            self._edge.beats.deadline(again, self._look)

    def _piece(self) -> None:
        for _ in range(min(PIECE, len(self._new))):
            fan, name = self._new.popleft()
            if fan.live and not fan.session.leaving and name not in fan.names:
                try:
                    _join(fan, name)
                except Exception:
                    fan.session.fault()
        if self._new:
            self._edge.beats.soon(self._piece)


def _join(fan: QueueFan, address: str) -> None:
    """A part in each slot of the queue."""
    session, standing = fan.session, fan.standing
    edge, model = session.edge, standing.model
    assert model is not None
    if len(fan.names) >= MOST:
        told = session.host.told(fan.pattern)[:100]
        session.fail(Code.SUBSCRIPTION_LIMIT, f"'{told}' stands for more than {MOST} queues: name fewer of them")
        return
    fan.names.add(address)
    rights = session.rights
    if rights is not None and "consume" not in rights.at(address, address):
        return  # it is not among those that he is told of
    commands: list[Command] = []
    slots = edge.routes.slots(address)
    if session.usage is not None:
        try:
            session.usage.check(Resource.SUBSCRIPTIONS, len(slots))
        except RefusedError as refused:
            session.fail(refused.code, refused.detail)
            return
    for slot in slots:
        consumer = edge.next_consumer()
        part = standing.sibling(consumer, slot, model.room // 4).at(address)
        fan.join(part)
        session.add_part(part)
        rates = edge.rates
        command = Subscribe(
            slot, session.id, 0, consumer, address, Routing.ANYCAST, model.ack, selector=model.selector,
            credit_messages=model.credit_messages, credit_bytes=model.credit_bytes,
            room=model.room if rates is None or rates.begins(part, model.room) else 0, overhead=part.overhead,
            priority=model.priority, no_local=model.no_local,
        )  # fmt: skip
        part.asks(command)
        commands.append(command)
    edge.port.submit(commands)
