"""Addresses and their queues: creation on demand, deletion.

Rule: changes and records; what may be had is decided in routing.py. Must not know what is in a queue.
"""

# Example. A SEND goes to queue orders, session 8 subscribes to topic news, then ada does as ada.news, durably.
#     SEND        address orders, and queue 1 of the same name. Recorded: "queue" 1, in front of the message
#     SUBSCRIBE   address news, and queue 2, `news::1` by the consumer's number. It dies with its only consumer, so
#                 nothing of it is recorded (`tied`)
#     SUBSCRIBE   queue 3, `ada.news`, also in `slot.subscriptions`. Recorded: "queue" 3
#     a message   of news goes to 2 and 3: one run, and a record that names queue 3
#     session 8   ends: queue 2 goes, news stays for the sake of 3
#     UNSUBSCRIBE by ada: 3 goes, and with it news. Recorded: all of 3 is settled, 1 to the last id (why: ended, or
#                 purged if something waited), then "unqueue" 3. In this order: a restart between the two finds an empty
#                 queue, never messages of a queue that is not there

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import ConsumerClosed, Turn
from broker.core.errors import Code, RefusedError
from broker.core.reasons import Reason
from broker.core.records import Left, MetaRecord, SettleRecord
from broker.core.spans import without

from ..address.address_rules import OWNED, Rules
from ..queue.queue import Queue
from ..state import limits
from ..state.latencies import SUBSCRIBERS
from ..state.log_group import grouped
from ..state.slot import Slot
from ..state.slot_address import Address
from . import dead_letter_queues, kept_messages
from .returns import estate_of, letters_of, note_failed, wind_up
from .routing import check_budget, default_routing, has_type, mismatch, resolve


def anycast_queue(slot: Slot, name: str, turn: Turn, maker: str = "") -> Queue:
    """The queue named like the address, made if need be, for `maker` then. Raises RefusedError if a subscription has
    that name."""
    address = slot.addresses.get(name)
    if address is not None:
        found = address.queues.get(name)
        if found is not None:
            if found.routing is not Routing.ANYCAST:
                raise mismatch(name, Routing.ANYCAST)
            return found
    return create(slot, name, name, Routing.ANYCAST, turn, auto_created=True, maker=maker)


def named_queue(slot: Slot, command: Publish | Subscribe, name: str, turn: Turn) -> Queue:
    """Queue `name` of the address (FQQN), made if need be."""
    address = slot.addresses.get(command.address)
    found = address.queues.get(name) if address else None
    if found is not None:
        return found
    routing, own = command.routing, None
    if routing is not Routing.ANYCAST and has_type(slot, command.address, Routing.MULTICAST):
        own = dead_letter_queues.filter_of(slot, command.address, name)
    routing = Routing.MULTICAST if own else routing or default_routing(slot, command.address)
    return create(
        slot, command.address, name, routing, turn, auto_created=True, selector=own, maker=command.maker
    )  # fmt: skip


def subscribed_queue(slot: Slot, command: Subscribe, turn: Turn) -> Queue:
    """The queue a SUBSCRIBE consumes, made if need be. Raises RefusedError, nothing changed then."""
    routing = resolve(slot, command)
    if routing is Routing.ANYCAST and (command.queue is None or command.durable):
        address = slot.addresses.get(command.address)
        if address is None or command.address not in address.queues:
            check_budget(slot)
        return anycast_queue(slot, command.address, turn, command.maker)
    if command.queue is not None and not command.durable:
        address = slot.addresses.get(command.address)
        if address is None or command.queue not in address.queues:
            check_budget(slot)
        return named_queue(slot, command, command.queue, turn)
    if command.queue is not None:
        known = slot.subscriptions.get(command.queue)
        if known is not None:
            # One that comes again (`resume`) was accepted by an earlier leader: its client got a receipt, and cannot
            # be told no now.
            if command.resume is None and known.selector != (command.selector or None):
                _other_selector(slot, known, command, turn)
            return known
        check_budget(slot, command.resume is None)
        return create(
            slot, command.address, command.queue, Routing.MULTICAST, turn,
            subscription=True, selector=command.selector, maker=command.maker,
        )  # fmt: skip
    check_budget(slot, command.resume is None)
    return own_queue(slot, command, turn)


def _other_selector(slot: Slot, queue: Queue, command: Subscribe, turn: Turn) -> None:
    """A durable subscription comes back with another selector. What waits in it stays, whatever is decided. Raises
    RefusedError(SUBSCRIPTION_CONFLICT)."""
    if queue.declared and command.selector is None:
        return  # its settings say what it takes
    if not queue.declared and queue.settings.durable_conflict == "replace" and not queue.consumers:
        change_selector(slot, queue, command.selector, turn)
        return
    has = f"the selector {queue.selector!r}" if queue.selector else "no selector"
    help = "its settings say so" if queue.declared else "UNSUBSCRIBE with its name first, or subscribe as before"
    if queue.consumers and queue.settings.durable_conflict == "replace":
        help = "it can be changed when it has no consumers"
    raise RefusedError(Code.SUBSCRIPTION_CONFLICT, f"'{queue.name}' has {has}; {help}")


