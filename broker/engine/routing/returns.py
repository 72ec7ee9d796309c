"""Much that consumers give back, or acknowledge, at once: piece by piece, one in each turn of its queue.

Rule: until all of it is back its queue hands out nothing, or younger messages would overtake it; nobody's commands
wait. What becomes of a piece is what would have become of all of it (redelivery.py). A transaction's parts are not for
here: they happen together, and are bounded (engine.max_held_messages).
"""

# Example: queue/large_returns.py has one.

from __future__ import annotations

from collections import deque
from functools import partial

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Done, Turn
from broker.core.message import BLOB
from broker.core.records import Left

from ..consumers.consumer import Ledger
from ..messages.runs import copy, regroup
from ..messages.unloaded import Stub
from ..queue.large_returns import BACK, LIGHT, WHOLE, LargeReturn
from ..queue.queue import Queue
from ..state.slot import LEAST_RETURNED, RETURNED, Slot
from .redelivery import bring_back, dead_letter, give_back, reject


def leave(slot: Slot, queue: Queue, messages: Ledger, turn: Turn, failed: bool) -> None:
    """A consumer that held these has ended, or the transaction that had acknowledged them: they come back. Until then
    they are still held, for everybody else. failed: see give_back()."""
    # A few at once; a client that held 100,000 must not stop the slot by disconnecting.
    if len(messages) <= BACK or queue.stays():
        give_back(slot, queue, messages, None, turn, failed)
    else:
        _begin(slot, queue, LargeReturn(messages, failed))


def settles_in_pieces(slot: Slot, queue: Queue, messages: Ledger, command: Settle) -> bool:
    """The same for what one ACK, NACK or REJECT is about, if it is much: its session is told when all of it has
    happened. False: it is not, and nothing has been done."""
    outcome, count = command.outcome, len(messages)
    if queue.stays() or outcome not in (Outcome.ACK, Outcome.NACK, Outcome.REJECT):
        return False
    # Settled for good, and nothing else: a record of the log for all of a piece.
    light = outcome is Outcome.ACK or (outcome is Outcome.NACK and queue.settings.nack_policy == "discard")
    if light and count <= LIGHT:
        return False
    if outcome is not Outcome.ACK:
        slot.counters.add("nacked", count)
    answer = Done(command.session, command.seq) if command.seq else None
    delay = max(command.delay, -1)
    _begin(slot, queue, LargeReturn(messages, True, outcome, light, delay, command.session, answer))
    return True


def told_when_moved(slot: Slot, command: Settle, first: int, turn: Turn) -> bool:
    """Of what is settled became the moves of this turn from `first` on: its session is told when they have happened.
    Told before, it would be no truth where the owner dies before another one has them. False: there are none."""
    if not any([move.queue for move in turn.moves[first:]]):
        return False
    answer = Done(command.session, command.seq) if command.seq else None
    returning = LargeReturn({}, True, command.outcome, session=command.session, answer=answer)
    slot.returning.begins(returning)
    _send_on(slot, returning, first, turn)
    return True


def _send_on(slot: Slot, returning: LargeReturn, first: int, turn: Turn) -> None:
    """Moves from `first` on come of it."""
    # An advisory is of no queue, and nobody waits for it.
    moves = [move for move in turn.moves[first:] if move.queue]
    returning.sends_on(len(moves))
    heard = partial(_heard, slot, returning)
    for move in moves:
        move.is_heard_by(heard)


def _heard(slot: Slot, returning: LargeReturn, turn: Turn) -> None:
    if returning.is_there():
        slot.is_back(returning, turn)


def _begin(slot: Slot, queue: Queue, returning: LargeReturn) -> None:
    queue.begins_return(returning)
    slot.returning.begins(returning)
    slot.touched[queue] = None


