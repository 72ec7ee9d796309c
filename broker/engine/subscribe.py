"""SUBSCRIBE, UNSUBSCRIBE and the end of a session: a consumer's way in and out, and the room that its client makes.

Rule: all checks come before anything is made or ended, so that what is refused leaves nothing behind. An answer is told
when what it answers is durable, and no message before the answer.
"""

from __future__ import annotations

from broker.core.commands import Disconnect, Grant, Subscribe, SubscribeAll, Unsubscribe
from broker.core.effects import Done, Refused, Resumed, Turn
from broker.core.errors import Code, RefusedError

from .consumers.browser import Browser
from .consumers.consumer import Consumer, Ledger
from .dispatch import attach, settle
from .publishing import recurring
from .queue import selective_consumers
from .queue.queue import Queue
from .queue.wildcard_queues import may_sleep
from .recovery import reattach
from .routing import addresses, declare, redelivery, returns
from .state.awaiting_commit import WITHHELD, Held
from .state.slot import Slot, progress


def subscribe(slot: Slot, command: Subscribe, turn: Turn) -> None:
    _subscribe(slot, command, turn)
    if command.resume is not None and command.resume.behind:
        turn.effects.append(Resumed(command.consumer, command.resume.behind))


def _subscribe(slot: Slot, command: Subscribe, turn: Turn) -> None:
    # Before anything is made: a bad selector leaves no queue behind.
    selective_consumers.check(command, slot.xpath, turn)
    before = progress(turn)
    # One that is awake here is attached again like any other.
    if command.consumer not in slot.consumers and may_sleep(command, slot.match.delimiter):
        attach.fall_asleep(slot, command)
        slot.answer(command.session, command.seq, turn, before)
        return
    queue, held = _attached_queue(slot, command, turn)
    # One that comes again has its place: an earlier leader counted it.
    if command.resume is None and not command.browse:
        attach.check_consumers(slot, queue, turn)
    consumer = Consumer(command, queue.id)
    consumer.wants(selective_consumers.wish_of(command, queue))
    if command.browse:
        turn.works()
        attach.register(slot, consumer)
        consumer.browses()
        if queue.returned:
            redelivery.bring_back(queue)
        queue.browse(Browser(consumer, queue.address, *recurring.shown(queue), selective_consumers.far_of(queue)))
    else:
        attach.enrol(slot, queue, consumer, turn)
    if command.resume is not None:
        reattach.resume(slot, queue, consumer, command.resume, held, turn)
    slot.touched[queue] = None
    # One that comes again may find its queue made by its first try, which may not count yet.
    late = progress(turn) != before or (command.resume is not None and len(slot.pending) > 0)
    if command.seq and late:
        # No message before the answer: the consumer begins when its queue is durable, whatever is granted before.
        # One that comes back may still owe room: that must not be forgotten meanwhile either.
        # In this order: pending is released first in, first out, so the consumer may begin in the same step in
        # which its receipt is told, and the effect of the receipt stands before its first message.
        slot.pending.append(Held(turn.number, consumer=consumer))
        consumer.withhold(WITHHELD)
        slot.barrier(Done(command.session, command.seq), turn)
    elif command.seq:
        turn.effects.append(Done(command.session, command.seq))


def subscribe_all(slot: Slot, command: SubscribeAll, turn: Turn) -> None:
    attach.fall_asleep_everywhere(slot, command, turn)
    slot.answer(command.session, command.seq, turn, progress(turn))


def _attached_queue(slot: Slot, command: Subscribe, turn: Turn) -> tuple[Queue, Ledger | None]:
    """The queue of a SUBSCRIBE. One that comes again ends its earlier attachment: what that held comes along; None:
    there is none."""
    earlier = slot.consumers.get(command.consumer) if command.resume is not None else None
    if earlier is None:
        return addresses.subscribed_queue(slot, command, turn), None
    source = slot.queues[earlier.queue]
    queue = source if source.tied else _still_subscribed(slot, command, source, turn)
    # The same consumer number twice would be handed every message twice.
    held = settle.detach(slot, earlier)
    # Its destination means another queue now (that one was deleted and made again): what it held belongs to the
    # old one.
    if queue is not source:
        returns.leave(slot, source, held, turn, failed=False)
        return queue, None
    return queue, held


