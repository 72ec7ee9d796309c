"""What a destination means, and whether it may be had.

Rule: decides and raises RefusedError; changes nothing. Must not know what is in a queue.

An address has the routing types of its settings; where these say nothing, those of its queues, and any type while it
is declared without queues. A command that may create (and an address whose settings allow it) adds a type.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish, Subscribe
from broker.core.creation import Creation
from broker.core.errors import Code, RefusedError

from ..address.address_settings import plain_routing
from ..state.slot import Slot
from ..state.slot_address import Address
from . import dead_letter_queues


def default_routing(slot: Slot, address: str) -> Routing:
    """For destinations that do not say."""
    return plain_routing(slot.match(address))


def has_type(slot: Slot, address: str, routing: Routing) -> bool:
    """Do the settings of the address let it have the type."""
    types = slot.match(address).routing_types
    return not types or routing.name in types.split(",")


def may_create(slot: Slot, address: str, asked: Creation) -> bool:
    """May a command that `asked` for it create an address of this name, or give it another routing type."""
    return asked is not False and (slot.match(address).auto_create or slot.match.is_pattern(address))


def may_create_queue(slot: Slot, address: str, asked: Creation) -> bool:
    """May a command that `asked` for it create an anycast or named queue at this address."""
    return asked is not False and slot.match(address).auto_create_queues


def check_publish(slot: Slot, command: Publish) -> None:
    """Raises RefusedError if the publish would be refused."""
    name, routing = command.address, command.routing
    address = slot.addresses.get(name)
    if command.queue is not None:
        _check_named(slot, command, address, routing)
        return
    if routing is not Routing.UNSET:
        _check_type(slot, command, address, routing)
    elif address is None and not may_create(slot, name, command.create):
        raise missing(name, command.create)
    wanted = routing
    # An address with nothing but dead letter queues is to everybody else like none: those are not its clients' doing.
    if routing is Routing.UNSET and (address is None or dead_letter_queues.only(address)):
        wanted = default_routing(slot, name)
    if wanted is not Routing.ANYCAST or (address is not None and address.anycast):
        return
    # A subscription has the very name that the queue would have.
    if address is not None and name in address.queues:
        raise mismatch(name, routing)
    if may_create_queue(slot, name, command.create):
        check_budget(slot)
    elif address is None:
        raise missing(f"{name}::{name}", command.create)


def resolve(slot: Slot, command: Subscribe) -> Routing:
    """The routing type a SUBSCRIBE means; raises RefusedError if it cannot be had."""
    name = command.address
    address = slot.addresses.get(name)
    routing = command.routing
    if routing is Routing.UNSET:
        if address is None or dead_letter_queues.only(address):
            routing = default_routing(slot, name)
        else:
            routing = Routing.ANYCAST if address.anycast else Routing.MULTICAST
    if command.queue is not None and not command.durable:
        _check_named(slot, command, address, command.routing)
        return routing
    _check_type(slot, command, address, routing)
    if routing is Routing.ANYCAST:
        found = address.queues.get(name) if address is not None else None
        if found is not None and found.routing is not Routing.ANYCAST:
            raise mismatch(name, routing)
        if found is None and not may_create_queue(slot, name, command.create):
            raise missing(f"{name}::{name}", command.create)
    elif command.queue is not None:
        _check_subscription(slot, command.queue, address)
        if not command.create and (address is None or command.queue not in address.queues):
            raise missing(f"{name}::{command.queue}", False)
    elif not command.create and command.routing is Routing.UNSET and default_routing(slot, name) is Routing.ANYCAST:
        # Its edge knew what a plain name means by the settings, and judged by that; here is a topic all the same.
        raise RefusedError(Code.NOT_ALLOWED, f"a subscription to the topic '{name}' would have to be created")
    return routing


def _check_named(slot: Slot, command: Publish | Subscribe, address: Address | None, routing: Routing) -> None:
    """`address::queue`: one that exists is taken as it is."""
    name = command.address
    assert command.queue is not None
    found = address.queues.get(command.queue) if address is not None else None
    if found is not None:
        if routing is not Routing.UNSET and found.routing is not routing:
            raise mismatch(name, routing)
        return
    if routing is not Routing.UNSET:
        _check_type(slot, command, address, routing)
    elif address is None and not may_create(slot, name, command.create):
        raise missing(f"{name}::{command.queue}", command.create)
    if not may_create_queue(slot, name, command.create):
        raise missing(f"{name}::{command.queue}", command.create)
    check_budget(slot)


def _check_type(slot: Slot, command: Publish | Subscribe, address: Address | None, routing: Routing) -> None:
    """Has the address this type, or may it get it."""
    name = command.address
    types = slot.match(name).routing_types
    if not has_type(slot, name, routing):
        raise mismatch(name, routing)
    if may_create(slot, name, command.create):
        return
    if address is None:
        raise missing(name, command.create)
    of_type = address.anycast if routing is Routing.ANYCAST else address.multicast
    if not (of_type or types or (address.declared and not address.queues)):
        raise mismatch(name, routing)


def _check_subscription(slot: Slot, queue: str, address: Address | None) -> None:
    found = address.queues.get(queue) if address is not None else None
    bound = slot.subscriptions.get(queue)
    if (bound is not None and bound is not found) or (found is not None and not found.subscription):
        raise RefusedError(
            Code.SUBSCRIPTION_CONFLICT,
            f"'{queue}' is bound to another address, or not durable; UNSUBSCRIBE it there with its name first",
        )


def check_budget(slot: Slot, estates: bool = False) -> None:
    """Raises RefusedError if there may be no more queues. A transaction in progress may pass the limit by its own.

    estates   those count, too: for who can leave one after the other, by subscribing anew, where dead letters cannot
              go. Not for what letters may need to go: they would be lost, for the sake of what waits for that."""
    budget = slot.budget
    # Of the process, not of the slot: it is the process that runs out of memory.
    gone = budget.estates if estates else 0
    if budget.used + gone >= budget.limit:
        more = f", and {gone} deleted ones have dead letters to send" if gone else ""
        raise RefusedError(
            Code.QUEUE_LIMIT,
            f"{budget.used} queues exist{more}, and engine.max_queues is {budget.limit}; "
            "delete some, or end subscriptions",
        )


def missing(name: str, asked: Creation) -> RefusedError:
    """Something does not exist and may not be made: by nobody, or (not `asked`) by this command."""
    if not asked:
        return RefusedError(Code.NOT_ALLOWED, f"'{name}' does not exist and would have to be created")
    return RefusedError(Code.NO_SUCH_DESTINATION, f"'{name}' does not exist and may not be created on demand")


def mismatch(name: str, routing: Routing) -> RefusedError:
    """The address has not that type."""
    return RefusedError(Code.ROUTING_MISMATCH, f"Not allowed to specify {routing.name} semantics on '{name}'")
