"""Queues, addresses and consumers as people see them: rows of lists, and one queue in detail.

Rule: reads one slot, changes nothing; a row costs the same however much is in the queue. Texts that explain are
why_queue_waits.py's. Must not know who asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.core.address import Routing
from broker.core.commands import UNLIMITED
from broker.core.spans import count_of
from broker.core.virtual_host import host_of

from ..consumers.consumer import Consumer
from ..queue.queue import Queue
from .awaiting_commit import WITHHELD
from .slot import Slot
from .slot_address import Address
from .tx_parts import Prepared

Row = dict[str, Any]
TOLD = 5
"""Addresses of a transaction that are told."""


def messages(queue: Queue) -> int:
    """All that is in it, or on its way in."""
    # waiting() and scheduled() in line: asked of each of 100,000 queues by every list that is sorted by it.
    agenda = queue.agenda
    return (
        queue.count + queue.far + queue.pages.count + queue.gate.entries + queue.delivering + queue.delayed.count
        + (agenda.count if agenda is not None else 0)
    )  # fmt: skip


def waiting(queue: Queue) -> int:
    """Could be handed out now, if a consumer were ready."""
    return queue.count + queue.far + queue.pages.count + queue.gate.entries


def scheduled(queue: Queue) -> int:
    """Not due yet, delays of redelivery included."""
    return queue.delayed.count + (queue.agenda.count if queue.agenda is not None else 0)


QUEUE_VALUES: dict[str, Callable[[Queue], Any]] = {
    "name": lambda queue: queue.name,
    "address": lambda queue: queue.address,
    "messages": messages,
    "waiting": waiting,
    "delivering": lambda queue: queue.delivering,
    "scheduled": scheduled,
    "consumers": lambda queue: len(queue.consumers),
    "bytes": lambda queue: queue.nbytes + queue.pages.nbytes,
}
"""What queues can be sorted by."""


def kind_of(queue: Queue) -> str:
    """What it is for, in a word."""
    if queue.tied:
        return "subscriber"
    if queue.subscription:
        return "subscription"
    return "queue"


def queue_row(slot: Slot, queue: Queue) -> Row:
    """One queue in a list."""
    return {
        "name": queue.name,
        "address": queue.address,
        "host": host_of(queue.address),
        "slot": slot.number,
        "routing": queue.routing.name,
        "kind": kind_of(queue),
        "durable": queue.durable,
        "declared": queue.declared,
        "auto_created": queue.auto_created,
        "paused": queue.paused or queue.settings.paused,
        "messages": messages(queue),
        "waiting": waiting(queue),
        "delivering": queue.delivering,
        "scheduled": scheduled(queue),
        "paged": queue.pages.count + queue.far,
        "bytes": queue.nbytes + queue.pages.nbytes,
        "consumers": len(queue.consumers),
    }


def queue_detail(slot: Slot, queue: Queue) -> Row:
    """The same, and what only its own page shows."""
    settings = queue.settings
    return {
        **queue_row(slot, queue),
        "selector": queue.selector,
        "maker": queue.maker,
        "browsers": len(queue.browsers or ()),
        "last_message": queue.last,
        "exclusive": settings.exclusive,
        "non_destructive": settings.non_destructive,
        "ring_size": settings.ring_size,
        "last_value": bool(settings.last_value or settings.last_value_key),
        "max_consumers": settings.max_consumers,
        "max_delivery_attempts": settings.max_delivery_attempts,
        "dead_letter_address": settings.dead_letter_address,
        "expiry_address": settings.expiry_address,
    }


def consumer_row(slot: Slot, consumer: Consumer) -> Row:
    """One consumer. window: messages it may still be given; null: without a bound."""
    queue = slot.queues.get(consumer.queue)
    selector = consumer.filter[0] if consumer.filter is not None else None
    credit = consumer.credit_messages
    return {
        "consumer": consumer.id,
        "session": consumer.session,
        "queue": queue.name if queue is not None else "",
        "address": queue.address if queue is not None else "",
        "slot": slot.number,
        "ack": consumer.ack.name.lower(),
        "selector": selector.text if selector is not None else None,
        "priority": consumer.priority,
        "unacknowledged": held(consumer),
        "window": None if consumer.ledger is None or credit > UNLIMITED // 2 else max(credit, 0),
        "ready": consumer.ready(),
        "waits_for": hindrance(consumer),
    }


def held(consumer: Consumer) -> int:
    """Deliveries that it has not settled."""
    flight = sum([len(run.records) for run in consumer.flight]) if consumer.flight else 0
    return len(consumer.ledger or ()) + len(consumer.bodies or ()) + sum(map(len, consumer.held.values())) + flight


def hindrance(consumer: Consumer) -> str:
    """Why it may get nothing now, in words; empty: it may."""
    # WITHHELD is taken off whatever room there was: what is left is far below anything a client could owe.
    if consumer.room < -(WITHHELD >> 1):
        return "its SUBSCRIBE is not durable yet"
    if consumer.room <= 0:
        return "its client does not read as fast as messages come (its connection is full)"
    if consumer.ledger is not None and consumer.credit_messages <= 0:
        return f"its window is full: {held(consumer)} messages are not acknowledged"
    if consumer.ledger is not None and consumer.credit_bytes <= 0:
        return f"its window of bytes is full: {held(consumer)} messages are not acknowledged"
    return ""


def transaction_row(slot: Slot, prepared: Prepared) -> Row:
    """This slot's part of a COMMIT over several slots. since: epoch ms; settles: messages that leave queues by it."""
    states = {None: "waits for the decision of its coordinator", True: "is carried out", False: "is given back"}
    return {
        "tx": prepared.tx,
        "slot": slot.number,
        "coordinator": prepared.coordinator,
        "since": prepared.since,
        "state": "its dead letters are on their way" if prepared.rest else states[prepared.commit],
        "sends": sum([parked.last - parked.first + 1 for parked in prepared.publishes]),
        "settles": sum([len(claim.messages) or count_of(claim.spans) for claim in prepared.claims]),
        "addresses": sorted({parked.address for parked in prepared.publishes})[:TOLD],
    }


def address_row(slot: Slot, address: Address) -> Row:
    """One address in a list; what its queues hold is summed up by the list that asks (they may be many)."""
    routings = [kind.name for kind, some in ((Routing.ANYCAST, address.anycast), (Routing.MULTICAST, address.multicast))
                if some]  # fmt: skip
    return {
        "name": address.name,
        "slot": slot.number,
        "routing": routings,
        "queues": len(address.queues),
        "declared": address.declared,
        "limited": address.quota is not None,
    }
