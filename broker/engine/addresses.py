"""Addresses and their queues: routing, creation on demand, deletion.

Rule: find_* functions decide and raise RefusedError without changing anything; the others change and record.
Must not know what is in a queue.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import ConsumerClosed, Turn
from broker.core.errors import Code, RefusedError
from broker.core.reasons import Reason
from broker.core.records import MetaRecord, SettleRecord

from .consumer import Consumer
from .matching import is_pattern
from .patterns import Patterns
from .queue import Queue
from .slot import Address, Slot


def default_routing(slot: Slot, address: str) -> Routing:
    """For destinations that do not say."""
    return Routing[slot.match(address).default_routing]


def may_create(slot: Slot, address: str, asked: bool) -> bool:
    """May a command that `asked` for it create things at this address."""
    return asked and (slot.match(address).auto_create or is_pattern(address))


def check_publish(slot: Slot, command: Publish) -> None:
    """Raises RefusedError if the publish would be refused."""
    name, routing = command.address, command.routing
    address = slot.addresses.get(name)
    creatable = may_create(slot, name, command.create)
    if command.queue is not None:
        queue = address.queues.get(command.queue) if address else None
        if queue is None and not creatable:
            raise _missing(f"{name}::{command.queue}")
        if queue is None:
            check_budget(slot)
        if queue is not None and routing is not Routing.UNSET and queue.routing is not routing:
            raise _mismatch(name, routing)
        return
    if address is None:
        if not creatable:
            raise _missing(name)
        if routing is not Routing.MULTICAST:
            check_budget(slot)
        return
    if routing is Routing.ANYCAST and not address.anycast:
        check_budget(slot)
    namesake = address.queues.get(name)
    if routing is Routing.ANYCAST and namesake is not None and namesake.routing is not routing and not address.anycast:
        raise _mismatch(name, routing)
    if creatable:
        return
    if (routing is Routing.ANYCAST and not address.anycast) or (routing is Routing.MULTICAST and not address.multicast):
        raise _mismatch(name, routing)


def check_budget(slot: Slot) -> None:
    """Raises RefusedError if there may be no more queues. A transaction in progress may pass the limit by its own."""
    budget = slot.budget
    if budget.used >= budget.limit:
        raise RefusedError(
            Code.QUEUE_LIMIT, f"{budget.limit} queues exist (engine.max_queues); delete some, or end subscriptions"
        )


def anycast_queue(slot: Slot, name: str, turn: Turn) -> Queue:
    """The queue named like the address, made if need be. Raises RefusedError if a subscription has that name."""
    address = slot.addresses.get(name)
    if address is not None:
        found = address.queues.get(name)
        if found is not None:
            if found.routing is not Routing.ANYCAST:
                raise _mismatch(name, Routing.ANYCAST)
            return found
    return create(slot, name, name, Routing.ANYCAST, turn, auto_created=True)


def named_queue(slot: Slot, command: Publish | Subscribe, name: str, turn: Turn) -> Queue:
    """Queue `name` of the address (FQQN), made if need be."""
    address = slot.addresses.get(command.address)
    found = address.queues.get(name) if address else None
    if found is not None:
        return found
    routing = command.routing or default_routing(slot, command.address)
    return create(slot, command.address, name, routing, turn, auto_created=True)


def resolve(slot: Slot, command: Subscribe) -> Routing:
    """The routing type a SUBSCRIBE means; raises RefusedError if it cannot be had."""
    name = command.address
    address = slot.addresses.get(name)
    routing = command.routing
    if routing is Routing.UNSET:
        if address is None:
            routing = default_routing(slot, name)
        else:
            routing = Routing.ANYCAST if address.anycast else Routing.MULTICAST
    creatable = may_create(slot, name, command.create)
    if address is None:
        if not creatable:
            raise _missing(name)
    elif not creatable:
        of_type = address.anycast if routing is Routing.ANYCAST else address.multicast
        if not of_type:
            raise _mismatch(name, routing)
    _check_name(slot, command, routing, address, creatable)
    return routing


def _check_name(slot: Slot, command: Subscribe, routing: Routing, address: Address | None, creatable: bool) -> None:
    queue = command.queue
    if queue is None or (command.durable and routing is Routing.ANYCAST):
        return
    found = address.queues.get(queue) if address else None
    if command.durable:
        bound = slot.subscriptions.get(queue)
        if (bound is not None and bound is not found) or (found is not None and not found.subscription):
            raise RefusedError(Code.SUBSCRIPTION_CONFLICT, f"'{queue}' is bound to another address, or not durable")
    elif found is None:
        if not creatable:
            raise _missing(f"{command.address}::{queue}")
    elif command.routing is not Routing.UNSET and found.routing is not command.routing:
        raise _mismatch(command.address, command.routing)


def subscribed_queue(slot: Slot, command: Subscribe, turn: Turn) -> Queue:
    """The queue a SUBSCRIBE consumes, made if need be. Raises RefusedError, nothing changed then."""
    routing = resolve(slot, command)
    if routing is Routing.ANYCAST and (command.queue is None or command.durable):
        if command.address not in slot.addresses:
            check_budget(slot)
        return anycast_queue(slot, command.address, turn)
    if command.queue is not None and not command.durable:
        address = slot.addresses.get(command.address)
        if address is None or command.queue not in address.queues:
            check_budget(slot)
        return named_queue(slot, command, command.queue, turn)
    if command.queue is not None:
        known = slot.subscriptions.get(command.queue)
        if known is not None:
            return known
        check_budget(slot)
        return create(slot, command.address, command.queue, Routing.MULTICAST, turn, subscription=True)
    check_budget(slot)
    return create(slot, command.address, own_name(command), Routing.MULTICAST, turn, durable=False, tied=True)


def create(
    slot: Slot,
    address: str,
    name: str,
    routing: Routing,
    turn: Turn,
    *,
    durable: bool = True,
    auto_created: bool = False,
    subscription: bool = False,
    tied: bool = False,
    hidden: bool = False,
) -> Queue:
    """A new queue; durable ones are recorded."""
    queue = Queue(
        slot.next_queue, name, address, routing, slot.match(address),
        durable=durable, auto_created=auto_created, subscription=subscription, tied=tied, hidden=hidden,
    )  # fmt: skip
    slot.next_queue += 1
    bind(slot, queue)
    if durable:
        turn.appends.append(MetaRecord(slot.number, "queue", described(queue)))
    return queue


def bind(slot: Slot, queue: Queue) -> None:
    """Makes the queue known to its address."""
    slot.queues[queue.id] = queue
    if queue.hidden:
        return
    slot.budget.used += 1
    address = slot.addresses.get(queue.address)
    if address is None:
        address = slot.addresses[queue.address] = Address(queue.address)
    address.queues[queue.name] = queue
    (address.anycast if queue.routing is Routing.ANYCAST else address.multicast).append(queue)
    if queue.subscription:
        slot.subscriptions[queue.name] = queue
    if queue.routing is Routing.MULTICAST and is_pattern(queue.address):
        if slot.patterns is None:
            slot.patterns = Patterns()
        slot.patterns.bind(queue)


def fall_asleep(slot: Slot, command: Subscribe) -> None:
    """A wildcard consumer that needs no queue yet. Raises RefusedError."""
    resolve(slot, command)
    check_budget(slot)
    if slot.patterns is None:
        slot.patterns = Patterns()
    slot.patterns.sleep(command)


def awaken(slot: Slot, command: Publish, turn: Turn) -> list[Queue]:
    """The wildcard queues that get this message; sleeping consumers get theirs now."""
    patterns = slot.patterns
    if patterns is None:
        return []
    for asleep in patterns.sleepers(command.address):
        queue = create(slot, asleep.address, own_name(asleep), Routing.MULTICAST, turn, durable=False, tied=True)
        consumer = Consumer(asleep, queue.id)
        slot.consumers[consumer.id] = consumer
        slot.sessions.setdefault(consumer.session, []).append(consumer.id)
        queue.consumers.append(consumer)
    return patterns.queues(command.address)


def own_name(command: Subscribe) -> str:
    """Of the queue that dies with its only consumer."""
    return f"{command.address}::{command.consumer}"


def described(queue: Queue) -> dict[str, object]:
    """Data of the "queue" MetaRecord."""
    return {
        "id": queue.id, "name": queue.name, "address": queue.address, "routing": int(queue.routing),
        "auto": queue.auto_created, "subscription": queue.subscription, "hidden": queue.hidden,
    }  # fmt: skip


def unbind(slot: Slot, queue: Queue) -> None:
    """The queue is gone; the address goes with its last queue."""
    queue.deleted = True
    del slot.queues[queue.id]
    slot.touched.pop(queue, None)
    slot.timed.discard(queue)
    if queue.hidden:
        return
    slot.budget.used -= 1
    address = slot.addresses[queue.address]
    del address.queues[queue.name]
    (address.anycast if queue.routing is Routing.ANYCAST else address.multicast).remove(queue)
    if not address.queues:
        del slot.addresses[queue.address]
    if queue.subscription:
        del slot.subscriptions[queue.name]
    if slot.patterns is not None and queue.routing is Routing.MULTICAST and is_pattern(queue.address):
        slot.patterns.unbind(queue)
        slot.patterns = slot.patterns or None


def delete(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Deletes a queue with everything in it; its other consumers are told."""
    for consumer in [*queue.consumers, *(browser.consumer for browser in queue.browsers)]:
        forget_consumer(slot, consumer.id, consumer.session)
        turn.effects.append(ConsumerClosed(consumer.id, Reason.QUEUE_DELETED))
    queue.consumers.clear()
    queue.browsers.clear()
    unbind(slot, queue)
    # One span covers also what is paged out, whose ids are not in memory.
    everything = [(1, max(queue.last, queue.restored))]
    if queue.spilled:
        turn.appends.append(SettleRecord(slot.number, queue.id, everything, durable=False))
    if queue.durable:
        if everything[0][1]:
            turn.appends.append(SettleRecord(slot.number, queue.id, everything))
        turn.appends.append(MetaRecord(slot.number, "unqueue", {"id": queue.id}))


def forget_consumer(slot: Slot, consumer: int, session: int) -> None:
    """Takes a consumer out of the tables."""
    slot.consumers.pop(consumer, None)
    owned = slot.sessions.get(session)
    if owned is not None:
        owned.remove(consumer)
        if not owned:
            del slot.sessions[session]


def _missing(name: str) -> RefusedError:
    return RefusedError(Code.NO_SUCH_DESTINATION, f"'{name}' does not exist and may not be created on demand")


def _mismatch(name: str, routing: Routing) -> RefusedError:
    return RefusedError(Code.ROUTING_MISMATCH, f"'{name}' does not support {routing.name}")
