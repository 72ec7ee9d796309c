"""Slow consumers: those that take fewer messages than the settings ask for, while messages wait.

Looked at once per period. A consumer counts only if it was there, with something to take, at the period's beginning
and still has at its end. Taken is what it settled (ACK, NACK), in ack mode auto what was handed to it. A threshold of
0 finds those who take nothing at all.

Rule: exists only for queues whose settings ask for it. Must not know why a consumer is slow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.addressing import AddressSettings
from broker.core.effects import ConsumerClosed, Turn
from broker.core.reasons import Reason

from ..consumers.consumer import Consumer
from ..consumers.consumer_pace import ConsumerPace
from . import settle

if TYPE_CHECKING:
    from ..queue.queue import Queue
    from ..state.slot import Slot

SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400}


def watch(slot: Slot, queue: Queue, now: int) -> None:
    """Begins or ends watching, as the settings of the queue say."""
    if queue.settings.slow_consumer_threshold < 0 or not queue.consumers:
        queue.forget_pace()
    elif queue.pace is None:
        _begin(slot, queue, queue.watch_pace(), now)


def tick(slot: Slot, queue: Queue, pace: ConsumerPace, turn: Turn) -> None:
    """Looks at everybody when the period is over."""
    if turn.now < pace.ends:
        slot.wake(queue, pace.ends)
        return
    settings = queue.settings
    least = least_of(settings)
    for consumer in list(queue.consumers):
        taken = pace.taken.get(consumer.id)
        # Three proofs: it was there from the beginning, it took too few, and it still had something to take.
        if taken is not None and taken < least and _waits(queue, consumer):
            _slow(slot, queue, consumer, taken, turn)
    # Its last consumer was ended, and it was tied to it.
    if queue.deleted:
        return
    queue.forget_pace()
    watch(slot, queue, turn.now)


def least_of(settings: AddressSettings) -> float:
    """Messages a consumer has to take in a period."""
    rate = settings.slow_consumer_threshold / SECONDS[settings.slow_consumer_unit]
    return rate * settings.slow_consumer_check_period_s or 1


def _begin(slot: Slot, queue: Queue, pace: ConsumerPace, now: int) -> None:
    # What is in a plain queue is for whoever comes, and handed out behind us; elsewhere it may be for others.
    anybody = queue.choice is None and queue.kind is None and _filled(queue)
    able = [consumer for consumer in queue.consumers if anybody or _waits(queue, consumer)]
    pace.begin(now + settings_ms(queue.settings), able)
    slot.wake(queue, pace.ends)


def settings_ms(settings: AddressSettings) -> int:
    """Length of a period in milliseconds."""
    return settings.slow_consumer_check_period_s * 1000


def _waits(queue: Queue, consumer: Consumer) -> bool:
    """Has it anything to take: in its hands, or in the queue. Who could be given something and is not wants nothing of
    what is there."""
    return bool(consumer.ledger or consumer.flight or consumer.bodies) or (not consumer.ready() and _filled(queue))


def _filled(queue: Queue) -> bool:
    """May there be something to hand out."""
    return bool(queue.count or queue.far or len(queue.pages.index))


def _slow(slot: Slot, queue: Queue, consumer: Consumer, taken: int, turn: Turn) -> None:
    settings = queue.settings
    slot.counters.add("slow_consumers")
    asked = f"{settings.slow_consumer_threshold} per {settings.slow_consumer_unit.lower()}"
    what = f"took {taken} messages in {settings.slow_consumer_check_period_s} s (slow_consumer_threshold {asked})"
    if settings.slow_consumer_policy != "KILL":
        turn.notices.append(f"slow consumer {consumer.id} of queue {queue.name}: it {what}")
        return
    turn.notices.append(f"slow consumer {consumer.id} of queue {queue.name} ended: it {what}")
    settle.end_consumer(slot, consumer, turn)
    detail = f"consumer with ID {consumer.id} of {queue.address} disconnected by server: it {what}"
    turn.effects.append(ConsumerClosed(consumer.id, Reason.SLOW_CONSUMER, detail))
