"""What is left of a deleted queue whose dead letters are not where they go: those that are still to be sent, that have
to be read back before, that are on their way.

It is deleted for everybody else: its name is free, its room is given back, nothing enters it. For the log it is a
hidden queue of the same number that has these messages alone; it is gone with the last of them. So a leader that dies
in between loses none of them, though nobody asks the next one for them: their queue is not there any more.

Rule: bit by bit, as they would have gone from their queue. Must not know why a queue was deleted.
"""

# Example. Consumer 7 of durable subscription s (queue 3) holds 1 … 5,000, rejects all of them, and deletes s.
#     REJECT        64 runs go in this turn: 1 … 64 are on their way to the dead letter address
#     UNSUBSCRIBE   queue 3 goes. In the log, as one group: all but 1 … 5,000 is settled, and "estate" 3
#     moved         1 … 64 are where they go, each settled in the record that has its letter
#     each turn     64 more
#     the end       "unqueue" 3; REJECT and UNSUBSCRIBE are answered when that turn is in the log
# The next leader of a slot that died on the way finds queue 3 with what is left, reads it back, and sends it on.

from __future__ import annotations

from broker.core.effects import Turn

from ..queue.queue import Queue
from ..state.slot import RETURNED, Slot
from .addresses import delete
from .redelivery import FAILED, REJECTED, dead_letter, expire
from .returns import come_back

_COSTLY = 32
"""Messages that cost as much as a run."""


def arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Something has changed in an estate: the next piece goes, and with the last one the estate."""
    if queue.returning is not None and not come_back(slot, queue, turn):
        slot.unfinished[queue] = None
        return
    if queue.pages.recalls:
        slot.fetch_recalled(queue, turn)
        return
    _left_by_a_restart(slot, queue, turn)
    if queue.empty() and queue.pages.fetching is None:
        delete(slot, queue, turn)


def _left_by_a_restart(slot: Slot, queue: Queue, turn: Turn) -> None:
    """All that a restart finds in it was to be a dead letter: what has a count for having failed (note_failed)."""
    most = queue.settings.max_delivery_attempts
    while queue.count:
        if turn.returned >= RETURNED:
            slot.unfinished[queue] = None
            return
        run = queue.front().popleft()
        queue.left(run)
        turn.returns(1 + len(run.records) // _COSTLY)
        if 0 < run.expires <= turn.now:
            expire(slot, queue, run, turn)
        else:
            dead_letter(slot, queue, run, FAILED if most >= 0 and run.attempts >= max(most, 1) else REJECTED, turn)
    slot.fetch_hidden(queue, turn)
