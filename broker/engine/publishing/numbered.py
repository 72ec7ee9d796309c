"""Commands that an edge has numbered, so that one that is sent again after a fail-over happens once.

Rule: what has been dealt with is answered as it was then, and its number stands in the log in front of what it made, or
in one record with it. Must not know edges: a producer is a token, its numbers ascend.
"""

from __future__ import annotations

from broker.core.commands import Publish, Transact
from broker.core.effects import Done, Refused, Turn
from broker.core.errors import RefusedError
from broker.core.records import MetaRecord, RunRecord

from ..state.log_group import grouped
from ..state.slot import Slot
from . import repeats
from .publish import publish


def accept(slot: Slot, command: Publish, turn: Turn) -> None:
    # By the clock of the leader that takes it, not of the edge: two edges' clocks must not disagree on one queue.
    if command.ttl or command.delay or (turn.ahead and command.session):
        command.arrive(turn.now, turn.ahead if command.session else 0)
    if command.dedup is None:
        publish(slot, command, turn)
    elif slot.producers.seen(command.dedup):
        again(slot, command, turn)
    else:
        dedup, producers, before = command.dedup, slot.producers, len(turn.appends)
        try:
            publish(slot, command, turn)
        except RefusedError as refused:
            # Remembered before the refusal is told: the edge may ask again after a fail-over, and gets the same
            # answer.
            producers.refuse(dedup, refused.code, refused.detail)
            raise
        # In front of the run: whoever reads the log finds number 5 refused before number 6 is taken. Written behind
        # it, a crash between them would make 5 look like taken.
        refusals = producers.unlogged(dedup) if producers.refusing else None
        producers.accepted(dedup, turn.now)
        if refusals:
            turn.appends.insert(before, MetaRecord(slot.number, "producers", {"producers": [], "refused": refusals}))
        if len(turn.appends) - before > 1 and sum([type(r) is RunRecord for r in turn.appends[before:]]) > 1:
            # Several anycast queues share it. A part alone in the log would make a replay look like a duplicate.
            turn.appends[before:] = grouped(slot.number, turn.appends[before:])


def again(slot: Slot, command: Publish | Transact, turn: Turn) -> None:
    """Answers a duplicate like the original: Refused, or Done when that is durable. Of what an earlier leader took,
    subscribers without a durable queue may have got nothing."""
    assert command.dedup is not None
    refusal = slot.producers.refusal(command.dedup)
    if refusal is not None:
        turn.effects.append(Refused(command.session, command.seq, *refusal))
        return
    # This leader has not delivered it to anybody who was not durable; its predecessor may have. Twice, marked,
    # beats never.
    if slot.producers.inherited(command.dedup):
        repeats.repeat(slot, command, turn)
    if command.seq:
        done = Done(command.session, command.seq)
        if type(command) is Transact:
            slot.behind_all(done, turn)  # no earlier than the first try
        else:
            slot.after(done, turn)


def remember(slot: Slot, dedup: tuple[int, int], turn: Turn) -> None:
    """Counts the number as taken; for a transaction, in its log group."""
    data = {"producers": [list(dedup)], "refused": slot.producers.unlogged(dedup)}
    slot.producers.accepted(dedup, turn.now)
    turn.appends.append(MetaRecord(slot.number, "producers", data))


def refuse(slot: Slot, command: Publish | Transact, refused: RefusedError, turn: Turn) -> None:
    """The owner refuses a command for reasons of its own: a replay of it is refused as well. One that was dealt
    with before is answered as it was then."""
    if command.dedup is not None:
        if slot.producers.seen(command.dedup):
            again(slot, command, turn)
            return
        slot.producers.refuse(command.dedup, refused.code, refused.detail)
    turn.effects.append(Refused(command.session, command.seq, refused.code, refused.detail))
