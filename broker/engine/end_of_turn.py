"""The end of a turn: whatever queue was touched hands out what it can, then browsers look on.

A turn hands out what has come in and some thousand messages more, of all queues together. Queues that it has not come
to are the first of those that wait; each of them has its turn beside one that was touched only now, so that nobody
waits for all the subscribers of somebody else's topic.

Rule: a queue is dispatched as often as it is touched, and no more; browsers have what is left of the turn.
"""

from __future__ import annotations

from itertools import chain, islice

from broker.core.effects import Turn

from . import costly_selectors, forwarding, kept_messages, prepared, recurring, retroactive
from .dispatch import browse, dispatch
from .queue import Queue
from .slot import EFFECTS, MESSAGES, QUEUES, SHARE, Slot


def hand_out(slot: Slot, turn: Turn, behind: bool = False) -> None:
    """What can go out of this slot in this turn, of QUEUES queues at most. behind: its browsers have looked on."""
    counters, told = slot.counters, turn.effects
    before, left = counters.delivered, QUEUES
    most = before + max(MESSAGES - turn.handed, SHARE) + slot.fresh
    enough = max(EFFECTS, len(told) + SHARE) + slot.fresh
    waited, rest = {} if behind else slot.unfinished, dict[Queue, None]()
    if waited:
        slot.serves(_by_turns(slot.touched, waited))
    while slot.touched or slot.overran:
        if slot.overran:
            costly_selectors.end(slot, turn)
        touched, slot.touched = slot.touched, {}
        for queue in touched:
            if left <= 0 or counters.delivered >= most or len(told) >= enough:
                rest[queue] = None
                continue
            left -= 1
            if queue.deleted:
                continue
            if queue.hidden or queue.recurring is not None:
                _arrived(slot, queue, turn)
            else:
                dispatch(slot, queue, turn)
            # Most queues hold nothing when they have been dispatched, and held nothing before.
            here = queue.count or queue.delivering or queue.gated or queue.delayed or queue.counts
            if here or queue.index.size or queue.handed or queue.weight:
                slot.weigh(queue)
    turn.handed += counters.delivered - before
    if rest:
        slot.puts_off(_first_first(waited, rest, slot.unfinished))
        slot.copies.went(counters.delivered - before)
    elif slot.copies.due:
        slot.copies.all_out()
    if slot.browsing and not behind:
        browse(slot, turn)
        hand_out(slot, turn, True)  # to end a browser may touch its queue


def _by_turns(touched: dict[Queue, None], waited: dict[Queue, None]) -> dict[Queue, None]:
    """One that was touched now, one that has waited, and so on."""
    if not touched:
        return waited
    now = [queue for queue in touched if queue not in waited]
    pairs = [queue for pair in zip(now, waited, strict=False) for queue in pair]
    return dict.fromkeys(chain(pairs, islice(now, len(waited), None), islice(waited, len(now), None)))


def _first_first(waited: dict[Queue, None], rest: dict[Queue, None], begun: dict[Queue, None]) -> dict[Queue, None]:
    """What the next turn begins with: who has waited longest, then whoever else had nothing, then who had a piece."""
    order = {queue: None for queue in waited if queue in rest}
    order.update(rest)
    order.update(begun)
    return order


def _arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Something has changed in a queue that nobody consumes."""
    if queue.recurring is not None:
        recurring.arrived(slot, queue, queue.recurring, turn)
    elif forwarding.is_mine(queue):
        forwarding.arrived(slot, queue, turn)
    elif kept_messages.is_mine(queue):
        retroactive.arrived(slot, queue, turn)
    else:
        prepared.arrived(slot, queue, turn)
