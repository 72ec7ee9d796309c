"""Queues that are more than first in, first out: last values, rings, messages that stay, queues that wait.

A queue's settings say what it is (equip). Such a queue tells its kind what comes in (Tended); before it is handed out
the queue is brought in order (tend), and again afterwards (trim), because what can be delivered at once was never
resting: bounds are for what rests.

Rule: called once per queue and turn, and only for queues that have a kind. What leaves here leaves for good, and is
settled in the same turn. Must not know how messages are dealt to consumers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.config.addressing import AddressSettings
from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.records import Left

from .last_value import LastValue
from .non_destructive import Cursors
from .queue import Queue
from .runs import pick

if TYPE_CHECKING:
    from .slot import Slot

_FEW = 16
"""Above one in so many it is cheaper to look at all runs once."""


class QueuePolicy:
    """What a queue does beside first in, first out.

    last_value   newest message of each key; None: all.
    cursors      messages stay, and each consumer has its own place; None: they go.
    since        when the first consumer came; 0: nobody is there.
    begun        enough came (consumers_before_dispatch); until all are gone."""

    __slots__ = ("begun", "cursors", "last_value", "since")

    def __init__(self) -> None:
        self.last_value: LastValue | None = None
        self.cursors: Cursors | None = None
        self.since = 0
        self.begun = False

    def configure(self, queue: Queue, settings: AddressSettings) -> None:
        """What is there already is looked at as if it had just come."""
        key = settings.last_value_key or ("_AMQ_LVQ_NAME" if settings.last_value else "")
        if not key:
            self.last_value = None
        elif self.last_value is None or self.last_value.name != key:
            self.last_value = LastValue(key)
            self.last_value.fresh += queue.in_order()
            self.last_value.blind.extend(queue.index)
        if queue.delivering:
            return  # what consumers hold was taken by the old rule; the new one applies when the last of them has gone
        if not settings.non_destructive:
            self.cursors = None
        elif self.cursors is None:
            self.cursors = Cursors()


class Tended(Queue):
    """A queue that has a kind. Objects change between the two classes, so that plain queues have no question to ask."""

    __slots__ = ()

    def added(self, run: Run) -> None:
        super().added(run)
        kind = self.kind
        assert kind is not None
        if kind.last_value is not None:
            kind.last_value.fresh.append(run)
        if kind.cursors is not None:
            kind.cursors.came(run)

    def left(self, run: Run) -> None:
        super().left(run)
        assert self.kind is not None
        if self.kind.cursors is not None:
            self.kind.cursors.left(run)

    def page(self, run: Run) -> None:
        super().page(run)
        assert self.kind is not None
        if self.kind.last_value is not None:
            self.kind.last_value.blind.pop()
            self.kind.last_value.paged(run)

    def page_at(self, position: int, count: int, nbytes: int, expires: int) -> None:
        super().page_at(position, count, nbytes, expires)
        assert self.kind is not None
        if self.kind.last_value is not None:
            self.kind.last_value.blind.append(position)

    def arrange(self, order: list[int]) -> None:
        super().arrange(order)
        if self.kind is not None and self.kind.last_value is not None:
            self.kind.last_value.blind = deque(self.index)

    def unpaged(self, positions: int, count: int, nbytes: int) -> None:
        if self.kind is not None and self.kind.last_value is not None and self.kind.last_value.blind:
            self.kind.last_value.unpaged(self.index.first(positions))
        super().unpaged(positions, count, nbytes)
        assert self.kind is not None
        if self.kind.cursors is not None:
            self.kind.cursors.unpaged(positions)

    def takes(self) -> bool:
        assert self.kind is not None
        return self.kind.cursors is None and super().takes()


def equip(queue: Queue) -> None:
    """Makes it what its settings say."""
    settings = queue.settings
    special = (
        settings.last_value
        or settings.last_value_key
        or settings.ring_size >= 0
        or settings.non_destructive
        or settings.paused
        or queue.paused
        or settings.consumers_before_dispatch
    )
    if special:
        queue.kind = queue.kind or QueuePolicy()
        queue.kind.configure(queue, settings)
        queue.__class__ = Tended
    elif queue.kind is not None and not (queue.kind.cursors is not None and queue.delivering):
        queue.kind = None
        queue.__class__ = Queue


def fetched(kind: QueuePolicy, runs: list[Run], used: list[Run]) -> None:
    """The journal's answer to whom it was read for, and what of it is in the queue."""
    if kind.last_value is not None and kind.last_value.asked is not None:
        kind.last_value.looked(runs, used)
    elif kind.cursors is not None:
        kind.cursors.fetched(runs, used if kind.last_value is None else kind.last_value.alive(used))


def read_back(kind: QueuePolicy) -> None:
    """A page has entered memory: its messages rested before, so they replace each other before anybody gets one."""
    if kind.last_value is not None:
        kind.last_value.settle_down()


