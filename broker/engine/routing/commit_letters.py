"""Dead letters of a COMMIT that are on their way when it counts. Its client asks nobody for them again, nor does its
edge: so they stay claimed, in memory and in the log, until the last one is where it goes.

Rule: in the log they are a transaction that is decided ("prepared", `letters`); the next leader carries it out. What
only comes again is not among them: another consumer may have it by then. Must not know who asked for the COMMIT.
"""

# Example. A COMMIT rejects 4 … 6 of queue 3 and acknowledges 7; another owner leads the dead letter address.
#     its group    7 is settled, "prepared": 4 … 6 of queue 3 are rejected
#     arrive       4 and 5 are published there and settled here, one after the other
#     the leader dies. The next one finds 6 in queue 3, and claimed: nobody gets it, it is sent again
#     arrives      6 is settled, "unprepared". A COMMIT over several slots is answered by then

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Done, Move, Turn
from broker.core.message import DURABLE
from broker.core.records import MetaRecord
from broker.core.spans import Span, merged, spans_of

from ..queue.large_returns import LargeReturn
from ..queue.queue import Queue
from ..state.slot import Slot
from ..state.tx_parts import Claim, Prepared


def claim_of(queue: Queue, of: LargeReturn, delay: int, moves: Sequence[Move]) -> Claim:
    """What of this is to become a dead letter, and lasts. moves: those that come of it."""
    spans = merged(_spans(queue, of, moves)) if queue.durable else []
    return Claim(queue.id, spans, int(of.outcome), delay, {})


def _spans(queue: Queue, of: LargeReturn, moves: Sequence[Move]) -> Iterator[Span]:
    for move in moves:
        if move.queue == queue.id and move.run.flags & DURABLE:
            yield from spans_of(move.ids)
    # Of what is not read back yet only the log says how often it failed.
    counts, least = queue.tries.counts, queue.settings.max_delivery_attempts - 1
    for asked in queue.pages.recalls.values():
        for ids, each in asked:
            if each is of:
                dies = ids if of.outcome is Outcome.REJECT else [i for i in ids if counts.get(i, 0) >= least >= -1]
                yield from spans_of(dies) if dies else ()


def keep(slot: Slot, queue: Queue, command: Settle, of: LargeReturn, moves: Sequence[Move], turn: Turn) -> None:
    """They come of a part of a COMMIT whose group the turn is."""
    claim = claim_of(queue, of, command.delay, moves)
    if not claim.spans:
        return
    prepared = Prepared(f"$letters.{claim.spans[0][0]}", slot.number, turn.now)
    prepared.decide(True, False)
    prepared.leaves([claim])
    slot.prepared[prepared.tx] = prepared
    turn.appends.append(MetaRecord(slot.number, "prepared", prepared.data()))
    of.is_heard_by(partial(arrived, slot, prepared))


def arrived(slot: Slot, prepared: Prepared, turn: Turn) -> None:
    """Those of one claim are where they go."""
    if prepared.arrived():
        del slot.prepared[prepared.tx]
        turn.appends.append(forgotten(slot, prepared))
        carried_out(slot, prepared, turn)


def forgotten(slot: Slot, prepared: Prepared) -> MetaRecord:
    """All of it is carried out."""
    return MetaRecord(slot.number, "unprepared", {"tx": prepared.tx})


def carried_out(slot: Slot, prepared: Prepared, turn: Turn) -> None:
    """Who has told the decision is answered."""
    for command in prepared.waiting:
        if command.seq:
            slot.barrier(Done(command.session, command.seq), turn)
