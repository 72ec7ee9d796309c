"""The last messages of an address, for topic queues that will be made later.

They rest in a hidden queue of the address, one more among those that get everything, which is cut to the newest
`retroactive_messages` and `retroactive_bytes` (and to half of `queue_memory_bytes`), and to those that came within
`retroactive_ms`: what is too much goes some hundred a turn, and nobody gets it meanwhile. So durable ones survive
whatever a durable queue survives.
A queue that is made gets copies of what was kept before it was; after a restart, as soon as that has been read back:
until then the log says what a durable queue is owed.

Rule: asked only where the settings say so. Must not know consumers.
"""

from __future__ import annotations

from collections import deque

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.records import Left

from ..messages.runs import head_of
from ..queue.queue import Queue
from ..state.log_group import grouped
from ..state.slot import Slot, let_go
from . import addresses
from .kept_messages import HIDDEN, complete, give, kept_of, oldest, ring_for, room_of


def with_ring(slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn) -> list[list[Queue]]:
    """The groups of queues that get a run (see publish.py), and what keeps it for others."""
    if command.queue is not None or command.routing is Routing.ANYCAST:
        return groups
    ring = kept_of(slot, command.address)
    if ring is None:
        ring = addresses.create(slot, command.address, HIDDEN, Routing.MULTICAST, turn, hidden=True)
    last = groups[-1] if groups else []
    # A group of its own: within theirs the ring would take turns with the queues.
    if last and last[-1].routing is Routing.ANYCAST:
        return [*groups, [ring]]
    return [*groups[:-1], [*last, ring]]


def restored(slot: Slot) -> None:
    """Recovery is complete: queues get what an earlier life has promised them."""
    for queue in slot.queues.values():
        # Its messages are paged, like all after a restart; arrived() reads them back and redeems the promise.
        ring = ring_for(slot, queue) if queue.owed else None
        if ring is not None:
            slot.latecomers.append((ring, queue, queue.owed))


def arrived(slot: Slot, ring: Queue, turn: Turn) -> None:
    """Something has changed in it: cuts it, reads back what is paged, and gives to those who wait for that."""
    _cut(slot, ring, turn)
    slot.fetch_hidden(ring, turn)
    if not complete(ring):
        return
    if slot.latecomers:
        for owner, queue, bound in slot.take_latecomers():
            if owner is not ring:
                slot.latecomers.append((owner, queue, bound))
            elif not queue.deleted:
                # In one group with "owed no more": a crash in between must neither give twice nor never.
                _redeem(slot, ring, queue, bound, turn)
    if ring.empty() and not slot.match(ring.address).retroactive_messages:
        addresses.delete(slot, ring, turn)


def _cut(slot: Slot, ring: Queue, turn: Turn) -> None:
    """Forgets the oldest: as many as a turn may, the rest with the next one."""
    settings = slot.match(ring.address)
    excess = ring.count + ring.pages.count - settings.retroactive_messages
    most, since = room_of(slot, settings), oldest(settings, turn.now)
    gone: list[Run] = []
    may, came = let_go(ring, turn)
    while ring.count:
        level = min([level for level in ring.levels or (ring.ready,) if level], key=_first)
        large = ring.nbytes - most
        if excess <= 0 and large <= 0 and level[0].time >= since:
            break
        if len(gone) >= may:
            slot.unfinished[ring] = None
            break
        run = level.popleft()
        ring.left(run)
        cut = len(run.records) if run.time < since else head_of(run, excess, large)
        if cut < len(run.records):
            ring.enter_front(run.cut(slice(cut, None)))
            run = run.cut(slice(cut))
        excess -= len(run.records)
        gone.append(run)
    if gone:
        turn.expires(max(len(gone) - came, 0))
        slot.settle_runs(ring, gone, turn, Left.REPLACED)


def _first(level: deque[Run]) -> int:
    return level[0].ids[0]


def _redeem(slot: Slot, ring: Queue, queue: Queue, bound: int, turn: Turn) -> None:
    """Given, and owed no more, or neither."""
    first = len(turn.appends)
    give(slot, ring, queue, bound, turn)
    queue.owes(0)
    if queue.durable:
        turn.appends.append(addresses.is_there(slot, queue))
        turn.appends[first:] = grouped(slot.number, turn.appends[first:])
