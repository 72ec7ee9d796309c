"""Queues of users who may keep no more bytes (edge.quotas): nobody sends there until some have been consumed.

Who that is edges find out, who alone know limits and what other owners keep; they say it again and again, and each
time it holds for a while (owner/shard/full_makers.py).

Rule: refuses what would go to a queue by its name (an anycast one, or `address::queue`), before anything has changed.
Copies of a topic go on into subscriptions, or one subscriber who does not read would stop all who publish there; and
what the broker itself brings (dead letters, diverts, decided transactions) is never refused, as it would be lost. Must
not know how much is too much.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.errors import Code, RefusedError

from .slot import Slot
from .slot_address import Address


def check(slot: Slot, address: Address | None, command: Publish) -> None:
    """Raises RefusedError(QUOTA). Neither who has made the queue nor how much he has is for everybody who sends there;
    what is his own the edge adds (edge/session/told/auto_create_refusals.py)."""
    full = slot.budget.full_makers
    # Session 0 is the broker itself; a part of a transaction has been asked with all others.
    if not full or address is None or not command.session or command.atomic:
        return
    if command.queue is not None:
        named = address.queues.get(command.queue)
        queues = [named] if named is not None else []
    else:
        queues = [] if command.routing is Routing.MULTICAST else address.anycast
    for queue in queues:
        if queue.maker in full:
            slot.counters.add("refused_quota", len(command.run.records))
            raise RefusedError(
                Code.QUOTA,
                f"'{queue.name}' takes nothing: the queues of who has made it keep as much as edge.quotas lets him; "
                "consume what is in them",
            )