def own_queue(slot: Slot, command: Subscribe, turn: Turn) -> Queue:
    """The queue that dies with its only consumer. No client can name it: destinations hold one `::` at most."""
    return create(
        slot, command.address, f"{command.address}::{command.consumer}", Routing.MULTICAST, turn,
        durable=False, tied=True, selector=command.selector, maker=command.maker,
    )  # fmt: skip


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
    selector: str | None = None,
    replay: bool = True,
    maker: str = "",
) -> Queue:
    """A new queue; durable ones are recorded. replay: it gets what the address kept for later queues. maker: the user
    it counts for. Raises RefusedError(BAD_SELECTOR), nothing changed then."""
    turn.works()
    queue = Queue(
        # The number is taken for good only below, when the selector has proved to be one: a refusal leaves nothing
        # behind.
        slot.next_queue, name, address, routing, slot.declarations.settings(address, name),
        durable=durable, auto_created=auto_created, subscription=subscription, tied=tied, hidden=hidden,
        maker=maker,
    )  # fmt: skip
    queue.select(selector)
    if not hidden:
        queue.equip()
    slot.number_queue()
    bind(slot, queue)
    rules = slot.addresses[address].rules if replay and not hidden else None
    ring = kept_messages.ring_for(slot, queue) if rules is not None and rules.retroactive else None
    if ring is not None:
        kept_messages.promise(slot, ring, queue)
    # From here on records: a queue and what it is made with are one group. A crash between them would leave a queue
    # that never gets what the address kept, and says nothing of being owed it.
    first = len(turn.appends)
    if durable:
        turn.appends.append(is_there(slot, queue))
    if ring is not None and not queue.owed:
        kept_messages.give(slot, ring, queue, slot.next_id - 1, turn)
        turn.appends[first:] = grouped(slot.number, turn.appends[first:])  # a queue without what it was made with
    return queue


def bind(slot: Slot, queue: Queue) -> None:
    """Makes the queue known to its address."""
    slot.queues[queue.id] = queue
    slot.changed.came_or_went(queue)
    if queue.hidden:
        # Not in `slot.addresses`: no client can route to it, and it does not keep an address alive.
        slot.hidden[_hidden(queue)] = queue
        if queue.estate:
            slot.budget.estate_made()
        return
    slot.budget.queue_made()
    address = slot.addresses.get(queue.address)
    if address is None:
        address = slot.addresses[queue.address] = Address(queue.address)
        address.obey(slot.rulebook(queue.address))
    address.came(queue)
    slot.filter_came(queue)
    if queue.routing is Routing.MULTICAST:
        if address.filters is not None:
            address.filters.add(queue)
        elif queue.filter is not None:
            address.filter()
    limits.open_usage(slot, address, queue)
    if address.rules is None or address.rules is OWNED:
        if queue.selective():
            address.obey(Rules(slot.match(queue.address)))
        elif queue.counted():
            address.obey(OWNED)
    if queue.subscription:
        slot.subscriptions[queue.name] = queue
    if queue.routing is Routing.MULTICAST and slot.match.is_pattern(queue.address):
        slot.wildcard().bind(queue)


def _hidden(queue: Queue) -> tuple[str, str, Routing]:
    """What a hidden queue is known by. Of estates there may be several of one name."""
    return queue.address, f"$gone.{queue.id}" if queue.estate else queue.name, queue.routing


def select(slot: Slot, queue: Queue, selector: str | None, known: bool = False) -> None:
    """The queue takes other messages from now on. Raises RefusedError(BAD_SELECTOR), nothing changed then. known: see
    Queue.select()."""
    patterns = slot.patterns if slot.match.is_pattern(queue.address) else None
    address = slot.addresses[queue.address]
    filters = address.filters if queue.routing is Routing.MULTICAST else None
    # Taken out first and put in again behind it, whether the new filter is refused or not: the tables are keyed by
    # the filter, and with another one in between the queue's entry could not be found again.
    if patterns is not None:
        patterns.unbind(queue)
    if filters is not None:
        filters.remove(queue)
    slot.filter_goes(queue)
    try:
        queue.select(selector, known)
    finally:
        slot.filter_came(queue)
        if filters is not None:
            filters.add(queue)
        elif queue.filter is not None and queue.routing is Routing.MULTICAST:
            address.filter()
        if patterns is not None:
            patterns.bind(queue)
        address.note(queue)
    find_rules(slot, address)


def change_selector(slot: Slot, queue: Queue, selector: str | None, turn: Turn) -> None:
    """As select(), and recorded."""
    select(slot, queue, selector)
    if queue.durable:
        turn.appends.append(is_there(slot, queue))


