"""What operators do to queues: create, delete, purge, pause, resume.

Rule: a command like any other: in the log before it is answered, or refused by name with nothing changed. Must not
know who may ask (the admin API does) nor how many queues an operator means.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.address import Routing
from broker.core.commands import Act, Manage
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError

from .dispatch import slow_consumers
from .publishing import recurring
from .queue import selective_consumers
from .queue.queue import Queue
from .routing import declare
from .routing.addresses import create, delete, is_there
from .routing.routing import check_budget
from .state.queue_views import held
from .state.slot import Slot, progress

MOST_CONSUMERS = 1000
MOST_HELD = 50_000
"""Consumers of a queue that is purged, and messages that they hold: all of it is one step."""


def manage(slot: Slot, command: Manage, turn: Turn) -> None:
    """Raises RefusedError, nothing changed then."""
    before = progress(turn)
    if command.act is Act.CREATE:
        _create(slot, command, turn)
    else:
        _ACTS[command.act](slot, _queue(slot, command), command, turn)
    # As for a client: told when it is durable, so an operator who has seen "deleted" does not see the queue come
    # back.
    slot.answer(command.session, command.seq, turn, before)


def _queue(slot: Slot, command: Manage) -> Queue:
    address = slot.addresses.get(command.address)
    found = address.queues.get(command.queue) if address is not None else None
    if found is None:
        raise RefusedError(Code.NO_SUCH_DESTINATION, f"address '{command.address}' has no queue '{command.queue}'")
    return found


def _create(slot: Slot, command: Manage, turn: Turn) -> None:
    address, name = command.address, command.queue
    known = slot.addresses.get(address)
    if known is not None and name in known.queues:
        raise RefusedError(Code.QUEUE_EXISTS, f"address '{address}' has a queue '{name}'")
    if slot.match.is_pattern(address):
        raise RefusedError(Code.BAD_DESTINATION, f"'{address}' stands for several addresses; name one")
    if name != address and command.routing is Routing.MULTICAST and name in slot.subscriptions:
        raise RefusedError(Code.QUEUE_EXISTS, f"there is a durable subscription '{name}'")
    check_budget(slot)
    queue = create(slot, address, name, command.routing or Routing.ANYCAST, turn, selector=command.selector or None)
    slot.touched[queue] = None


def _delete(slot: Slot, queue: Queue, command: Manage, turn: Turn) -> None:
    if queue.declared:
        raise RefusedError(
            Code.NOT_ALLOWED,
            f"the settings name queue '{queue.name}' (engine.queues), and would make it again; take it out of them, "
            "or purge it",
        )
    if queue.consumers and not command.force:
        raise RefusedError(
            Code.SUBSCRIPTION_IN_USE,
            f"'{queue.name}' has {len(queue.consumers)} consumers; disconnect them, or use force: they get an ERROR",
        )
    delete(slot, queue, turn)


def _purge(slot: Slot, queue: Queue, _: Manage, turn: Turn) -> None:
    """Another queue takes its place, in one record of the log; its consumers go along."""
    consumers = list(queue.consumers)
    out = sum(map(held, consumers))
    if len(consumers) > MOST_CONSUMERS or out > MOST_HELD:
        raise RefusedError(
            Code.NOT_ALLOWED,
            f"'{queue.name}' has {len(consumers)} consumers that hold {out} messages; with more than {MOST_CONSUMERS} "
            f"or {MOST_HELD} that would stop everybody for too long: pause it, and disconnect them first",
        )
    queue.consumers.clear()
    browsers = queue.browsers.clear() if queue.browsers else []
    another = declare.purge(slot, queue, turn)
    for consumer in consumers:
        # Their ACKs of what was purged are on their way: accepted, and without effect. Refused, they would be an
        # ERROR for something that the client did right.
        another.delivering_again(consumer.forget_held())
        consumer.move(another.id)
        # A bit is of one queue's choice; join() gives it that of the new one.
        consumer.asks(0)
        another.consumers.append(consumer)  # in the order they had
        selective_consumers.join(another, consumer)
    for browser in browsers:
        browser.emptied(another.id)
        another.browse(browser)
    if consumers:
        another.in_use()
        if another.settings.slow_consumer_threshold >= 0:
            slow_consumers.watch(slot, another, turn.now)
    slot.touched[another] = None


def _pause(slot: Slot, queue: Queue, _: Manage, turn: Turn) -> None:
    _set_paused(slot, queue, True, turn)


def _resume(slot: Slot, queue: Queue, _: Manage, turn: Turn) -> None:
    if queue.settings.paused and not queue.paused:
        raise RefusedError(Code.NOT_ALLOWED, f"the settings of '{queue.name}' pause it; take `paused` out of them")
    _set_paused(slot, queue, False, turn)


def _set_paused(slot: Slot, queue: Queue, paused: bool, turn: Turn) -> None:
    if queue.paused == paused:
        return
    queue.pause(paused)
    queue.equip()
    if queue.durable:
        turn.appends.append(is_there(slot, queue))
    slot.touched[queue] = None


def _cancel(slot: Slot, queue: Queue, command: Manage, turn: Turn) -> None:
    recurring.cancel(slot, queue, command.selector or "", turn)


_ACTS: dict[Act, Callable[[Slot, Queue, Manage, Turn], None]] = {
    Act.DELETE: _delete,
    Act.PURGE: _purge,
    Act.PAUSE: _pause,
    Act.RESUME: _resume,
    Act.CANCEL: _cancel,
}