def _still_subscribed(slot: Slot, command: Subscribe, source: Queue, turn: Turn) -> Queue:
    """What its destination means by now. Where that may not be had any more, by settings of today, it stays where it
    is: had its stream not been lost nobody would have asked. Refused, it would be over for its client, and hold for
    ever what it held here."""
    try:
        return addresses.subscribed_queue(slot, command, turn)
    except RefusedError:
        if source.address != command.address:
            raise
        return source


def unsubscribe(slot: Slot, command: Unsubscribe, turn: Turn) -> None:
    consumer = slot.consumers.get(command.consumer)
    asleep = attach.forget(slot, command.consumer, command.session)
    doomed: Queue | None = None
    if command.delete_queue is not None:
        # All checks first: a refused UNSUBSCRIBE ends nobody.
        doomed = slot.subscriptions.get(command.delete_queue)
        if doomed is not None and doomed.address != command.address:
            raise RefusedError(Code.SUBSCRIPTION_CONFLICT, f"'{command.delete_queue}' belongs to another address")
        if doomed is not None and any(other is not consumer for other in doomed.consumers):
            raise RefusedError(Code.SUBSCRIPTION_IN_USE, f"'{command.delete_queue}' has other consumers")
    if command.consumer and not asleep and (consumer is None or consumer.session != command.session):
        _ended_already(slot, command, "it has ended already", turn)
        return
    if consumer is not None:
        settle.end_consumer(slot, consumer, turn, failed=False)
        if doomed is not None and doomed.deleted and command.delete_queue is not None:
            # Purged for having no consumers (purge_on_no_consumers): another one has taken its place.
            doomed = slot.subscriptions.get(command.delete_queue)
    if doomed is not None:
        addresses.delete(slot, doomed, turn)
        declare.renew(slot, doomed, turn)
    elif command.delete_queue is not None and consumer is None and not asleep:
        _ended_already(slot, command, f"there is no durable subscription '{command.delete_queue}'", turn)
        return
    if command.seq:
        # Behind the answers to what the consumer settled: an edge forgets the consumer with this one, and could not
        # tell the next leader of it when those have to be asked again.
        slot.behind_all(Done(command.session, command.seq), turn)


def _ended_already(slot: Slot, command: Unsubscribe, why: str, turn: Turn) -> None:
    """To an edge that asks again that means: done. So not before its first try counts."""
    slot.behind_all(Refused(command.session, command.seq, Code.NO_SUCH_SUBSCRIPTION, why), turn)


def disconnect(slot: Slot, command: Disconnect, turn: Turn) -> None:
    attach.forget_session(slot, command.session)
    # The end of one may be the end of others: whoever consumes its queue.
    # A session may have thousands of consumers, each with a ledger: `work` counts, and the owner calls again in
    # the next turn.
    while owned := slot.sessions.get(command.session):
        if turn.work > turn.most:
            return  # who sees attached() asks again
        settle.end_consumer(slot, slot.consumers[owned[0]], turn, not command.calm)


def grant(slot: Slot, command: Grant, turn: Turn) -> None:
    consumer = slot.consumers.get(command.consumer)
    if consumer is not None:
        consumer.grant(command.nbytes)
        queue = slot.queues.get(consumer.queue)
        # Only if there is something to hand out: a grant comes for every read of a socket.
        if queue is not None and (queue.count or queue.far or queue.browsers):
            slot.touched[queue] = None
            if queue.browsers:
                queue.browsers.wake(command.consumer)
