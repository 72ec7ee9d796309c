"""Makes what the settings name, and lets go what they name no more.

Rule: declarations are not in the log. The slot's leader makes what is missing when it begins, and after each change of
the settings. What is declared no more is deleted when it is empty and unused, never with messages in it: so a queue
that a declaration made is recorded as auto-created, and the settings alone protect it. Must not know messages.
"""

# Example. The settings named queue `jobs` with paused; now they name `mail` instead, and `jobs` no more.
#     jobs   keeps its messages and consumers, as an auto-created queue; it is not paused any longer. When it is empty
#            and unused it goes
#     mail   is made: recorded like any queue, so followers have it too
#     crash  between two pieces: nothing to undo. The next leader makes what is missing from the settings it has

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker.core.address import Routing
from broker.core.effects import Turn

from ..queue import selective_consumers
from ..queue.queue import Queue
from ..state import limits
from ..state.log_group import grouped
from ..state.slot import Slot
from ..state.slot_address import Address
from .addresses import change_selector, create, delete, find_rules, is_there

_COST: Final = 4
"""What a queue that is made counts, beside one that is looked at."""


def configuring(slot: Slot, most: int) -> Iterator[None]:
    """The settings have changed: for what exists too, so many queues at a time; nothing may happen in between.
    Queues stay, whatever their addresses match now."""
    for at, queue in enumerate(slot.queues.values(), 1):
        _renewed(slot, queue)
        if not at % most:
            yield
    for at, address in enumerate(slot.addresses.values(), 1):
        find_rules(slot, address)
        if not at % most:
            yield
    if slot.patterns is not None:
        slot.patterns.refresh()


def declare(slot: Slot, turn: Turn) -> None:
    """Everything that is to exist does; what need not exist may go."""
    Reshaping(slot, anew=False).go_on(slot, turn, sys.maxsize)


class Reshaping:
    """configure() and declare() in pieces, after a change of the settings. Between two of them queues come and go:
    those that come have the new settings.

    Names, and ids of queues, that are still to be looked at."""

    __slots__ = ("_addresses", "_anew", "_queues", "_wanted")

    def __init__(self, slot: Slot, anew: bool = True) -> None:
        """anew: what exists is to have the new settings, too."""
        named = slot.declarations
        self._anew = anew
        # Names and numbers, not objects: between two pieces any of them may be deleted, and is looked up again then.
        self._addresses = deque([*slot.addresses, *[name for name in named.addresses if name not in slot.addresses]])
        self._queues = deque(slot.queues)
        self._wanted = deque(named.queues)
        if anew and slot.patterns is not None:
            slot.patterns.refresh()

    def go_on(self, slot: Slot, turn: Turn, most: int) -> int:
        """Looks at no more than `most` of them. How many are left of these; 0: there may be more to do."""
        addresses, queues, wanted = self._addresses, self._queues, self._wanted
        while addresses and most > 0:
            _address(slot, addresses.popleft(), self._anew)
            most -= 1
        while queues and most > 0:
            queue = slot.queues.get(queues.popleft())
            if queue is not None:
                if self._anew:
                    _renewed(slot, queue)
                    most -= limits.recount(slot, queue)
                _declared(slot, queue, turn)
            most -= 1
        while wanted and most > 0:
            place = wanted.popleft()
            address, table = slot.addresses.get(place[0]), slot.declarations.queues.get(place)
            if table is not None and (address is None or place[1] not in address.queues):
                _make(slot, *place, table, turn)
                # A piece is meant in time, and to make a queue is a record and several tables.
                most -= _COST
            most -= 1
        return max(most, 0)


def _renewed(slot: Slot, queue: Queue) -> None:
    slot.touched[queue] = None
    if not queue.hidden:
        queue.configure(slot.declarations.settings(queue.address, queue.name))
        if (address := slot.addresses[queue.address]).note(queue):
            find_rules(slot, address)
        selective_consumers.configure(queue)
        queue.equip()
        if queue.auto_created:
            slot.wake(queue, 1)  # the next tick looks whether it is to go now
    # Who is slow is found out from the beginning, with the next tick.
    queue.forget_pace()
    if queue.settings.slow_consumer_threshold >= 0 and queue.consumers:
        queue.watch_pace()
        slot.wake(queue, 1)


def _declared(slot: Slot, queue: Queue, turn: Turn) -> None:
    if queue.hidden:
        return
    queue.equip()
    table = slot.declarations.queues.get((queue.address, queue.name))
    # One of another type stays what it is: its messages were not meant for the declared one.
    queue.declare(table is not None and _routing(table) is queue.routing)
    if table is not None:
        queue.in_use()
        if queue.selector != (table.get("selector") or None):
            change_selector(slot, queue, table.get("selector"), turn)
    slot.watch_idle(queue, turn.now)
    slot.touched[queue] = None


def _address(slot: Slot, name: str, anew: bool) -> None:
    wanted, address = name in slot.declarations.addresses, slot.addresses.get(name)
    if address is None:
        if not wanted:
            return
        address = slot.addresses[name] = Address(name)
        slot.changed.address()
        anew = True
    address.declare(wanted)
    if not (wanted or address.queues):
        del slot.addresses[name]
        slot.changed.address()
    elif anew:
        find_rules(slot, address)
        limits.bound(slot, address)


def renew(slot: Slot, queue: Queue, turn: Turn) -> None:
    """A queue has been deleted on demand: a declared one exists again, empty."""
    table = slot.declarations.queues.get((queue.address, queue.name))
    if table is not None:
        _make(slot, queue.address, queue.name, table, turn, replay=False)


def abandoned(slot: Slot, queue: Queue, turn: Turn) -> None:
    """The last consumer has gone."""
    queue.equip()
    if queue.kind is not None:
        slot.touched[queue] = None
    if queue.settings.purge_on_no_consumers and not queue.empty():
        purge(slot, queue, turn)


def purge(slot: Slot, queue: Queue, turn: Turn) -> Queue:
    """Empties a queue that has no consumers: another one takes its place, so that what is on its way in goes too.
    Both in one record of the log, or a crash could leave nobody. Returns the other one."""
    first = len(turn.appends)
    delete(slot, queue, turn)
    # A new queue rather than an emptied one: entries that wait for the log carry their queue with them, and release()
    # drops those of a deleted one. Emptied in place, it would be filled again by what was published before the purge.
    another = create(
        slot, queue.address, queue.name, queue.routing, turn,
        durable=queue.durable, auto_created=queue.auto_created, subscription=queue.subscription, tied=queue.tied,
        selector=queue.selector, replay=False, maker=queue.maker,
    )  # fmt: skip
    another.declare(queue.declared)
    if queue.paused:
        another.pause(True)
        another.equip()
        if another.durable:
            turn.appends.append(is_there(slot, another))
    turn.appends[first:] = grouped(slot.number, turn.appends[first:])
    slot.watch_idle(another, turn.now)
    return another


def _make(slot: Slot, address: str, name: str, table: Mapping[str, Any], turn: Turn, replay: bool = True) -> None:
    routing = _routing(table)
    subscription = routing is Routing.MULTICAST
    # Its client's messages are worth more than the declaration.
    if subscription and name in slot.subscriptions:
        return  # a client has a durable subscription of this name at another address
    queue = create(
        slot, address, name, routing, turn,
        auto_created=True, subscription=subscription, selector=table.get("selector") or None,
        replay=replay,
    )  # fmt: skip
    queue.declare(True)


def _routing(table: Mapping[str, Any]) -> Routing:
    return Routing[table.get("routing", "ANYCAST")]
