"""Putting out of memory what a queue will not need soon, when all of the process has too little.

From the end of what is ready to its front: whole runs which are in the journal become positions, at the front of the
page index. Runs that are nowhere yet are written first, and are out of sight until that is durable. What is at the head
stays, so that consumers need not wait.

A run stays, and with it everything before it, if reading it back would bring another one than it is: of some of its
messages only (PART), or with less known of it than memory knows (who came back after a delivery).

Rule: order first: whatever cannot go to its place in the order stays. Queues with a will of their own (kinds, choices,
schedules, browsers) are left alone, as is one of which a page is under way. Must not know how much is too much.
"""

# Example. Memory is short; queue a has runs 1 … 100 ready, all durable, and no consumer.
#     put_away   100, 99, … are popped until half of the limit is left: say 41 … 100. They stand before all else in
#                the index
#     then       `paging` is on: what is published now goes to the end of the index. 1 … 40, 41 … 100, the new ones:
#                order is kept, since a suffix went (I7)
#     50         if it would come back as another one (REDELIVERED, and the log has no count of it) it stays, and so
#                does everything before it: were 49 put away, 50 would go out first
#     transient  runs that are in no record are written first (spilled). Until that is durable they are out of sight,
#                and no page is read: a page of what stands behind them would overtake them

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.core.effects import Turn
from broker.core.memory import MESSAGE, RUN, UNACKNOWLEDGED
from broker.core.message import DURABLE, PART, REDELIVERED, TRANSIENT, Run
from broker.core.records import RunRecord

from ..messages.runs import copy
from ..queue.queue import Queue

if TYPE_CHECKING:
    from .awaiting_commit import Held
    from .slot import Slot

SPILL_BYTES = 1024 * 1024
"""Written at a time."""


def put_away(slot: Slot, queue: Queue, most: int, turn: Turn, spill: bool, again: bool) -> int:
    """Leaves the queue half of the slot's limit, counted as memory counts. Returns how many runs it has put away.

    most    runs at a time.    spill   what is in no record may be written (the disk has room).
    again   also what was with a consumer before, when nothing is any more: what comes back later may be younger, and
            would overtake it. Not where a consumer that attaches again may say what it holds: that is looked for in
            memory (reattach.py)."""
    excess = _held(queue) - slot.limit
    # One that is not calm is left alone: what its kind, its buckets or its readers know of the index would be wrong.
    if excess <= 0 or not _calm(queue):
        return 0
    excess += slot.limit // 2
    gone: deque[Run] = deque()
    written = 0
    # From the lowest priority on: what is put away stands behind what is left, and comes out in order of the index.
    for level in queue.levels or (queue.ready,):
        while level and excess > 0 and len(gone) < most and written < SPILL_BYTES:
            run = level[-1]
            stored = _stored(queue, run)
            # Nothing more from this queue: what stands before it has to stay before it.
            if not stored and not (spill and _spills(run)):
                excess = 0
                break
            if queue.consumers and queue.count == len(run.records):
                break  # the last one: somebody will have it next
            if run.flags & REDELIVERED and (queue.delivering or not again):
                excess = 0
                break
            level.pop()
            queue.left(run)
            excess -= run.nbytes + RUN + MESSAGE * len(run.records)
            written += 0 if stored else run.nbytes
            gone.appendleft(run)
        # Only a level that is wholly gone lets the next one go.
        if level:
            break  # what has a higher priority is before it
    if gone:
        _leave(slot, queue, gone, turn)
    return len(gone)


def may_fetch(slot: Slot, queue: Queue) -> bool:
    """Memory is short: may a page of the queue be read back now. Only if what is ready takes up half of its limit at
    most, and its consumers do not hold a quarter of all there is: they have to acknowledge some."""
    if queue.count and _held(queue) * 2 > slot.limit:
        return False
    return not queue.delivering or queue.out + UNACKNOWLEDGED * queue.delivering <= slot.budget.memory.limit // 4


def _held(queue: Queue) -> int:
    """Bytes of what is ready, as memory counts."""
    runs = len(queue.ready) if queue.levels is None and queue.choice is None else queue.count
    return queue.nbytes + RUN * runs + MESSAGE * queue.count


def _calm(queue: Queue) -> bool:
    """Is nothing under way that a change of its index would upset."""
    if queue.kind is not None or queue.choice is not None or queue.agenda is not None or queue.pages.table is not None:
        return False
    if queue.hidden or queue.deleted or queue.browsers or queue.pages.recalls or queue.settings.purge_on_no_consumers:
        return False
    return (
        queue.pages.fetching is None
        and queue.returning is None
        and not queue.returned
        and queue.gate.entries == queue.gate.pages
    )


def _stored(queue: Queue, run: Run) -> bool:
    """Does the journal give back just this run."""
    if not run.position or run.flags & PART:
        return False
    # A record of this life: it tells nothing of deliveries, so what came back must not be read from it.
    if run.flags & TRANSIENT:
        return not (run.flags & REDELIVERED or run.attempts)
    if not run.flags & DURABLE or not queue.durable:
        return False
    return not (run.flags & REDELIVERED or run.attempts) or run.ids[0] in queue.tries.counts


def _spills(run: Run) -> bool:
    """May it be written now, as a record that lasts as long as the process."""
    return not (
        (run.position and run.flags & (TRANSIENT | PART)) or run.flags & REDELIVERED or run.attempts or run.blob
    )


def _leave(slot: Slot, queue: Queue, gone: deque[Run], turn: Turn) -> None:
    queue.pages.begin()
    slot.touched[queue] = None
    # Nothing to write: at once.
    if all(_stored(queue, run) for run in gone):
        _index(queue, list(gone))
        return
    runs = [run if _stored(queue, run) else _spilled(slot, queue, run, turn) for run in gone]
    queue.pages.on_its_way()
    slot.defer_front(queue, runs, turn)


def _spilled(slot: Slot, queue: Queue, run: Run, turn: Turn) -> Run:
    paged = copy(run)
    # A position that it has is that of a record which is not this queue's; it gets its own when it is written.
    paged.placed(0)
    paged.spilled()
    slot.reserve(turn)
    turn.appends.append(RunRecord(slot.number, queue.address, [queue.id], paged))
    queue.spills()
    return paged


def back(slot: Slot, held: Held) -> None:
    """What was written on its way out of memory is durable."""
    queue = held.entries[0][0]
    if queue.deleted:
        return
    queue.pages.arrived()
    slot.touched[queue] = None
    if queue.kind is None:
        _index(queue, [run for _, run, _ in held.entries])
    else:
        for _, run, _ in held.entries:  # its settings have changed meanwhile: a kind counts for itself
            queue.page(run)


def _index(queue: Queue, runs: list[Run]) -> None:
    """They are before everything that the index has."""
    earliest = min([run.expires for run in runs if run.expires], default=0)
    count, nbytes = sum([len(run.ids) for run in runs]), sum([run.nbytes for run in runs])
    queue.pages.prepend([run.position for run in runs], count, nbytes, earliest)
