"""Much that consumers give back, or acknowledge, at once: piece by piece, one in each turn of its queue.

Rule: until all of it is back its queue hands out nothing, or younger messages would overtake it; nobody's commands
wait. What becomes of a piece is what would have become of all of it (redelivery.py). A transaction's parts happen
together: the pieces of one are of the same turn, and nothing happens in the slot between them.
"""

# Example: queue/large_returns.py has one.

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.records import Left, MetaRecord
from broker.core.spans import Span, spans_of

from ..consumers.consumer import Ledger
from ..messages.unloaded import Stub, unread
from ..queue.large_returns import BACK, LIGHT, WHOLE, LargeReturn
from ..queue.page_store import Recall
from ..queue.queue import Queue
from ..state.slot import LEAST_RETURNED, RETURNED, Slot
from . import commit_letters
from .redelivery import FAILED, REJECTED, bring_back, failed, give_back, nack, reject, unreadable

_SPANS: Final = 1000
"""Of a record that counts: it is text."""


def leave(slot: Slot, queue: Queue, messages: Ledger, turn: Turn, failed: bool) -> None:
    """A consumer that held these has ended, or the transaction that had acknowledged them: they come back. Until then
    they are still held, for everybody else. failed: see give_back()."""
    # A few at once; a client that held 100,000 must not stop the slot by disconnecting.
    if len(messages) <= BACK or queue.stays():
        give_back(slot, queue, messages, None, turn, failed)
    else:
        _begin(slot, queue, LargeReturn(messages, failed))


def settles_in_pieces(slot: Slot, queue: Queue, messages: Ledger, command: Settle, again: bool) -> bool:
    """The same for what one ACK, NACK or REJECT is about, if it is much: its session is told when all of it has
    happened. again: see LargeReturn. False: it is not, and nothing has been done."""
    outcome, count = command.outcome, len(messages)
    if queue.stays() or outcome not in (Outcome.ACK, Outcome.NACK, Outcome.REJECT):
        return False
    # Settled for good, and nothing else: a record of the log for all of a piece.
    light = outcome is Outcome.ACK or (outcome is Outcome.NACK and queue.settings.nack_policy == "discard")
    if light and count <= LIGHT:
        return False
    if outcome is not Outcome.ACK:
        slot.counters.add("nacked", count)
    _begin(slot, queue, _asked(command, messages, light, again))
    return True


def told_when_moved(slot: Slot, queue: Queue, messages: Ledger, command: Settle, turn: Turn, again: bool) -> bool:
    """become() for what one word is about. Its session is told when the dead letters that come of it are where they
    go, and what has to be read back for that is: told before, it would be no truth where the owner dies before that.
    again: see LargeReturn. False: there are none of either, and nobody has been told."""
    first = len(turn.moves)
    # Of most nothing has to be waited for: then nothing is made to wait with.
    waits = _asked(command, {}, again=again) if unread(messages) else None
    become(slot, queue, messages, command.outcome, command.delay, turn, waits)
    if waits is None:
        if len(turn.moves) == first:
            return False
        waits = _asked(command, {}, again=again)
    send_on(slot, waits, first, turn)
    if waits.done:
        return False
    slot.returning.begins(waits)
    if command in slot.approved:
        commit_letters.keep(slot, queue, command, waits, turn.moves[first:], turn)
    return True


def becomes_in_pieces(slot: Slot, queue: Queue, messages: Ledger, command: Settle, turn: Turn) -> bool:
    """The same for a part of a transaction, if it is much: in pieces between which nothing happens in the slot, so that
    it happens together with its other parts (Engine.rest). False: it is not, and nothing has been done."""
    if len(messages) <= BACK or queue.stays() or command.outcome not in (Outcome.NACK, Outcome.REJECT):
        return False
    slot.leaves(_becoming_for(slot, queue, messages, command, turn))
    return True


def _becoming_for(slot: Slot, queue: Queue, messages: Ledger, command: Settle, turn: Turn) -> Iterator[None]:
    of, first = _asked(command, {}), len(turn.moves)
    yield from becoming(slot, queue, messages, command.outcome, command.delay, turn, of)
    if not of.done:
        slot.returning.begins(of)
        commit_letters.keep(slot, queue, command, of, turn.moves[first:], turn)


def becoming(
    slot: Slot,
    queue: Queue,
    messages: Ledger,
    outcome: Outcome,
    delay: int,
    turn: Turn,
    of: LargeReturn | None = None,
) -> Iterator[None]:
    """become() in pieces."""
    rest = LargeReturn(messages, True, outcome, outcome is Outcome.ACK)
    while rest.left:
        first = len(turn.moves)
        become(slot, queue, rest.pop()[0], outcome, delay, turn, of)
        if of is not None:
            send_on(slot, of, first, turn)
        if queue.returned:
            bring_back(queue)
        if rest.left:
            yield