def stays(queue: Queue) -> bool:
    """Do its messages stay when they are consumed."""
    return queue.kind is not None and queue.kind.cursors is not None


def reads_ahead(queue: Queue, kind: QueuePolicy) -> bool:
    """Has it use for what is paged out though nobody consumes: keys have to be known before a newer message comes,
    cursors count on memory being filled first, and a ring that is too long loses its oldest messages."""
    if kind.last_value is not None or kind.cursors is not None:
        return True
    return 0 <= queue.settings.ring_size < queue.count + queue.paged_count + queue.far


def tend(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> bool:
    """Brings the queue in order. Returns whether its messages may be handed out now, and are handed out as usual."""
    if kind.last_value is not None:
        kind.last_value.overtaken()
        _discard(slot, queue, kind.last_value, turn)
        if kind.last_value.blind:
            # Older values may stand before newer ones: first all keys must be known.
            kind.last_value.look(slot, queue, turn)
            return False
    settings = queue.settings
    if settings.paused or queue.paused or (settings.consumers_before_dispatch and not _enough(slot, queue, kind, turn)):
        return False
    if kind.cursors is not None:
        kind.cursors.show(slot, queue, turn)
        return False
    return True


def trim(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> None:
    """What rests now may be too much."""
    if kind.last_value is not None:
        kind.last_value.settle_down()
        _discard(slot, queue, kind.last_value, turn)
    ring, rests = queue.settings.ring_size, queue.count + queue.paged_count + queue.far
    if 0 <= ring < rests:
        _shorten(slot, queue, rests - ring, turn)


def _enough(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> bool:
    """Have enough consumers come, or the first of them long ago."""
    if not queue.consumers:
        kind.since, kind.begun = 0, False
        return False
    if not kind.begun:
        kind.since = kind.since or turn.now
        needed, delay = queue.settings.consumers_before_dispatch, queue.settings.delay_before_dispatch_ms
        due = kind.since + delay
        kind.begun = len(queue.consumers) >= needed or (delay >= 0 and due <= turn.now)
        if not kind.begun and delay >= 0:
            slot.wake(queue, due)
    return kind.begun


def _discard(slot: Slot, queue: Queue, last_value: LastValue, turn: Turn) -> None:
    """Takes out what newer messages have replaced. What is not in memory is found replaced when it comes back."""
    dead, last_value.dead = last_value.dead, set()
    if not dead:
        return
    gone: list[Run] = []
    for store in queue.stores():
        if queue.agenda is None and len(dead) * _FEW < len(store):
            _pluck(queue, store, dead, gone)
        elif any([not dead.isdisjoint(run.ids) for run in store]):
            _filter(queue, store, dead, gone)
    last_value.bury(slot, queue, dead, gone, turn)
    if last_value.crowded(queue.count):
        last_value.forget({i for store in queue.stores() for run in store for i in run.ids})


def _pluck(queue: Queue, store: deque[Run], dead: Iterable[int], gone: list[Run]) -> None:
    """As _filter, for few messages among many runs that stand by ascending id."""
    for i in sorted(dead):
        at = bisect_left(store, i, key=_last_id)
        if at == len(store) or i not in store[at].ids:
            continue
        store.rotate(-at)
        here = deque((store.popleft(),))
        _filter(queue, here, {i}, gone)
        store.extendleft(here)
        store.rotate(at)


def _filter(queue: Queue, store: deque[Run], dead: set[int], gone: list[Run]) -> None:
    runs = list(store)
    store.clear()
    for run in runs:
        kept = [at for at, i in enumerate(run.ids) if i not in dead]
        if len(kept) == len(run.ids):
            store.append(run)
            continue
        queue.left(run)
        gone.append(pick(run, [at for at, i in enumerate(run.ids) if i in dead]))
        if kept:
            rest = pick(run, kept)
            store.append(rest)
            _stayed(queue, rest)


def _shorten(slot: Slot, queue: Queue, count: int, turn: Turn) -> None:
    """Drops so many of the oldest in memory; what is paged out comes back in time."""
    while count > 0:
        stores = [store for store in queue.stores() if store]
        if not stores:
            return
        oldest = min(stores, key=_first_id)
        run = oldest.popleft()
        queue.left(run)
        if len(run.ids) > count:
            rest = run.cut(slice(count, None))
            oldest.appendleft(rest)
            _stayed(queue, rest)
            run = run.cut(slice(count))
        count -= len(run.ids)
        slot.settle_runs(queue, [run], turn, Left.REPLACED)
        slot.counters.replaced += len(run.ids)


def _stayed(queue: Queue, rest: Run) -> None:
    """What is left of a run of which a part has gone: nothing new."""
    Queue.added(queue, rest)
    if queue.kind is not None and queue.kind.cursors is not None:
        queue.kind.cursors.changed()


def _last_id(run: Run) -> int:
    return run.ids[-1]


def _first_id(store: deque[Run]) -> int:
    return store[0].ids[0]
