"""What a slot does because time has passed: delayed redelivery, expiry, auto-delete.

Rule: looks at the queues that want it only (Slot.wake). Must not know what time it is but by its turn.
"""

from __future__ import annotations

from typing import Final

from broker.core.effects import Turn

from .dispatch import slow_consumers
from .dispatch.dispatch import sweep
from .queue.queue import Queue
from .routing import addresses, redelivery
from .state import limits, schedule
from .state.slot import SWEEP_MS, Slot

TICKED: Final = 200
"""Queues looked at in one turn, by all slots together: to delete one takes some 20 µs, and the client that has gone may
have had 10,000 of them."""


def tick(slot: Slot, turn: Turn, most: int = TICKED) -> None:
    """Delayed redelivery, expiry, auto-delete, of so many queues; the rest have theirs in the next ticks. Touched
    queues are dispatched by the flush that follows."""
    now = turn.now
    timed = slot.ticks()
    if slot.loose:
        limits.relieve(slot, turn)
    most += turn.work
    while timed:
        if turn.work >= most:
            slot.tick_soon()
            return
        queue = timed.pop()
        if queue.deleted:
            continue
        turn.works()
        if queue.delayed.runs and (ready := queue.delayed.ready(now)):
            # At once to the head: behind younger ones they would lose their place for having failed.
            redelivery.to_head(queue, ready)
            slot.touched[queue] = None
        if queue.delayed.runs:
            slot.wake(queue, queue.delayed.first())
        if queue.kind is not None:
            slot.touched[queue] = None
        # It may end consumers, and with the last one the queue.
        if queue.pace is not None:
            slow_consumers.tick(slot, queue, queue.pace, turn)
            if queue.deleted:
                continue
        if queue.agenda is not None:
            schedule.tick(slot, queue, queue.agenda, turn)
        if queue.expiry:
            if queue.expiry <= now and queue.swept + SWEEP_MS <= now:
                sweep(slot, queue, turn)
                slot.changed.mark(queue)
            else:
                slot.watch_expiry(queue)
        if queue.pages.stale:
            slot.touched[queue] = None  # dispatch() looks whether its time has come
        if queue.idle_since:
            _idle(slot, queue, turn)
        else:
            slot.watch_idle(queue, now)


def _idle(slot: Slot, queue: Queue, turn: Turn) -> None:
    due = queue.idle_since + queue.settings.auto_delete_delay_ms
    if queue.consumers or queue.declared or not queue.idle() or not queue.settings.auto_delete:
        queue.in_use()
    elif due <= turn.now:
        addresses.delete(slot, queue, turn)
    else:
        slot.wake(queue, due)
