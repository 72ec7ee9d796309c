"""The end of a turn: whatever queue was touched hands out what it can, then browsers look on.

A turn hands out what has come in and some thousand messages more, of all queues together. Queues that it has not come
to are the first of those that wait; each of them has its turn beside one that was touched only now, so that nobody
waits for all the subscribers of another session's topic.

Rule: a queue is dispatched as often as it is touched, and no more; browsers have what is left of the turn. A turn looks
at the queues that it comes to, never at all that wait.
"""

# Example. Topic t has 5,000 subscribers, each with a queue; one message came. A client also sent to queue q.
#     turn 1   the queues of t and q are touched. QUEUES of them are looked at, in the order of touching
#     turn 2   q is touched again; 4,000 queues of t wait. q, one that waits, and so on: q waits for one other queue
#     turn 6   all have had their turn; `copies` says so, and whoever publishes to t goes on
# The bound is on queues as well as on messages and effects: 50,000 queues that hand out nothing take long, too.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from broker.core.effects import Turn

from .dispatch import costly_selectors
from .dispatch.dispatch import browse, dispatch
from .publishing import prepared, recurring
from .queue.queue import Queue
from .routing import estates, forwarding, kept_messages, retroactive
from .state.slot import EFFECTS, LEAST_RETURNED, MESSAGES, QUEUES, RETURNED, SHARE, Slot


def hand_out(slot: Slot, turn: Turn, behind: bool = False) -> None:
    """What can go out of this slot in this turn, of QUEUES queues at most. behind: its browsers have looked on."""
    counters, told, changed = slot.counters, turn.effects, slot.changed
    # All three bounds count this turn of this slot; `turn.handed` is what other slots of the process have used of it,
    # and SHARE is what is left for the last one, so that none starves.
    before, left = counters.delivered, QUEUES
    most = before + max(MESSAGES - turn.handed, SHARE) + slot.fresh
    enough = max(EFFECTS, len(told) + SHARE) + slot.fresh
    # What comes back is not handed out: a bound of its own, or each of 20 clients that give back 100,000 would add a
    # piece to every turn.
    back = max(RETURNED, turn.returned + LEAST_RETURNED)
    waited = None if behind or not slot.unfinished else slot.serves_again()
    rest: dict[Queue, None] = {}
    spent = False
    # More than once: to hand out may end a consumer (a costly selector), which gives back messages to its queue.
    while slot.touched or slot.overran or (waited and not spent):
        if slot.overran:
            costly_selectors.end(slot, turn)
        # Exchanged, not copied: what is touched while these are served comes in the next round.
        touched, slot.touched = slot.touched, {}
        if changed.on:
            changed.mark_all(touched)
        # Only to learn what else was touched: it goes to the next turn with the rest.
        if spent:
            rest.update(touched)
            continue
        now = iter(touched)
        for queue in now if waited is None else _by_turns(now, waited):
            left -= 1
            if waited is not None:
                changed.mark(queue)  # it may have waited since an earlier turn
            if queue.returning is not None and turn.returned >= back:
                rest[queue] = None  # first of the next turn, before those that have had a piece
            elif not queue.deleted:
                if queue.hidden or queue.recurring is not None:
                    _arrived(slot, queue, turn)
                else:
                    dispatch(slot, queue, turn)
                    if queue.returning is not None:
                        slot.unfinished[queue] = None
                # Most queues hold nothing when they have been dispatched, and held nothing before.
                here = queue.count or queue.delivering or queue.gate.entries or queue.delayed.runs or queue.tries.counts
                if here or queue.pages.index.size or queue.handed or queue.weight or queue.leaving:
                    queue.weigh(slot.budget.memory)
            if left <= 0 or counters.delivered >= most or len(told) >= enough:
                spent = True
                # What the iterator has not come to: this is the only walk over what waits, and it is over what was
                # touched in this turn.
                rest.update(dict.fromkeys(now))
                break
    turn.handed += counters.delivered - before
    if rest or waited:
        slot.puts_off(slot.unfinished if behind else waited, rest)
        slot.copies.went(counters.delivered - before)
    elif slot.copies.due:
        slot.copies.all_out()
    if slot.browsing and not behind:
        browse(slot, turn)
        hand_out(slot, turn, True)  # to end a browser may touch its queue


def _by_turns(touched: Iterator[Queue], waited: OrderedDict[Queue, None]) -> Iterator[Queue]:
    """One that was touched now, the one that has waited longest, and so on. It takes what it comes to, and looks at no
    other: there may be 50,000 that wait."""
    for queue in touched:
        # One that waits already keeps its place: to be touched again must not bring anybody forward.
        if queue not in waited:
            yield queue
            if waited:
                yield waited.popitem(last=False)[0]
    while waited:
        yield waited.popitem(last=False)[0]


def _arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Something has changed in a queue that nobody consumes."""
    if queue.recurring is not None:
        recurring.arrived(slot, queue, queue.recurring, turn)
    elif queue.estate:
        estates.arrived(slot, queue, turn)
    elif forwarding.is_mine(queue):
        forwarding.arrived(slot, queue, turn)
    elif kept_messages.is_mine(queue):
        retroactive.arrived(slot, queue, turn)
    else:
        prepared.arrived(slot, queue, turn)
