"""What becomes of an acknowledgement that names strange ghosts (unloaded.py): messages that were not in the queue when
their consumer attached to this leader, and not by what it has asked of this leader itself.

Most are settled, by the first try of this very command with an earlier leader: then it succeeds. But its edge may have
been given up: then another consumer has the message, or has given it back since.

Rule: nothing is answered with success that has no effect: what is in the queue is taken for real, what another consumer
holds is refused. Must not know what is done with what is taken.
"""

# Example. Consumer 7 of edge E was handed messages 4, 5 and 6 by leader A. It acknowledges all three; A dies before
# it answers. B leads now, and E attaches 7 again with "holds 4, 5, 6", then says ACK 4, ACK 5, ACK 6 once more.
#     4   A's settlement of it was in the log: B has no such message, 7 has a strange ghost of it. The ACK succeeds
#         and does nothing: the client is told what is true
#     5   E had been given up for a while, 5 went back and is with consumer 8 now. The ACK is refused: 8 may process
#         it, and "acknowledged" told to two would break I6
#     6   went back, and nobody has taken it yet: claim() takes it out of the queue, and the ACK settles it for real
# Had it acknowledged none of them when E attached it again, 4 would be firm: somebody else has settled it, and a
# transaction that names it now is refused.

from __future__ import annotations

from collections.abc import Sequence

from broker.core.address import Outcome
from broker.core.errors import Code, RefusedError
from broker.core.spans import spans_of

from ..consumers.consumer import Consumer, Ledger
from ..messages.unloaded import is_firm, is_ghost, is_strange
from ..queue.queue import Queue
from ..state.slot import Slot
from .reattach import withdraw


def claim(queue: Queue, consumer: Consumer, ids: Sequence[int]) -> Ledger:
    """Makes their ghosts real whose messages are in the queue. Returns the rest. Call it before a transaction sets
    `ids` aside: the credit that comes back with that may let out the very messages, to this consumer."""
    named = consumer.named(ids)
    # A few ghosts stand for all that a client held: no question for each message.
    runs = set(named.values())
    strange = set(filter(is_strange, runs))
    if not strange:
        return {}
    ghosts = named if len(strange) == len(runs) else {i: run for i, run in named.items() if run in strange}
    # First look into the queue, then at other consumers: an id is in one place only, so whoever is found first is
    # right.
    found = withdraw(queue, spans_of(sorted(ghosts)))
    if not found:
        return ghosts
    consumer.embody(found)
    return {i: run for i, run in ghosts.items() if i not in found}


def check(slot: Slot, queue: Queue, consumer: Consumer, ids: Sequence[int], atomic: bool) -> None:
    """Call it before `ids` are settled. What of their ghosts is in the queue is the consumer's own again, as if it had
    been there when it attached. Raises RefusedError if another consumer has one of the rest.

    atomic   for a transaction: one that is answered already is not carried out again, so nobody may have settled what
             it names. What is older than this leader and not durable may have died with the last one, and concerns
             nobody."""
    ghosts = claim(queue, consumer, ids)
    slot.changed.mark(queue)  # also where the command is refused
    if not ghosts:
        return
    rest = set(ghosts)
    theirs = {i for other in queue.consumers if other is not consumer for i in _had(other, rest)}
    theirs |= rest & _under_way(slot, queue, rest)
    # A COMMIT is answered by its number (producer_state.py) when its first try was carried out, so one that comes
    # this far is new: what it names and nobody has was settled by somebody else.
    if atomic:
        theirs |= {i for i in rest if i >= slot.first_id or is_firm(ghosts[i])}
    if theirs:
        raise RefusedError(
            Code.NO_SUCH_DELIVERY,
            f"message {min(theirs)} was given to another consumer while this edge was away; it is delivered again if "
            "that one does not acknowledge it",
        )


def _had(other: Consumer, ids: set[int]) -> set[int]:
    """Which of them it was handed, and may still settle."""
    # Ghosts of another consumer prove nothing: it may be the one that was given up before.
    groups = [other.ledger or {}, other.bodies or {}, *other.held.values()]
    had = {i for group in groups for i in group.keys() & ids if not is_ghost(group[i])}
    return had.union(*(ids.intersection(run.ids) for run in other.flight or ()))


def _under_way(slot: Slot, queue: Queue, ids: set[int]) -> set[int]:
    """On their way back into the queue, or with a transaction that may still be rolled back. What is being read back
    to be a dead letter is settled: by this very command, or by another consumer."""
    asked = [each for recalls in queue.pages.recalls.values() for each in recalls]
    back = {i for ids, of in asked if of.outcome is not Outcome.REJECT for i in ids}
    claimed = {i for p in slot.prepared.values() for c in p.claims if c.queue == queue.id for i in c.messages}
    coming = {i for returning in queue.returning or () for i, run in returning.found(ids) if not is_ghost(run)}
    return back | claimed | coming
