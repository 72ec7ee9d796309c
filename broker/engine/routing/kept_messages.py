"""What an address has kept for queues to come, as a queue that is made gets it (retroactive.py keeps it).

Rule: gives copies, in the order in which the messages came; or promises them, when they are not all in memory.
"""

from __future__ import annotations

from typing import Final

from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.effects import Turn
from broker.core.message import BLOB, DURABLE, PART, TRANSIENT, Run
from broker.core.records import RunRecord

from ..messages.runs import copy, head_of, pick
from ..queue.queue import Queue
from ..state import limits
from ..state.slot import Slot

HIDDEN: Final = "$last"
"""Name of such a queue."""


def ring_for(slot: Slot, queue: Queue) -> Queue | None:
    """What has been kept for a queue that is being made."""
    return kept_of(slot, queue.address) if queue.routing is Routing.MULTICAST else None


def promise(slot: Slot, ring: Queue, queue: Queue) -> None:
    """If not all that was kept is in memory, the queue gets it later: its record says so. Else: give()."""
    # Half of it now and half later would be out of order: everything, or nothing and a promise.
    if not complete(ring):
        queue.owes(slot.next_id - 1)
        slot.latecomers.append((ring, queue, queue.owed))


def is_mine(queue: Queue) -> bool:
    """Is the hidden queue one of these."""
    return queue.name == HIDDEN


def kept_of(slot: Slot, address: str) -> Queue | None:
    return slot.hidden.get((address, HIDDEN, Routing.MULTICAST))


def complete(ring: Queue) -> bool:
    """Is all that it holds in memory: what is on its way to the disk is younger than the queue that asks."""
    return not len(ring.pages.index)


def oldest(settings: AddressSettings, now: int) -> int:
    """What came before that time is too old for those who come now."""
    return now - settings.retroactive_ms if settings.retroactive_ms >= 0 else 0


def room_of(slot: Slot, settings: AddressSettings) -> int:
    """So many bytes are kept."""
    most = slot.limit // 2
    return settings.retroactive_bytes if 0 <= settings.retroactive_bytes < most else most


def give(slot: Slot, ring: Queue, queue: Queue, bound: int, turn: Turn) -> None:
    """Copies of what is not younger than message `bound`, in the order it came."""
    # As many as the setting keeps: whoever sets retroactive_messages chooses how long this step is.
    settings = slot.match(ring.address)
    since = oldest(settings, turn.now)
    # What is too much and has not had its turn to go (retroactive.py) is the oldest.
    excess, large = ring.count - settings.retroactive_messages, ring.nbytes - room_of(slot, settings)
    for kept in sorted(ring.in_order(), key=_id):
        if excess > 0 or large > 0:
            over = head_of(kept, excess, large)
            rest = kept.cut(slice(over, None))
            excess -= over
            large -= kept.nbytes - rest.nbytes
            kept = rest
            if not kept.records:
                continue
        if kept.ids[0] <= bound and kept.time >= since and not 0 < kept.expires <= turn.now:
            run = copy(kept) if queue.filter is None else pick(kept, queue.filter.select(kept, queue.address))
            if run.records:
                _enter(slot, queue, run, turn)


def _id(run: Run) -> int:
    return run.ids[0]


def _enter(slot: Slot, queue: Queue, run: Run, turn: Turn) -> None:
    # A message of its own, with a number of its own: settled in one queue it stays in the other.
    run.anew(TRANSIENT | PART)
    if run.due <= turn.now:
        run.due_at(0)
    slot.number_run(run, turn.now)
    queue.numbered(run.ids)
    durable = bool(run.flags & DURABLE) and queue.durable
    if slot.counted:
        limits.entered([queue], run)
    if not (durable or run.due or run.flags & BLOB):
        if queue.gate.entries:
            # Else what is not durable would be ready before a durable message that was kept earlier.
            slot.await_commit([(queue, run, False)], turn.number)  # behind what waits for the log
        else:
            queue.enter(run)
            slot.touched[queue] = None
        return
    if durable:
        queue.watermark.came(run.ids[-1], dispatched=False)
    else:
        run.spilled()
        queue.spills()
    slot.reserve(turn)
    turn.appends.append(RunRecord(slot.number, queue.address, [queue.id], run))
    slot.await_commit([(queue, run, False)], turn.number)
