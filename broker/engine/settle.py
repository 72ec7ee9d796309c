"""ACK, NACK, return, hold, and the end of consumers.

Rule: a command is carried out whole or refused with nothing changed. Must not know how messages are handed out.
"""

from __future__ import annotations

from broker.core.address import Outcome
from broker.core.commands import Hold, Settle
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError

from .addresses import delete, forget_consumer
from .consumer import Consumer, Ledger
from .queue import Queue
from .redelivery import give_back, reject
from .slot import Slot, progress


def settle(slot: Slot, command: Settle, turn: Turn) -> None:
    """Raises RefusedError if an id is not held."""
    before = progress(turn)
    outcome = command.outcome
    consumer = slot.consumers.get(command.consumer)
    if consumer is None and outcome is Outcome.RETURN:
        slot.answer(command.session, command.seq, turn, before)  # its end has given everything back already
        return
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    held = outcome is Outcome.RETURN or command in slot.approved
    taken = consumer.take(command.ids, held) if command.ids else {}
    queue = slot.queues[consumer.queue]
    count = len(taken)
    queue.delivering -= count
    counters = slot.counters
    if outcome is Outcome.ACK:
        counters.acked += count
        slot.settle_ids(queue, taken, turn)
    elif outcome is Outcome.NACK:
        counters.nacked += count
        give_back(slot, queue, taken, max(command.delay, -1), turn)
    elif outcome is Outcome.RETURN:
        give_back(slot, queue, taken, None, turn)
    else:
        counters.nacked += count
        reject(slot, queue, taken, turn)
    slot.touched[queue] = None
    slot.answer(command.session, command.seq, turn, before)


def check_settle(slot: Slot, command: Settle) -> None:
    """Raises RefusedError if settle() inside a transaction would."""
    consumer = slot.consumers.get(command.consumer)
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if command.ids:
        consumer.check(command.ids)


def hold(slot: Slot, command: Hold, turn: Turn) -> None:
    """Raises RefusedError if an id is not held, or held by another transaction."""
    consumer = slot.consumers.get(command.consumer)
    if consumer is None or consumer.session != command.session:
        raise _unknown(command.consumer)
    if command.ids:
        consumer.hold(command.ids)
    slot.touched[slot.queues[consumer.queue]] = None
    slot.answer(command.session, command.seq, turn, progress(turn))


def confirm(slot: Slot, consumer: Consumer, count: int, turn: Turn) -> None:
    """Deliveries have arrived where they count as consumed (AckMode.AUTO over a link)."""
    runs = consumer.confirmed(count)
    if not runs:
        return
    queue = slot.queues[consumer.queue]
    settled = sum([len(run.records) for run in runs])
    queue.delivering -= settled
    slot.counters.acked += settled
    slot.settle_runs(queue, runs, turn)


def detach(slot: Slot, consumer: Consumer) -> Ledger:
    """Ends an attachment, not the subscription: a queue tied to it stays. Returns what it held."""
    queue = slot.queues[consumer.queue]
    forget_consumer(slot, consumer.id, consumer.session)
    if consumer in queue.consumers:
        queue.consumers.remove(consumer)
    else:
        queue.browsers = [browser for browser in queue.browsers if browser.consumer is not consumer]
    messages = consumer.drain()
    queue.delivering -= len(messages)
    return messages


def end_consumer(slot: Slot, consumer: Consumer, turn: Turn) -> Queue:
    """The consumer is no more: what it held goes back, a queue tied to it goes with it."""
    queue = slot.queues[consumer.queue]
    messages = detach(slot, consumer)
    if queue.tied:
        delete(slot, queue, turn)
        return queue
    give_back(slot, queue, messages, None, turn)
    slot.watch_idle(queue, turn.now)
    return queue


def _unknown(consumer: int) -> RefusedError:
    return RefusedError(Code.NO_SUCH_DELIVERY, f"consumer {consumer} does not exist (any more)")