def come_back(slot: Slot, queue: Queue, turn: Turn, whole: bool = False) -> bool:
    """The next piece, one a turn, or all of them. True: everything is back."""
    while queue.returning:
        returning = queue.returning[0]
        if not returning.came(turn) and not whole:
            return False  # dead letters have a turn look at their queue again
        # In the order of the ledger, one piece a turn; what was given back later comes behind.
        first = len(turn.moves)
        most = BACK if turn.returned < RETURNED else LEAST_RETURNED
        _piece(slot, queue, returning, WHOLE if whole else most, turn)
        if returning.session and len(turn.moves) > first:
            _send_on(slot, returning, first, turn)
        if queue.returned:
            bring_back(queue)
        if not returning.left:
            queue.returning.popleft()
            if not returning.moving:
                slot.is_back(returning, turn)
        if queue.returning and not whole:
            queue.returning[0].came(turn)
            # It goes on with the next turn (`unfinished`): touched, this very turn would come again and again.
            slot.touched.pop(queue, None)
            slot.changed.mark(queue)
            return False
    queue.all_back()
    slot.watch_idle(queue, turn.now)
    return True


def holds_up(queue: Queue) -> bool:
    """Would what it handed out now overtake something that comes back."""
    return any([not returning.light for returning in queue.returning or ()])


def queue_goes(slot: Slot, queue: Queue, turn: Turn) -> bool:
    """The queue is about to be deleted, with what is on its way back to it. What was settled for good is; what becomes
    dead letters is left to be sent there, piece by piece (True: there is some of that)."""
    letters: deque[LargeReturn] = deque()
    for returning in queue.returning or ():
        if returning.light:
            _piece(slot, queue, returning, WHOLE, turn)
        elif returning.session and queue.settings.dead_letter_address and not queue.stays():
            # At once: bodies, which go with the queue; and all of a queue that lasts, or the log would say that it is
            # gone before they are where they go, and the next leader would have neither.
            soon = {i: run for i, run in returning.looking() if queue.durable or run.flags & BLOB}
            first = len(turn.moves)
            _last_letters(slot, queue, returning, soon, turn)
            if len(turn.moves) > first:
                _send_on(slot, returning, first, turn)
            returning.without(soon)
            queue.no_longer_delivering(len(soon))
            if returning.left:
                letters.append(returning)
                continue
            if returning.moving:
                continue
        slot.is_back(returning, turn)
    queue.returns_only(letters)
    return bool(letters)


def _last_letters(slot: Slot, queue: Queue, returning: LargeReturn, messages: Ledger, turn: Turn) -> None:
    """What of these becomes dead letters: the rest has gone with its queue."""
    most = queue.settings.max_delivery_attempts
    for part in regroup({i: run for i, run in messages.items() if type(run) is not Stub}):
        run = copy(part)
        if returning.outcome is Outcome.REJECT:
            dead_letter(slot, queue, run, "rejected", turn)
            continue
        run.came_back(True)
        if 0 <= most <= run.attempts:
            dead_letter(slot, queue, run, "delivery-limit", turn)


def _piece(slot: Slot, queue: Queue, returning: LargeReturn, most: int, turn: Turn) -> None:
    piece, runs = returning.pop(most)
    turn.returns(runs)
    queue.no_longer_delivering(len(piece))
    if queue.deleted:
        _last_letters(slot, queue, returning, piece, turn)
    elif returning.outcome is Outcome.ACK:
        acked(slot, queue, piece, turn)
    elif returning.outcome is Outcome.REJECT:
        reject(slot, queue, piece, turn)
    elif returning.light:
        slot.settle_ids(queue, piece, turn, Left.DISCARDED)
    else:
        give_back(slot, queue, piece, returning.delay, turn, returning.failed)


def acked(slot: Slot, queue: Queue, messages: Ledger, turn: Turn) -> None:
    """These are consumed."""
    slot.counters.acked += len(messages)
    if queue.latency is not None:
        queue.latency.settled(messages.values(), turn.now)
    # Where messages stay, an ACK gives back credit and nothing else.
    if queue.kind is None or not queue.stays():
        slot.settle_ids(queue, messages, turn)
