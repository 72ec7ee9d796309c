"""Wildcards of queues, as ActiveMQ Classic has them: `/queue/orders.>` consumes every queue that is called so, also
those that come later.

  SUBSCRIBE /queue/orders.>     one part, at an address of its own that no client can send to: it is the subscription
  a look at the owners          orders.eu and orders.us are there: a part for each, like that of a composite destination
  a second later                orders.asia has come: one more part

Owners do not tell of themselves what queues there are, so they are asked, by one edge once for all of its connections,
as long as there is such a subscription. A consumer of a queue by its own name is not different for them.

Its window is one over all parts, but which queue has something is not known before it comes. So each part may deliver,
and what is too much waits here; where it has waited for REST_S, and the client has nothing of that queue, nor has
acknowledged anything of it in a transaction that is open, the part rests: it ends, what it had is for any consumer
again, and it is asked for anew when the client may have more.

Rule: a part is made of the standing one, and is like it but for address, slot and number. PIECE of them are made in a
step, and owners are not asked again before all that was found has been gone through. Must not know owners.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol

from broker.core.address import Routing
from broker.core.commands import Command, Publish, Settle, Subscribe, Unsubscribe
from broker.core.errors import Code, RefusedError
from broker.seams.clock import Clock

from ..quotas.quotas import Resource
from ..session.receipts import ASIDE
from ..session.session import Session
from ..subscriptions.split_subscription import SharedOrder, SplitSubscription
from ..subscriptions.subscription import SlotSubscription
from ..transport.timers import Handle, TimerWheel

log = logging.getLogger("stampede.edge")

LOOK_S: Final = 1.0
"""A queue that has come is consumed within so long."""
SPARE: Final = 20
"""A look may take one part in so many of the time."""
MOST: Final = 1000
"""Queues of one wildcard."""
REMEMBERED: Final = 1000
"""Parts of a connection whose queues are gone."""
REST_S: Final = 1.0
"""What waits for so long for its client to acknowledge others goes back to its queue."""
AGAIN_S: Final = 10.0
"""A part that its owner has refused (max_consumers, for one) is asked for again after so long."""
PIECE: Final = 50
"""Parts that are made in one step, …"""
LOOKED: Final = 1000
"""… or so many names looked at: of a thousand wildcards with a thousand queues each a million are known."""

GONE: Final = (Code.NOT_ALLOWED, Code.NO_SUCH_DESTINATION)
"""What a part is refused with whose queue went while it was asked for."""
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
    @property
    def consumers(self) -> Mapping[int, SlotSubscription]: ...
    def handle(self, consumer: int) -> bytes: ...


class QueueWildcard(SplitSubscription):
    """The parts of one of them.

    pattern   what it is of.    refused   queue → when its part may be asked for again.    resting   queues whose parts
    rest.    order   keeps count over all parts; None: nothing is counted."""

    __slots__ = ("key", "names", "order", "pattern", "refused", "resting", "session", "standing", "timed")

    def __init__(self, session: Session, key: str, pattern: str, standing: SlotSubscription) -> None:
        super().__init__()
        self.session = session
        self.key = key
        self.pattern = pattern
        self.standing = standing
        self.names: set[str] = set()
        self.refused: dict[str, float] = {}
        self.resting: dict[str, None] = {}
        self.timed = False
        """It will be looked what waits."""
        self.order = standing.order if isinstance(standing.order, SharedOrder) else None
        self.join(standing)

    def over(self) -> None:
        """It has ended: no rings of objects."""
        self.order = None

    @property
    def live(self) -> bool:
        """Is it not over."""
        found = None if self.session.closed else self.session.subscriptions.get(self.key)
        return found is not None and found.split is self


class QueueWildcards:
    """Of one edge."""

    __slots__ = ("_all", "_asked", "_edge", "_ended", "_find", "_found", "_fresh", "_going", "_last", "_next",
                 "_timer")  # fmt: skip

    def __init__(self, edge: Watching) -> None:
        self._edge = edge
        self._find: Find | None = None
        self._all: list[QueueWildcard] = []
        self._found: deque[tuple[QueueWildcard, Iterator[str]]] = deque()
        """Names that are still to be looked at."""
        self._fresh = False
        """There is a subscription for which no owner was asked yet."""
        self._last = self._next = 0.0
        """When the last look was over, and when the next one may begin."""
        self._timer: Handle | None = None
        self._going = False
        """The next piece has its turn soon: there is one such, however often it is asked for."""
        self._ended: dict[int, dict[bytes, None]] = {}
        """Session → handles of parts whose queues are gone: of each its own, so that who has many such queues has
        nobody else's forgotten."""
        self._asked = 0.0
        """When; 0: nothing is under way."""

    def found_by(self, find: Find) -> None:
        """Who knows what queues there are."""
        self._find = find

    @property
    def served(self) -> bool:
        return self._find is not None

    def add(self, split: SplitSubscription) -> None:
        """It has its standing part."""
        assert isinstance(split, QueueWildcard)
        self._all.append(split)
        if split.order is not None:
            split.order.heard_by(partial(self._waits, split), partial(self._wake, split))
        self._fresh = True
        self._plan()

    def lost(self, sub: SlotSubscription) -> bool:
        """A queue has gone: is it one of a wildcard, which goes on without it."""
        split = sub.split
        if not isinstance(split, QueueWildcard) or sub is split.standing:
            return False
        split.parts.remove(sub)
        split.names.discard(sub.address)
        ended = self._ended.setdefault(split.session.id, {})
        ended[sub.handle] = None
        if len(ended) > REMEMBERED:
            del ended[next(iter(ended))]
        order = sub.order
        split.session.remove_part(sub)
        if order is not None:
            order.lost(sub)
        return True

    def _waits(self, split: QueueWildcard) -> None:
        if not split.timed:
            split.timed = True
            self._edge.beats.deadline(self._edge.clock.monotonic() + REST_S, partial(self._rest, split))

    def _rest(self, split: QueueWildcard) -> None:
        """Parts whose messages wait while the client has others: PIECE of them end, the rest in the next turns."""
        split.timed = False
        order = split.order
        if order is None or not split.live or split.session.leaving or order.free > 0:
            return
        edge, settling = split.session.edge, split.session.settling
        some = [
            part for part in order.unshown()
            if part is not split.standing and part.consumer not in settling and _may_rest(split, part)
        ]  # fmt: skip
        parts = some[:PIECE]
        order.drop(frozenset(parts))
        for part in parts:
            split.parts.remove(part)
            split.names.discard(part.address)
            split.resting[part.address] = None
            split.session.remove_part(part)
        edge.port.submit([Unsubscribe(part.slot, split.session.id, 0, part.consumer, part.address) for part in parts])
        if len(some) > PIECE:
            split.timed = True
            self._edge.beats.soon(partial(self._rest, split))
        elif order.waiting:
            self._waits(split)

    def _wake(self, split: QueueWildcard) -> None:
        """The client may have more: as many parts as messages, in turn. All others at the next look, if nothing came of
        those."""
        if split.resting and split.order is not None:
            names = list(islice(split.resting, min(split.order.free, PIECE)))
            for name in names:
                del split.resting[name]
            self._found.append((split, iter(names)))
            self._soon()

    def ended(self, session: int, handle: bytes) -> bool:
        """Was it that of a queue which is gone: an ACK of what came of it is late, and no mistake."""
        return handle in self._ended.get(session, ())

    def left(self, session: int) -> None:
        """The connection is gone."""
        self._ended.pop(session, None)

    def forget(self, session: int, parts: list[Publish | Settle]) -> None:
        """What its transaction says of messages that went with their queue meanwhile is done."""
        if gone := self._ended.get(session):
            handle = self._edge.handle
            parts[:] = [each for each in parts if type(each) is Publish or handle(each.consumer) not in gone]  # type: ignore[union-attr]

    def refused(self, consumer: int, code: Code, detail: str) -> None:
        """An owner does not let a part be: what there is of other queues goes on. It is tried again."""
        sub = self._edge.consumers.get(consumer)
        split = None if sub is None else sub.split
        if sub is None or not isinstance(split, QueueWildcard):
            return  # it has ended meanwhile
        if code not in GONE:
            session, level = split.session, logging.DEBUG if sub.address in split.refused else logging.WARNING
            about = session.channel.peer, session.id, split.pattern, sub.address, code.name, detail
            log.log(level, "%s #%d: %s does not get messages of %s: %s %s", *about)
            split.refused[sub.address] = self._edge.clock.monotonic() + AGAIN_S
        self.lost(sub)

    def _plan(self) -> None:
        """When to look next: SPARE times as long after a look as that took, and LOOK_S where nobody is new."""
        if self._asked or self._found:
            return
        at = self._next if self._fresh else max(self._next, self._last + LOOK_S)
        if self._timer is not None:
            self._edge.beats.cancel(self._timer)
            self._timer = None
        if at <= self._edge.clock.monotonic():
            self._look()
        else:
            self._timer = self._edge.beats.deadline(at, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._asked or self._found or self._find is None:
            return
        self._fresh = False
        alive, self._all = self._all, []
        for split in alive:
            if split.live:
                self._all.append(split)
            else:
                split.over()
        if self._all:
            self._asked = self._edge.clock.monotonic()
            self._find(sorted({split.pattern for split in self._all}), MOST + 1, self._seen)

    def _seen(self, found: Mapping[str, Sequence[str]]) -> None:
        now = self._edge.clock.monotonic()
        self._last, self._next = now, now + SPARE * (now - self._asked)
        self._asked = 0.0
        for split in self._all:
            names = found.get(split.pattern)
            if names is None:
                self._fresh = True  # it has come while the others were asked for
            elif names:
                self._found.append((split, iter(names)))
        if not self._going:
            self._piece()

    def _soon(self) -> None:
        if not self._going:
            self._going = True
            self._edge.beats.soon(self._piece)

    def _piece(self) -> None:
        self._going = False
        made = looked = 0
        while self._found and made < PIECE and looked < LOOKED:
            looked += 1
            split, names = self._found[0]
            name = next(names, None)
            if name is None or not split.live or split.session.leaving:
                self._found.popleft()
            elif name not in split.names and self._may(split, name):
                made += 1
                try:
                    _join(split, name)
                except Exception:
                    split.session.fault()
        if self._found:
            self._soon()
        else:
            self._plan()

    def _may(self, split: QueueWildcard, address: str) -> bool:
        """May he consume it. Asked at each look: what he may not he is not told of, and when he may, he is."""
        if split.refused.get(address, 0.0) > self._edge.clock.monotonic():
            return False
        if address in split.resting and split.order is not None and split.order.free <= 0:
            return False
        rights = split.session.rights
        return rights is None or "consume" in rights.at(address, address)


def _may_rest(split: QueueWildcard, part: SlotSubscription) -> bool:
    """Not where the queue would be emptied when its last consumer goes, nor where it has several parts."""
    edge = split.session.edge
    return not edge.match(part.address).purge_on_no_consumers and len(edge.routes.slots(part.address)) == 1


def _join(split: QueueWildcard, address: str) -> None:
    """A part in each slot of the queue."""
    session, standing = split.session, split.standing
    edge, model = session.edge, standing.model
    assert model is not None
    if len(split.names) >= MOST:
        told = session.host.told(split.pattern)[:100]
        session.fail(Code.SUBSCRIPTION_LIMIT, f"'{told}' stands for more than {MOST} queues: name fewer of them")
        return
    split.names.add(address)
    split.resting.pop(address, None)
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
        split.join(part)
        session.add_part(part)
        rates = edge.rates
        command = Subscribe(
            slot, session.id, ASIDE | consumer, consumer, address, Routing.ANYCAST, model.ack, selector=model.selector,
            credit_messages=model.credit_messages, credit_bytes=model.credit_bytes,
            room=model.room if rates is None or rates.begins(part, model.room) else 0, overhead=part.overhead,
            priority=model.priority, no_local=model.no_local, create=False,
        )  # fmt: skip
        part.asks(command)
        commands.append(command)
    edge.port.submit(commands)