def _asked(command: Settle, messages: Ledger, light: bool = False, again: bool = False) -> LargeReturn:
    return LargeReturn(messages, True, command.outcome, light, max(command.delay, -1), command, again)


def become(
    slot: Slot,
    queue: Queue,
    taken: Ledger,
    outcome: Outcome,
    delay: int,
    turn: Turn,
    of: LargeReturn | None = None,
) -> None:
    """What becomes of messages that a consumer does not hold any more: at once, or when its transaction is decided.
    of: see give_back()."""
    if outcome is Outcome.ACK:
        acked(slot, queue, taken, turn)
    elif outcome is Outcome.NACK:
        nack(slot, queue, taken, delay, turn, of)
    elif outcome is Outcome.RETURN:
        # An aborted transaction may have acknowledged all that its client held, by naming the last one.
        leave(slot, queue, taken, turn, failed=True)
    elif outcome is Outcome.UNREADABLE:
        unreadable(slot, queue, taken, turn)
    else:
        slot.counters.add("nacked", len(taken))
        reject(slot, queue, taken, turn, of)


def read_back(slot: Slot, queue: Queue, messages: Ledger, count: int, of: LargeReturn, turn: Turn) -> None:
    """Of `count` that were being read back these are there (the rest is gone): what was to become of them does."""
    first = len(turn.moves)
    slot.carries(of)
    if queue.estate or of.outcome is Outcome.REJECT:
        reject(slot, queue, messages, turn, of, _why(of))
    elif of.outcome is Outcome.UNREADABLE:
        unreadable(slot, queue, messages, turn)
    else:
        give_back(slot, queue, messages, of.delay, turn, of.failed, of)
    slot.carries(None)
    send_on(slot, of, first, turn)
    closes(slot, of, count, turn)


def send_on(slot: Slot, returning: LargeReturn, first: int, turn: Turn) -> None:
    """Moves from `first` on come of it."""
    if not returning.awaited or len(turn.moves) == first:
        return
    # An advisory is of no queue, and nobody waits for it.
    moves = [move for move in turn.moves[first:] if move.queue]
    returning.opens(len(moves))
    heard = partial(closes, slot, returning, 1)
    for move in moves:
        move.is_heard_by(heard)


def closes(slot: Slot, returning: LargeReturn, count: int, turn: Turn) -> None:
    """So much of what it waits for has happened."""
    returning.closes(count)
    if returning.done:
        slot.is_back(returning, turn)


def _why(returning: LargeReturn) -> str:
    """What its dead letters say."""
    return REJECTED if returning.outcome is Outcome.REJECT else FAILED


def _begin(slot: Slot, queue: Queue, returning: LargeReturn) -> None:
    queue.begins_return(returning)
    slot.returning.begins(returning)
    slot.touched[queue] = None


def come_back(slot: Slot, queue: Queue, turn: Turn) -> bool:
    """The next piece, one a turn. True: everything is back."""
    while queue.returning:
        returning = queue.returning[0]
        if not returning.came(turn):
            return False  # dead letters have a turn look at their queue again
        # In the order of the ledger, one piece a turn; what was given back later comes behind.
        first = len(turn.moves)
        slot.carries(returning)
        _piece(slot, queue, returning, BACK if turn.returned < RETURNED else LEAST_RETURNED, turn)
        send_on(slot, returning, first, turn)
        if queue.returned:
            bring_back(queue)
        slot.carries(None)
        if not returning.left:
            queue.returning.popleft()
            if returning.done:
                slot.is_back(returning, turn)
        if queue.returning:
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


def wind_up(slot: Slot, queue: Queue, turn: Turn) -> list[LargeReturn]:
    """The queue is about to be deleted, with what is on its way back to it. What was settled for good is, what was to
    come again goes with it. Returns what becomes dead letters and is not on its way yet; what is being read back for
    that, too, stays where it is."""
    letters = _letters(slot, queue, turn) if queue.returning is not None else []
    if queue.pages.recalls:
        _recalled_letters(slot, queue, turn)
    if queue.leaving:
        queue.arrived(queue.leaving.messages)
    return letters


def estate_of(slot: Slot, queue: Queue, letters: list[LargeReturn]) -> Queue | None:
    """What is left of one that was wound up, for the sake of its dead letters (estates.py); None: there are none."""
    if not (letters or queue.pages.recalls or queue.leaving):
        return None
    estate = Queue(queue.id, queue.name, queue.address, queue.routing, queue.settings, durable=queue.durable)
    estate.inherit(letters, queue)
    if queue.pages.fetching is not None and not _put_away(slot, queue):
        estate.pages.on_its_way()  # a page that nobody wants any more
    return estate


