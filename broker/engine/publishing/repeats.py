"""What an earlier leader took and did not answer, for subscribers that only its memory knew.

Durable queues have it from the log. One that is not durable may have got it before that leader ended, or not: it comes
(again) from here, marked as redelivered. Rule: nothing that lasts changes, and each command counts once per leader.
What cannot be told alike a second time stays away: large bodies (the file is another record's), messages for later,
those with a duplicate id, those that an exclusive divert may have taken. Must not know who was served before.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish, Transact
from broker.core.effects import Turn
from broker.core.message import BLOB, UNIQUE

from ..dispatch.attach import awaken
from ..messages.runs import copy
from ..queue.queue import Queue
from ..routing.routing import default_routing
from ..state.slot import Slot
from . import expiry
from .ingress_timestamp import stamp
from .publish import share


def repeat(slot: Slot, command: Publish | Transact, turn: Turn) -> None:
    """`command` was dealt with before this leader; its answer is not the affair of this."""
    parts = command.parts if isinstance(command, Transact) else [command]
    for part in parts:
        if isinstance(part, Publish):
            part.arrive(turn.now)
            if _tellable(slot, part):
                _again(slot, part, turn)


def _tellable(slot: Slot, command: Publish) -> bool:
    run, rules = command.run, slot.rulebook(command.address)
    if command.slot != slot.number or command.queue is not None or run.due or run.flags & (BLOB | UNIQUE):
        return False
    if rules is not None and any(settings.exclusive for _, settings in rules.diverts):
        return False
    if command.routing is not Routing.UNSET:
        return command.routing is Routing.MULTICAST
    address = slot.addresses.get(command.address)
    if address is None:
        return default_routing(slot, command.address) is Routing.MULTICAST
    return not address.anycast


def _again(slot: Slot, command: Publish, turn: Turn) -> None:
    address = slot.addresses.get(command.address)
    queues: list[Queue] = [*address.multicast] if address is not None else []
    if slot.patterns is not None or slot.wildcards.some:
        queues += awaken(slot, command, turn)
    queues = [queue for queue in queues if not queue.durable]
    if not queues:
        return
    run, rules = copy(command.run), slot.rulebook(command.address)
    run.came_again()
    if rules is not None and rules.aging:
        expiry.apply(rules.settings, run, turn.now)
    if rules is not None and rules.stamped:
        stamp(run, turn.now)
    # seq 0: nobody is answered by this; the answer is again()'s.
    repeated = Publish(slot.number, command.session, 0, command.address, Routing.MULTICAST, run)
    share(slot, repeated, [queues], turn, None, careful=True)
