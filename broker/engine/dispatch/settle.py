"""ACK, NACK, return, hold, and the end of consumers.

Rule: a command is carried out whole or refused with nothing changed. Must not know how messages are handed out.
"""

# Example. ACK 5 (seq 80) of consumer 7, ack `client`, which holds 3, 4, 5 of durable queue a:
#     take       3, 4, 5 leave the ledger, in this order, or NO_SUCH_DELIVERY with nothing changed
#     settle     one SettleRecord (3, 5); counts of attempts and the room of the address go with it
#     touched    its credit is back: at the end of the turn it gets more
#     Done 80    when the record is durable. A crash before that: 3, 4, 5 come again, marked, and nobody was told they
#                would not. Behind it: they never do (I6)
# A session that names a consumer of another one is told that there is none.

from __future__ import annotations

from typing import Final

from broker.core.address import Outcome
from broker.core.commands import Confirm, Hold, Settle
from broker.core.effects import Done, Turn
from broker.core.errors import Code, RefusedError

from ..consumers.consumer import Consumer, Ledger
from ..messages.unloaded import is_ghost
from ..queue.large_returns import BACK
from ..queue.queue import Queue
from ..recovery import already_settled
from ..routing.addresses import delete, forget_consumer
from ..routing.declare import abandoned
from ..routing.estates import told_behind
from ..routing.returns import acked, becomes_in_pieces, leave, settles_in_pieces, told_when_moved
from ..state.slot import Slot, progress

_LENIENT: Final = (Outcome.RETURN, Outcome.UNREADABLE)
"""Said by the edge, of single messages, in every mode; what is not held is passed over."""


def settle(slot: Slot, command: Settle, turn: Turn) -> None:
    """Raises RefusedError if an id is not held (but for _LENIENT)."""
    before = progress(turn)
    outcome = command.outcome
    consumer = slot.consumers.get(command.consumer)
    if consumer is None and outcome in _LENIENT:
        # The edge's word crossed the end of the consumer.
        slot.answer(command.session, command.seq, turn, before)  # its end has given everything back already
        return
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    # Ack mode auto with large bodies: each is settled when its body is with the edge.
    if consumer.bodies is not None:
        taken = consumer.landed(command.ids)
    elif outcome is Outcome.RETURN:
        taken = consumer.release(command.ids)
    elif outcome is Outcome.UNREADABLE:
        taken = consumer.lose(command.ids)
    else:
        # Before consumer.settle(): what is found in the queue has to be in the ledger by then. A part that was checked
        # has had this.
        if consumer.haunted and command not in slot.approved:
            already_settled.check(slot, slot.queues[consumer.queue], consumer, command.ids, atomic=False)
        taken = consumer.settle(command.ids, command in slot.approved)
    queue = slot.queues[consumer.queue]
    if slot.estates and consumer.haunted and outcome in (Outcome.NACK, Outcome.REJECT):
        told_behind(slot, queue, command)
    count = len(taken)
    # Before what becomes of them is decided: give_back() counts them where they go.
    queue.no_longer_delivering(count)
    if queue.pace is not None:
        queue.pace.settled(consumer, count)
    slot.touched[queue] = None
    if count > BACK:
        # Not of a transaction, whose parts happen together.
        if command in slot.approved:
            if becomes_in_pieces(slot, queue, taken, command, turn):
                return
        elif settles_in_pieces(slot, queue, taken, command, consumer.haunted):
            return
    if outcome is Outcome.ACK:  # what become() would do, without a call more
        acked(slot, queue, taken, turn)
    elif told_when_moved(slot, queue, taken, command, turn, consumer.haunted):
        return
    # Behind everything under way, not only behind this turn's records: this turn has none of a ghost's, nor of what was
    # settled before under the same name.
    if command.seq and consumer.haunted and (not taken or any([is_ghost(run) for run in taken.values()])):
        # Who asks again in the same epoch finds it settled, by its first try, which may not count yet.
        done = Done(command.session, command.seq)
        if not slot.returning.tells_later(command.session, done):
            slot.barrier(done, turn)
        return
    slot.answer(command.session, command.seq, turn, before)