def letters_of(estate: Queue) -> list[Span]:
    """Its messages."""
    ids: list[int] = []
    for returning in estate.returning or ():
        ids += returning.messages
    ids += [i for asked in estate.pages.recalls.values() for named, _ in asked for i in named]
    ids += [i for move in estate.leaving or () for i in move.ids]
    return spans_of(ids)


def note_failed(slot: Slot, estate: Queue, turn: Turn) -> None:
    """Behind its record: which of its letters have failed too often. The last failure of each was never counted, and
    whoever leads next would have them as rejected."""
    if not estate.durable:
        return
    ids: list[int] = []
    for returning in estate.returning or ():
        if _why(returning) == FAILED:
            ids += returning.messages  # also those that do not last: no restart finds them
    recalls = estate.pages.recalls.values()
    ids += [i for asked in recalls for named, of in asked if _why(of) == FAILED for i in named]
    ids += [i for move in estate.leaving or () if failed(move) for i in move.ids]
    if not ids:
        return
    attempts, spans = max(estate.settings.max_delivery_attempts, 1), spans_of(ids)
    estate.tries.note(ids, attempts, 0)
    for at in range(0, len(spans), _SPANS):
        data = {"queue": estate.id, "attempts": attempts, "spans": spans[at : at + _SPANS], "due": 0}
        turn.appends.append(MetaRecord(slot.number, "count", data))


def _put_away(slot: Slot, queue: Queue) -> bool:
    """Is what keeps it from being read back a record that is on its way to the log: no page comes of that."""
    return any(held.front and held.entries[0][0] is queue for held in slot.pending)


def _letters(slot: Slot, queue: Queue, turn: Turn) -> list[LargeReturn]:
    """What becomes dead letters of that which was to come back to a queue that goes."""
    letters: list[LargeReturn] = []
    for returning in queue.returning or ():
        if returning.light:
            _piece(slot, queue, returning, WHOLE, turn)
        else:
            queue.no_longer_delivering(returning.left)
            if not _dies(queue, returning):
                returning.only(())
            elif returning.outcome is not Outcome.REJECT:
                failing = _failing(queue, returning.messages)
                if len(failing) < returning.left:
                    returning.only(failing)
        if returning.left:
            letters.append(returning)
        elif returning.done:
            slot.is_back(returning, turn)
    return letters


def _recalled_letters(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Leaves what becomes dead letters of that which is being read back."""
    counts, least = queue.tries.counts, queue.settings.max_delivery_attempts - 1
    for position, asked in list(queue.pages.recalls.items()):
        kept: list[Recall] = []
        for ids, of in asked:
            queue.arrived(len(ids))
            mine = ids if _dies(queue, of) else []
            if of.outcome is not Outcome.REJECT:
                mine = [i for i in mine if counts.get(i, 0) >= least]
            if mine:
                kept.append((mine, of))
            if len(mine) < len(ids):
                closes(slot, of, len(ids) - len(mine), turn)
        queue.pages.recalls_only(position, kept)


def _dies(queue: Queue, of: LargeReturn) -> bool:
    """May dead letters come of it, though its queue goes. What was to come again goes with its queue."""
    if not queue.settings.dead_letter_address or queue.stays():
        return False
    return of.outcome is Outcome.REJECT or (of.awaited and queue.settings.max_delivery_attempts >= 0)


def _failing(queue: Queue, messages: Mapping[int, Run]) -> Collection[int]:
    """Which of these have failed too often, now that they have once more."""
    least, counts = queue.settings.max_delivery_attempts - 1, queue.tries.counts
    # As most do that failed together: no line of code for each.
    if min(map(_attempts, messages.values()), default=0) >= least:
        return messages.keys()
    # Of a stub only the log says how often it failed.
    items = messages.items()
    return {i for i, run in items if (run.attempts if type(run) is not Stub else counts.get(i, 0)) >= least}


_attempts: Final = attrgetter("attempts")


def _piece(slot: Slot, queue: Queue, returning: LargeReturn, most: int, turn: Turn) -> None:
    piece, runs = returning.pop(most)
    turn.returns(runs)
    queue.no_longer_delivering(len(piece))
    if returning.outcome is Outcome.ACK:
        acked(slot, queue, piece, turn)
    elif queue.estate or returning.outcome is Outcome.REJECT:
        reject(slot, queue, piece, turn, returning, _why(returning))
    elif returning.light:
        slot.settle_ids(queue, piece, turn, Left.DISCARDED)
    else:
        give_back(slot, queue, piece, returning.delay, turn, returning.failed, returning)


def acked(slot: Slot, queue: Queue, messages: Ledger, turn: Turn) -> None:
    """These are consumed."""
    slot.counters.acked += len(messages)
    if queue.latency is not None:
        queue.latency.settled(messages.values(), turn.now)
    # Where messages stay, an ACK gives back credit and nothing else.
    if queue.kind is None or not queue.stays():
        slot.settle_ids(queue, messages, turn)
