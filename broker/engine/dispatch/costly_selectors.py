"""Subscriptions end whose selector would cost too much for a message (broker.selector.values.MAX_COST).

Each such evaluation was given up: the message is not for that subscription, and its client is told by name.

Rule: noted while messages are looked at, carried out when nobody is looking at anything. Must not know selectors.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.effects import ConsumerClosed, Turn
from broker.core.reasons import Reason

from ..consumers.consumer import Consumer
from ..state.slot import Slot
from . import settle


def note(slot: Slot, consumers: Iterable[Consumer], why: str) -> None:
    """The selector of these was given up on; why: over what."""
    slot.counters.add("selector_overruns")
    for consumer in consumers:
        # Not ended at once: whoever looks is in the middle of a list of consumers, or of buckets that end() would
        # change under it.
        slot.overran[consumer.id] = why


def end(slot: Slot, turn: Turn) -> None:
    """Ends those that were noted."""
    for number, why in slot.take_overran().items():
        consumer = slot.consumers.get(number)
        if consumer is None:
            continue
        queue = settle.end_consumer(slot, consumer, turn, failed=False)
        detail = f"the selector of a subscription to '{queue.address}' would cost too much over {why}; ask for less"
        turn.notices.append(f"consumer {number} of queue {queue.name} ended: {detail}")
        turn.effects.append(ConsumerClosed(number, Reason.SELECTOR_COST, detail))