def check_settle(slot: Slot, command: Settle) -> None:
    """Raises RefusedError if settle() inside a transaction would."""
    consumer = slot.consumers.get(command.consumer)
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if command.ids:
        # First what the ledger says, then who else may have them: a plain mistake of the client gets the plain
        # answer.
        consumer.check(command.ids)
        if consumer.haunted:
            already_settled.check(slot, slot.queues[consumer.queue], consumer, command.ids, atomic=True)


def hold(slot: Slot, command: Hold, turn: Turn) -> None:
    """Raises RefusedError if an id is not held, or held by another transaction."""
    consumer = slot.consumers.get(command.consumer)
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if command.ids:
        if consumer.haunted:
            already_settled.claim(slot.queues[consumer.queue], consumer, command.ids)
        consumer.set_aside(command.ids, slot.max_held, slot.max_held_messages)
    # The credit of what is set aside is back.
    slot.touched[slot.queues[consumer.queue]] = None
    slot.answer(command.session, command.seq, turn, progress(turn))


def confirm(slot: Slot, command: Confirm, turn: Turn) -> None:
    """Deliveries have arrived where they count as consumed (AckMode.AUTO over a link)."""
    consumer = slot.consumers.get(command.consumer)
    # One that has ended may be confirmed: the edge's word crossed ours. What it held is back in the queue already.
    runs = consumer.confirmed(command.count) if consumer is not None else None
    if consumer is None or not runs:
        return
    queue = slot.queues[consumer.queue]
    settled = len(runs[0].records) if len(runs) == 1 else sum([len(run.records) for run in runs])
    queue.no_longer_delivering(settled)
    # A confirm does not touch the queue, so no dispatch would weigh it.
    queue.weigh(slot.budget.memory)
    if slot.changed.on:
        slot.changed.mark(queue)
    if queue.pace is not None:
        queue.pace.settled(consumer, settled)
    if queue.choice is not None and queue.choice.paused:
        slot.touched[queue] = None
    slot.counters.acked += settled
    if queue.kind is None or not queue.stays():
        slot.settle_runs(queue, runs, turn)


def detach(slot: Slot, consumer: Consumer) -> Ledger:
    """Ends an attachment, not the subscription: a queue tied to it stays. Returns what it held."""
    queue = slot.queues[consumer.queue]
    forget_consumer(slot, consumer.id, consumer.session)
    if consumer in queue.consumers:
        queue.consumers.remove(consumer)
        if queue.choice is not None:
            queue.choice.leave(queue, consumer)
            slot.touched[queue] = None  # what was kept for it is anybody's
    elif queue.browsers:
        queue.browsers.remove(consumer.id)
    # With everything that open transactions have set aside: the session's end aborts them (C55).
    messages = consumer.drain()
    queue.no_longer_delivering(len(messages))
    slot.changed.mark(queue)
    return messages


def end_consumer(slot: Slot, consumer: Consumer, turn: Turn, failed: bool = True) -> Queue:
    """The consumer is no more: what it held goes back, a queue tied to it goes with it. failed: see give_back()."""
    turn.works()
    queue = slot.queues[consumer.queue]
    messages = detach(slot, consumer)
    if queue.tied:
        delete(slot, queue, turn)
        return queue
    leave(slot, queue, messages, turn, failed)
    # Behind leave(): what comes back has to be there when the queue is purged for having no consumers.
    if not queue.consumers:
        abandoned(slot, queue, turn)
    slot.watch_idle(queue, turn.now)
    return queue


def _unknown(consumer: int) -> RefusedError:
    return RefusedError(Code.NO_SUCH_DELIVERY, f"consumer {consumer} does not exist (any more)")
