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

from functools import partial

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Turn

from ..queue.large_returns import LargeReturn
from ..queue.queue import Queue
from ..state.slot import RETURNED, Slot
from .addresses import delete
from .redelivery import FAILED, REJECTED, dead_letter, expire
from .returns import closes, come_back, send_on

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
    if queue.id not in slot.estates and not _all_sent(queue):
        sending = LargeReturn({}, True, Outcome.REJECT)
        sending.is_heard_by(partial(_arrived, slot, queue))
        slot.estates[queue.id] = (sending, [])
    most, first = queue.settings.max_delivery_attempts, len(turn.moves)
    while queue.count and turn.returned < RETURNED:
        run = queue.front().popleft()
        queue.left(run)
        turn.returns(1 + len(run.records) // _COSTLY)
        if 0 < run.expires <= turn.now:
            expire(slot, queue, run, turn)
        else:
            dead_letter(slot, queue, run, FAILED if most >= 0 and run.attempts >= max(most, 1) else REJECTED, turn)
    if queue.id in slot.estates:
        send_on(slot, slot.estates[queue.id][0], first, turn)
    if queue.count:
        slot.unfinished[queue] = None
        return
    slot.fetch_hidden(queue, turn)
    _arrived(slot, queue, turn)


def _all_sent(queue: Queue) -> bool:
    return not (queue.count or len(queue.pages.index)) and queue.pages.fetching is None


def _arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """What has left it is where it goes, or has to wait: with the last piece those are told who wait for that."""
    if queue.id in slot.estates and slot.estates[queue.id][0].done and _all_sent(queue):
        _, waiting = slot.estates.pop(queue.id)
        for behind in waiting:
            closes(slot, behind, 1, turn)


def told_behind(slot: Slot, queue: Queue, command: Settle) -> None:
    """A session says again what an earlier leader has heard, of a queue that was deleted there and is made anew by
    being asked for again: what it is told then waits for the letters of the old one."""
    for id, (_, waiting) in slot.estates.items():
        estate = slot.queues.get(id)
        if estate is not None and (estate.name, estate.address) == (queue.name, queue.address):
            own = Settle(command.slot, command.session, 0, command.consumer, [], command.outcome)
            behind = LargeReturn({}, True, command.outcome, command=own)
            behind.opens(1)
            slot.returning.begins(behind)
            waiting.append(behind)
