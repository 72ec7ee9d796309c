"""The last messages of an address, for topic queues that will be made later.

They rest in a hidden queue of the address, one more among those that get everything, which is cut to the newest
`retroactive_messages` (and to half of `queue_memory_bytes`). So durable ones survive whatever a durable queue survives.
A queue that is made gets copies of what was kept before it was; after a restart, as soon as that has been read back:
until then the log says what a durable queue is owed.

Rule: asked only where the settings say so. Must not know consumers.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import BLOB, DURABLE, PART, REDELIVERED, TRANSIENT, WAS_DURABLE, Run
from broker.core.records import Left, MetaRecord, RunRecord

from . import addresses, limits
from .queue import Queue
from .runs import copy, pick
from .slot import Slot, grouped

HIDDEN: Final = "$last"
"""Name of such a queue."""


def with_ring(slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn) -> list[list[Queue]]:
    """The groups of queues that get a run (see publish.py), and what keeps it for others."""
    if command.queue is not None or command.routing is Routing.ANYCAST:
        return groups
    ring = _ring_of(slot, command.address)
    if ring is None:
        ring = addresses.create(slot, command.address, HIDDEN, Routing.MULTICAST, turn, hidden=True)
    last = groups[-1] if groups else []
    if last and last[-1].routing is Routing.ANYCAST:
        return [*groups, [ring]]
    return [*groups[:-1], [*last, ring]]


def ring_for(slot: Slot, queue: Queue) -> Queue | None:
    """What has been kept for a queue that is being made."""
    return _ring_of(slot, queue.address) if queue.routing is Routing.MULTICAST else None


def promise(slot: Slot, ring: Queue, queue: Queue) -> None:
    """If not all that was kept is in memory, the queue gets it later: its record says so. Else: give()."""
    if not _complete(ring):
        queue.owed = slot.next_id - 1
        slot.latecomers.append((ring, queue, queue.owed))


def restored(slot: Slot) -> None:
    """Recovery is complete: queues get what an earlier life has promised them."""
    for queue in slot.queues.values():
        ring = ring_for(slot, queue) if queue.owed else None
        if ring is not None:
            slot.latecomers.append((ring, queue, queue.owed))


def is_mine(queue: Queue) -> bool:
    """Is the hidden queue one of these."""
    return queue.name == HIDDEN


def arrived(slot: Slot, ring: Queue, turn: Turn) -> None:
    """Something has changed in it: cuts it, reads back what is paged, and gives to those who wait for that."""
    _cut(slot, ring, turn)
    slot.fetch_hidden(ring, turn)
    if not _complete(ring):
        return
    if slot.latecomers:
        waiting, slot.latecomers = slot.latecomers, []
        for owner, queue, bound in waiting:
            if owner is not ring:
                slot.latecomers.append((owner, queue, bound))
            elif not queue.deleted:
                _redeem(slot, ring, queue, bound, turn)
    if ring.empty() and not slot.match(ring.address).retroactive_messages:
        addresses.delete(slot, ring, turn)


def _ring_of(slot: Slot, address: str) -> Queue | None:
    return slot.hidden.get((address, HIDDEN, Routing.MULTICAST))


def _complete(ring: Queue) -> bool:
    """Is all that it holds in memory: what is on its way to the disk is younger than whoever asks."""
    return not len(ring.index)


def _cut(slot: Slot, ring: Queue, turn: Turn) -> None:
    """Forgets the oldest."""
    excess = ring.count + ring.paged_count - slot.match(ring.address).retroactive_messages
    gone: list[Run] = []
    while ring.count and (excess > 0 or ring.nbytes > slot.limit // 2):
        level = min([level for level in ring.levels or (ring.ready,) if level], key=_first)
        run = level.popleft()
        ring.left(run)
        if 0 < excess < len(run.records):
            ring.enter_front(run.cut(slice(excess, None)))
            run = run.cut(slice(excess))
        excess -= len(run.records)
        gone.append(run)
    if gone:
        slot.settle_runs(ring, gone, turn, Left.REPLACED)


def _first(level: deque[Run]) -> int:
    return level[0].ids[0]


def _redeem(slot: Slot, ring: Queue, queue: Queue, bound: int, turn: Turn) -> None:
    """Given, and owed no more, or neither."""
    first = len(turn.appends)
    give(slot, ring, queue, bound, turn)
    queue.owed = 0
    if queue.durable:
        turn.appends.append(MetaRecord(slot.number, "queue", addresses.described(queue)))
        turn.appends[first:] = grouped(slot.number, turn.appends[first:])


def give(slot: Slot, ring: Queue, queue: Queue, bound: int, turn: Turn) -> None:
    """Copies of what is not younger than message `bound`, in the order it came."""
    for kept in sorted(ring.in_order(), key=_id):
        if kept.ids[0] <= bound and not 0 < kept.expires <= turn.now:
            run = copy(kept) if queue.filter is None else pick(kept, queue.filter.select(kept, queue.address))
            if run.records:
                _enter(slot, queue, run, turn)


def _id(run: Run) -> int:
    return run.ids[0]


def _enter(slot: Slot, queue: Queue, run: Run, turn: Turn) -> None:
    run.attempts = run.position = 0
    run.flags &= ~(REDELIVERED | TRANSIENT | PART)
    if run.due <= turn.now:
        run.due = 0
    slot.number_run(run, turn.now)
    queue.last = run.ids[-1]
    durable = bool(run.flags & DURABLE) and queue.durable
    if slot.booked:
        limits.entered([queue], run)
    if not (durable or run.due or run.flags & BLOB):
        if queue.gated:
            slot.hold([(queue, run, False)], turn.number)  # behind what waits for the log
        else:
            queue.enter(run)
            slot.touched[queue] = None
        return
    if durable:
        queue.announced = run.ids[-1]
    else:
        run.flags |= TRANSIENT | (WAS_DURABLE if run.flags & DURABLE else 0)
        run.flags &= ~DURABLE
        queue.spilled = True
    slot.reserve(turn)
    turn.appends.append(RunRecord(slot.number, queue.address, [queue.id], run))
    slot.hold([(queue, run, False)], turn.number)
