"""Consumers come to their queues: at their SUBSCRIBE, or, for a wildcard that has no message yet, with the first one.

Rule: a consumer has come through enrol(); a browser, which only looks, stands in the tables alone. The way out is
settle.py's. Must not know what is in a queue.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from broker.core.address import Routing
from broker.core.commands import Publish, Subscribe, SubscribeAll
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError

from ..consumers.consumer import Consumer
from ..queue import selective_consumers
from ..queue.queue import Queue
from ..routing import dead_letter_queues
from ..routing.addresses import delete, own_queue
from ..routing.routing import check_budget, default_routing, resolve
from ..state.slot import Slot
from . import slow_consumers


def enrol(slot: Slot, queue: Queue, consumer: Consumer, turn: Turn) -> None:
    """It consumes the queue from now on."""
    turn.works()
    register(slot, consumer)
    # Behind its equals, so that those of one priority are served in the order in which they came.
    insort(queue.consumers, consumer, key=_by_priority)
    selective_consumers.join(queue, consumer)
    queue.in_use()
    if queue.settings.slow_consumer_threshold >= 0:
        slow_consumers.watch(slot, queue, turn.now)


def register(slot: Slot, consumer: Consumer) -> None:
    """Puts a consumer into the tables (the way back: addresses.forget_consumer)."""
    slot.consumers[consumer.id] = consumer
    slot.sessions.setdefault(consumer.session, []).append(consumer.id)
    if consumer.no_local:
        slot.strangers[consumer.session] = slot.strangers.get(consumer.session, 0) + 1


def check_consumers(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Raises RefusedError(CONSUMER_LIMIT); a queue that was made for the consumer alone goes again."""
    most, here = queue.settings.max_consumers, len(queue.consumers)
    if 0 <= most <= here:
        # Made for it a moment ago, in this very turn: it goes as if it had never been there.
        if queue.tied:
            delete(slot, queue, turn)
        else:
            slot.watch_idle(queue, turn.now)
        raise RefusedError(
            Code.CONSUMER_LIMIT, f"'{queue.name}' has {here} consumers, and max_consumers of its settings is {most}"
        )


def fall_asleep(slot: Slot, command: Subscribe) -> None:
    """A wildcard consumer that needs no queue yet. Raises RefusedError."""
    resolve(slot, command)
    check_budget(slot, command.resume is None)
    if slot.patterns is not None:
        # A SUBSCRIBE that is asked again (its answer was lost): asleep once, not twice, or a message would wake two.
        slot.patterns.forget(command.consumer, command.session)
    if slot.wildcards.sleep(slot.number, command, slot.match.delimiter):
        return
    slot.wildcard().sleep(command)


def forget(slot: Slot, consumer: int, session: int) -> bool:
    """A consumer has ended. Returns whether it was asleep."""
    asleep = slot.patterns is not None and slot.patterns.forget(consumer, session)
    return slot.wildcards.forget(slot.number, consumer, session) or asleep


def forget_session(slot: Slot, session: int) -> None:
    """All its consumers have ended."""
    if slot.patterns is not None:
        slot.patterns.forget_session(session)
    slot.wildcards.forget_session(slot.number, session)


WOKEN: Final = 32
"""Sleeping consumers that get their queues in one turn for a message, of some 50 µs each; for more it waits."""


def drowsy(slot: Slot) -> bool:
    """May a message have to wait until those are awake who are to get it."""
    return slot.wildcards.some > WOKEN or (slot.patterns is not None and slot.patterns.sleeping)


def wake_some(slot: Slot, command: Publish, turn: Turn) -> bool:
    """Some of those who sleep and are to get this message are awake now. True: there may be more of them."""
    if not _for_wildcards(slot, command):
        return False
    woken = _wake(slot, command.address, turn, WOKEN)
    # The parts of one transaction are looked at in one turn: each may wake fewer than that.
    return woken >= WOKEN or (woken > 0 and turn.work > turn.most)


def _for_wildcards(slot: Slot, command: Publish) -> bool:
    """Will wildcards get it: as publish.py finds it when it has the queues."""
    if command.queue is not None or command.routing is not Routing.UNSET:
        return command.queue is None and command.routing is Routing.MULTICAST
    address = slot.addresses.get(command.address)
    # What the address is already counts before what its name would make of it.
    if (address is None or dead_letter_queues.only(address)) and (
        default_routing(slot, command.address) is Routing.MULTICAST
    ):
        return True
    return address is not None and bool(address.multicast)


def _wake(slot: Slot, address: str, turn: Turn, most: int) -> int:
    """Of those who sleep and match, at most so many (0: all). How many there were."""
    due = slot.patterns.sleepers(address, most) if slot.patterns is not None else []
    if slot.wildcards.some and not (most and len(due) >= most):
        due += slot.wildcards.due(slot.number, address, slot.match.delimiter, most and most - len(due))
    for asleep in due:
        queue = own_queue(slot, asleep, turn)
        enrol(slot, queue, Consumer(asleep, queue.id), turn)
    return len(due)


def awaken(slot: Slot, command: Publish, turn: Turn) -> list[Queue]:
    """The wildcard queues that get this message; sleeping consumers get theirs now. Where there are many of them the
    message has waited for wake_some(), so that few are left."""
    _wake(slot, command.address, turn, 0)
    return slot.patterns.queues(command.address) if slot.patterns is not None else []


def fall_asleep_everywhere(slot: Slot, command: SubscribeAll, turn: Turn) -> None:
    """The same in all slots; any of them may say whether it can be had. Raises RefusedError."""
    selective_consumers.check(command.model, slot.xpath, turn)
    resolve(slot, command.model)
    check_budget(slot, command.model.resume is None)
    slot.wildcards.add(command, slot.match.delimiter)


def _by_priority(consumer: Consumer) -> int:
    return -consumer.priority