def find_rules(slot: Slot, address: Address) -> None:
    """Settings, or filters of queues, have changed."""
    address.obey(slot.rulebook(address.name))
    if address.rules is None:
        if address.selective:
            address.obey(Rules(slot.match(address.name)))
        elif address.counted:
            address.obey(OWNED)


def _described(queue: Queue) -> dict[str, object]:
    """Data of the MetaRecord that says that it is there."""
    about: dict[str, object] = {
        "id": queue.id, "name": queue.name, "address": queue.address, "routing": int(queue.routing),
        "auto": queue.auto_created, "subscription": queue.subscription, "hidden": queue.hidden,
        "selector": queue.selector, "owed": queue.owed,
    }  # fmt: skip
    if queue.paused:
        about["paused"] = True
    if queue.maker:
        about["maker"] = queue.maker
    return about


def is_there(slot: Slot, queue: Queue) -> MetaRecord:
    """Says so, and what it is like. An estate has a kind of its own: who does not know it must not take it for a queue
    that clients may have made again."""
    return MetaRecord(slot.number, "estate" if queue.estate else "queue", _described(queue))


def unbind(slot: Slot, queue: Queue) -> None:
    """The queue is gone; the address goes with its last queue."""
    queue.delete(slot.budget.memory)
    del slot.queues[queue.id]
    slot.changed.came_or_went(queue)
    # Of `browsing` and `pending` it is not taken out: whoever comes to it there asks `deleted`, so that no list is
    # searched.
    slot.touched.pop(queue, None)
    slot.unfinished.pop(queue, None)
    slot.timed.discard(queue)
    if queue.hidden:
        del slot.hidden[_hidden(queue)]
        if queue.estate:
            slot.budget.estate_gone()
        return
    slot.budget.queue_gone()
    if queue.latency is not None and slot.budget.latencies is not None:
        slot.budget.latencies.gone(slot.number, queue.address, queue.name)
    address = slot.addresses[queue.address]
    address.went(queue)
    slot.filter_goes(queue)
    if address.filters is not None and queue.routing is Routing.MULTICAST:
        address.filters.remove(queue)
    if not address.queues and not address.declared:
        del slot.addresses[queue.address]
        if slot.budget.latencies is not None:
            slot.budget.latencies.gone(slot.number, queue.address, SUBSCRIBERS)
    elif queue.selective() or queue.counted():
        find_rules(slot, address)
    if queue.subscription:
        del slot.subscriptions[queue.name]
    if slot.patterns is not None and queue.routing is Routing.MULTICAST and slot.match.is_pattern(queue.address):
        slot.patterns.unbind(queue)
        slot.wildcard_gone()


def delete(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Deletes a queue with everything in it; its other consumers are told."""
    turn.works()
    browsers = queue.browsers.clear() if queue.browsers else []
    # Bounded by who consumes the queue; `turn.works()` counts it, and a session's end stops between two of them.
    for consumer in [*queue.consumers, *(browser.consumer for browser in browsers)]:
        forget_consumer(slot, consumer.id, consumer.session)
        slot.budget.bury(list((consumer.ledger or {}).values()))
        turn.effects.append(ConsumerClosed(consumer.id, Reason.QUEUE_DELETED))
    queue.consumers.clear()
    estate = estate_of(slot, queue, wind_up(slot, queue, turn))
    why = Left.ENDED if queue.empty() else Left.PURGED
    slot.budget.bury([run for store in queue.stores() for run in store])
    unbind(slot, queue)
    limits.deleted(slot, queue, turn)
    # One span covers also what is paged out, whose ids are not in memory.
    # Ids begin at 1, and those of this queue are not above the two; that the span covers ids of other queues does not
    # matter, since a SettleRecord speaks of one queue.
    first, last = len(turn.appends), max(queue.last, queue.restart.restored)
    everything = without((1, last), letters_of(estate) if estate is not None else ()) if last else []
    if queue.spilled and everything:
        turn.appends.append(SettleRecord(slot.number, queue.id, everything, durable=False))
    if queue.durable:
        if everything:
            turn.appends.append(SettleRecord(slot.number, queue.id, everything, True, why, turn.now))
        if estate is None:
            turn.appends.append(MetaRecord(slot.number, "unqueue", {"id": queue.id}))
        else:
            turn.appends.append(is_there(slot, estate))
    if estate is not None:
        bind(slot, estate)
        slot.touched[estate] = None
        note_failed(slot, estate, turn)
        # A crash between them would leave its letters in a queue that is there, to be handed out.
        turn.appends[first:] = grouped(slot.number, turn.appends[first:])


def forget_consumer(slot: Slot, consumer: int, session: int) -> None:
    """Takes a consumer out of the tables."""
    known = slot.consumers.pop(consumer, None)
    if known is not None and known.no_local:
        slot.strangers[session] -= 1
        if not slot.strangers[session]:
            del slot.strangers[session]
    owned = slot.sessions.get(session)
    if owned is not None:
        owned.remove(consumer)
        if not owned:
            del slot.sessions[session]
