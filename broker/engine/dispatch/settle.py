"""ACK, NACK, return, hold, and the end of consumers.

Rule: a command is carried out whole or refused with nothing changed. Must not know how messages are handed out.
"""

from __future__ import annotations

from typing import Final

from broker.core.address import Outcome
from broker.core.commands import Hold, Settle
from broker.core.effects import Done, Turn
from broker.core.errors import Code, RefusedError

from ..consumers.consumer import Consumer, Ledger
from ..messages.unloaded import is_ghost
from ..queue.queue import Queue
from ..recovery import already_settled
from ..routing.addresses import delete, forget_consumer
from ..routing.declare import abandoned
from ..routing.redelivery import give_back, leave, nack, reject, unreadable
from ..state.slot import Slot, progress

_LENIENT: Final = (Outcome.RETURN, Outcome.UNREADABLE)
"""Said by the edge, of single messages, in every mode; what is not held is passed over."""


def settle(slot: Slot, command: Settle, turn: Turn) -> None:
    """Raises RefusedError if an id is not held (but for _LENIENT)."""
    before = progress(turn)
    outcome = command.outcome
    consumer = slot.consumers.get(command.consumer)
    if consumer is None and outcome in _LENIENT:
        slot.answer(command.session, command.seq, turn, before)  # its end has given everything back already
        return
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if consumer.bodies is not None:
        taken = consumer.landed(command.ids)
    elif outcome is Outcome.RETURN:
        taken = consumer.release(command.ids)
    elif outcome is Outcome.UNREADABLE:
        taken = consumer.lose(command.ids)
    else:
        if consumer.haunted and command.ids and command not in slot.approved:
            already_settled.check(slot, slot.queues[consumer.queue], consumer, command.ids, atomic=False)
        taken = consumer.take(command.ids, command in slot.approved) if command.ids else {}
    queue = slot.queues[consumer.queue]
    count = len(taken)
    queue.hold_no_more(count)
    if queue.pace is not None:
        queue.pace.took(consumer, count)
    counters = slot.counters
    if outcome is Outcome.ACK:
        counters.acked += count
        if queue.kind is None or not queue.stays():
            slot.settle_ids(queue, taken, turn)
    elif outcome is Outcome.NACK:
        nack(slot, queue, taken, command.delay, turn)
    elif outcome is Outcome.RETURN:
        give_back(slot, queue, taken, None, turn)
    elif outcome is Outcome.UNREADABLE:
        unreadable(slot, queue, taken, turn)
    else:
        counters.nacks(count)
        reject(slot, queue, taken, turn)
    slot.touched[queue] = None
    if command.seq and consumer.haunted and any([is_ghost(run) for run in taken.values()]):
        # Who asks again in the same epoch finds it settled, by its first try, which may not count yet.
        slot.barrier(Done(command.session, command.seq), turn)
        return
    slot.answer(command.session, command.seq, turn, before)


def check_settle(slot: Slot, command: Settle) -> None:
    """Raises RefusedError if settle() inside a transaction would."""
    consumer = slot.consumers.get(command.consumer)
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if command.ids:
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
        consumer.hold(command.ids, slot.max_held, slot.max_held_messages)
    slot.touched[slot.queues[consumer.queue]] = None
    slot.answer(command.session, command.seq, turn, progress(turn))


def confirm(slot: Slot, consumer: Consumer, count: int, turn: Turn) -> None:
    """Deliveries have arrived where they count as consumed (AckMode.AUTO over a link)."""
    runs = consumer.confirmed(count)
    if not runs:
        return
    queue = slot.queues[consumer.queue]
    settled = sum([len(run.records) for run in runs])
    queue.hold_no_more(settled)
    queue.weigh(slot.budget.memory)
    if queue.pace is not None:
        queue.pace.took(consumer, settled)
    if queue.choice is not None and queue.choice.paused:
        slot.touched[queue] = None
    slot.counters.acked += settled
    if not queue.stays():
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
    messages = consumer.drain()
    queue.hold_no_more(len(messages))
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
    if not queue.consumers:
        abandoned(slot, queue, turn)
    slot.watch_idle(queue, turn.now)
    return queue


def _unknown(consumer: int) -> RefusedError:
    return RefusedError(Code.NO_SUCH_DELIVERY, f"consumer {consumer} does not exist (any more)")
