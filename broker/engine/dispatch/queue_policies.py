"""Queues that are more than first in, first out: last values, rings, messages that stay, queues that wait.

A queue's settings say what it is (Queue.equip), and what it knows as such is its QueuePolicy. Before it is handed out
the queue is brought in order (tend), and again afterwards (trim), because what can be delivered at once was never
resting: bounds are for what rests.

Rule: called once per queue and turn, and only for queues that have a kind. What leaves here leaves for good, and is
settled in the same turn.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from broker.core.effects import Turn
from broker.core.message import DEATH, ORIGINS, Run
from broker.core.records import Left

from ..messages.runs import head_of, pick
from ..queue.last_value import LastValue
from ..queue.policy_state import QueuePolicy
from ..queue.queue import Queue
from ..routing import advisories
from ..routing.redelivery import OVERFLOW, dead_letter
from ..state.slot import Slot, let_go, weight
from .non_destructive import show

_FEW = 16
"""Above one in so many it is cheaper to look at all runs once."""


def reads_ahead(queue: Queue, kind: QueuePolicy) -> bool:
    """Has it use for what is paged out though nobody consumes: keys have to be known before a newer message comes,
    cursors count on memory being filled first, and a ring that is too long loses its oldest messages."""
    if kind.last_value is not None or kind.cursors is not None:
        return True
    messages, nbytes = _surplus(queue)
    return messages > 0 or nbytes > 0


def tend(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> bool:
    """Brings the queue in order. Returns whether its messages may be handed out now, and are handed out as usual."""
    if kind.last_value is not None:
        # Before anything goes out: what was replaced by a message of this turn must not be handed out any more.
        kind.last_value.overtaken()
        _discard(slot, queue, kind.last_value, turn)
        if kind.last_value.blind:
            # Older values may stand before newer ones: first all keys must be known.
            _look(slot, queue, kind.last_value, turn)
            return False
    settings = queue.settings
    if settings.paused or queue.paused or (settings.consumers_before_dispatch and not _enough(slot, queue, kind, turn)):
        return False
    # Last: a paused queue shows nothing to anybody either.
    if kind.cursors is not None:
        show(slot, queue, kind.cursors, turn)
        return False
    return True


def trim(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> None:
    """What rests now may be too much."""
    if kind.last_value is not None:
        kind.last_value.settle_down()
        _discard(slot, queue, kind.last_value, turn)
    may = let_go(queue, turn)
    messages, nbytes = _surplus(queue)
    if messages > 0 or nbytes > 0:
        _shorten(slot, queue, messages, nbytes, may, turn)


def _surplus(queue: Queue) -> tuple[int, int]:
    """Messages and bytes that a ring has too many of. What is paged out after a restart, or known by number only, has
    the mean size of what is known."""
    settings, messages, nbytes = queue.settings, 0, 0
    if settings.ring_size >= 0:
        messages = queue.count + queue.pages.count + queue.far - settings.ring_size
    if settings.ring_bytes >= 0:
        far = queue.far * queue.nbytes // queue.count if queue.far and queue.count else 0
        nbytes = queue.nbytes + queue.pages.nbytes + far - settings.ring_bytes
    return messages, nbytes


def _enough(slot: Slot, queue: Queue, kind: QueuePolicy, turn: Turn) -> bool:
    """Have enough consumers come, or the first of them long ago."""
    due = kind.enough(len(queue.consumers), queue.settings, turn.now)
    if due:
        slot.wake(queue, due)
    return due == 0


def _look(slot: Slot, queue: Queue, last_value: LastValue, turn: Turn) -> None:
    """Reads what is not known, if memory has no room for it; else it comes by itself."""
    # Only with memory full: else the pages come by themselves, and are looked at as they come.
    if queue.pages.fetching is None and queue.nbytes * 2 > slot.limit:
        slot.fetch(queue, last_value.ask(slot.page_of(queue)), turn)


def _discard(slot: Slot, queue: Queue, last_value: LastValue, turn: Turn) -> None:
    """Takes out what newer messages have replaced. What is not in memory is found replaced when it comes back."""
    dead = last_value.take_dead()
    if not dead:
        return
    gone: list[Run] = []
    for store in queue.stores():
        # Ids ascend then: log n per dead message, instead of one look at every run.
        if queue.agenda is None and len(dead) * _FEW < len(store):
            _pluck(queue, store, dead, gone)
        elif any([not dead.isdisjoint(run.ids) for run in store]):
            _filter(queue, store, dead, gone)
    runs, paged = last_value.bury(dead, gone)
    for run in runs:
        slot.settle_runs(queue, [run], turn, Left.REPLACED)
    if paged:
        slot.settle_ids(queue, paged, turn, Left.REPLACED)
    slot.counters.add("replaced", sum([len(run.ids) for run in runs]) + len(paged))
    if not queue.pages.paging:
        last_value.none_paged()
    if last_value.outgrown(queue.count):
        last_value.forget({i for store in queue.stores() for run in store for i in run.ids})


def _pluck(queue: Queue, store: deque[Run], dead: Iterable[int], gone: list[Run]) -> None:
    """As _filter, for few messages among many runs that stand by ascending id."""
    for i in sorted(dead):
        at = bisect_left(store, i, key=_last_id)
        if at == len(store) or i not in store[at].ids:
            continue
        # A deque is quick at its ends: turned to the run, changed there, and turned back.
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
        # The whole run is counted off, then what stays of it comes in again: counts cannot drift by parts.
        queue.left(run)
        gone.append(pick(run, [at for at, i in enumerate(run.ids) if i in dead]))
        if kept:
            rest = pick(run, kept)
            store.append(rest)
            _stayed(queue, rest)


def _shorten(slot: Slot, queue: Queue, count: int, nbytes: int, may: tuple[int, int], turn: Turn) -> None:
    """Drops so many of the oldest in memory, and so many more that these bytes are free: as much as a turn may, the
    rest with the next one. What is paged out comes back in time."""
    gone: list[Run] = []
    most, came = may
    left = most
    while count > 0 or nbytes > 0:
        stores = [store for store in queue.stores() if store]
        if not stores:
            break
        if left <= 0:
            slot.unfinished[queue] = None
            break
        # The oldest of all priorities: a ring is about age.
        oldest = min(stores, key=_first_id)
        run = oldest.popleft()
        queue.left(run)
        over = head_of(run, count, nbytes)
        if len(run.ids) > over:
            rest = run.cut(slice(over, None))
            oldest.appendleft(rest)
            _stayed(queue, rest)
            run = run.cut(slice(over))
        count -= len(run.ids)
        nbytes -= run.nbytes
        dies = queue.settings.ring_dead_letters and _may_die(queue, run)
        left -= weight(run, dies)
        if dies:
            dead_letter(slot, queue, run, OVERFLOW, turn)
        else:
            gone.append(run)
    turn.expires(max(most - left - came, 0))
    if not gone:
        return
    slot.settle_runs(queue, gone, turn, Left.REPLACED)
    slot.counters.add("replaced", sum([len(run.ids) for run in gone]))
    if queue.settings.message_advisories:
        for run in gone:
            kind = advisories.DISCARDED
            advisories.tell(slot, kind, queue.address, queue.routing, run.ids, len(run.ids), turn)


def _may_die(queue: Queue, run: Run) -> bool:
    """Two rings that are each other's dead letter address would fill each other for ever: once is enough."""
    lines = run.lines
    again = lines.startswith(ORIGINS[0]) and b"\n%b%b\n" % (DEATH, OVERFLOW.encode()) in lines
    return not again and queue.settings.dead_letter_address != queue.address


def _stayed(queue: Queue, rest: Run) -> None:
    """What is left of a run of which a part has gone: nothing new."""
    queue.added(rest, known=True)
    if queue.kind is not None:
        queue.kind.changed()


def _last_id(run: Run) -> int:
    return run.ids[-1]


def _first_id(store: deque[Run]) -> int:
    return store[0].ids[0]
