"""The end of a turn: whatever queue was touched hands out what it can, then browsers look on.

Rule: a queue is dispatched as often as it is touched, and no more; browsers have what is left of the turn.
"""

from __future__ import annotations

from broker.core.effects import Turn

from . import costly_selectors, forwarding, kept_messages, prepared, recurring, retroactive
from .dispatch import browse, dispatch
from .queue import Queue
from .slot import QUEUES, Slot


def hand_out(slot: Slot, turn: Turn, behind: bool = False) -> None:
    """What can go out of this slot in this turn, of QUEUES queues at most. behind: its browsers have looked on."""
    left, rest = QUEUES, dict[Queue, None]()
    while slot.touched or slot.overran:
        if slot.overran:
            costly_selectors.end(slot, turn)
        touched, slot.touched = slot.touched, {}
        if len(touched) > left:
            rest.update(dict.fromkeys(list(touched)[left:]))
            touched = dict.fromkeys(list(touched)[:left])
        left -= len(touched)
        for queue in touched:
            if queue.deleted:
                continue
            if queue.hidden or queue.recurring:
                _arrived(slot, queue, turn)
            else:
                dispatch(slot, queue, turn)
            # Most queues hold nothing when they have been dispatched, and held nothing before.
            here = queue.count or queue.delivering or queue.gated or queue.delayed or queue.counts
            if here or queue.index.size or queue.handed or queue.weight:
                slot.weigh(queue)
    if rest:
        rest.update(slot.unfinished)  # those that have had nothing come first
        slot.unfinished.clear()
        slot.unfinished.update(rest)
    if slot.browsing and not behind:
        browse(slot, turn)
        hand_out(slot, turn, True)  # to end a browser may touch its queue


def _arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Something has changed in a queue that nobody consumes."""
    if queue.recurring:
        recurring.arrived(slot, queue, turn)
    elif forwarding.is_mine(queue):
        forwarding.arrived(slot, queue, turn)
    elif kept_messages.is_mine(queue):
        retroactive.arrived(slot, queue, turn)
    else:
        prepared.arrived(slot, queue, turn)
