"""Messages that go to other addresses as well, or instead.

Every exclusive divert that wants a message gets it, and nobody else does; what none of them wants goes to the queues of
its address, and to the other diverts that want it. A message for one queue by name (FQQN) is diverted by nobody.

Rule: decides only; the way itself is forwarding.py's. Must not know queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from broker import selector
from broker.config.addressing import DivertSettings
from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import DEATH, Run

from ..messages.runs import pick, prefixed
from ..state.slot import Slot
from . import dead_letter_queues, forwarding
from .redelivery import OVERFLOW

Onward = list[tuple[Run, forwarding.Forward]]
"""Messages, and where they go, in this order."""


def divert(slot: Slot, command: Publish, turn: Turn) -> Onward:
    """What is to be sent where the diverts of the address lead. `command.run` is afterwards what is left for its own
    queues: nothing, if exclusive ones took all."""
    onward: Onward = []
    rules = slot.rulebook(command.address)
    if rules is None or command.queue is not None or forwarding.tired(command):
        return onward
    taken: set[int] = set()
    for _, settings in rules.diverts:
        if settings.exclusive:
            # All exclusive ones get their copy, also of a message that another one took.
            taken.update(_wanted(slot, settings, command, onward, turn))
    if taken:
        command.brings(pick(command.run, [at for at in range(len(command.run.records)) if at not in taken]))
        if not command.run.records:
            return onward
    for _, settings in rules.diverts:
        if not settings.exclusive:
            _wanted(slot, settings, command, onward, turn)
    return onward


def unrouted(slot: Slot, command: Publish) -> forwarding.Forward | None:
    """No queue wants it: to the dead letter address, if the settings say so; None: it is dropped."""
    return _to_dead_letters(slot, command) if slot.match(command.address).send_to_dla_on_no_route else None


def surplus(slot: Slot, command: Publish, run: Run) -> Onward:
    """What its address has no room for (full_policy DEAD_LETTER): to the dead letter address, or dropped if there is
    none."""
    way = _to_dead_letters(slot, command)
    if way is None:
        slot.counters.add("dropped_full", len(run.records))
        return []
    slot.counters.add("dead_lettered", len(run.records))
    letters = prefixed(run, DEATH + OVERFLOW.encode() + b"\n")
    letters.expires_at(0)  # like all dead letters
    return [(letters, way)]


def _to_dead_letters(slot: Slot, command: Publish) -> forwarding.Forward | None:
    settings = slot.match(command.address)
    name = settings.dead_letter_address
    if not name or name == command.address or forwarding.tired(command):
        return None
    own = dead_letter_queues.dead_letter_queue(settings, command.address)
    return forwarding.Forward(name) if own is None else forwarding.Forward(name, Routing.MULTICAST, own)


def _wanted(slot: Slot, settings: DivertSettings, command: Publish, onward: Onward, turn: Turn) -> Sequence[int]:
    """What the divert wants is to go where it leads. Returns which messages these are."""
    run = command.run
    wanted: Sequence[int] = range(len(run.records))
    if settings.selector:
        predicate = _filter(settings.selector)
        wanted = predicate.select(run, command.address)
        if predicate.meter is not None and (why := predicate.meter.overran()):
            slot.counters.add("selector_overruns")
            turn.notices.append(f"a divert of {command.address} did not take {why}: its selector would cost too much")
    if wanted:
        part = run if len(wanted) == len(run.records) else pick(run, wanted)
        # Copies of runs share the bytes: many targets cost references.
        for name in settings.forward.split(","):
            address, _, queue = name.strip().partition("::")
            if address:
                routing = command.routing if settings.routing == "PASS" else _ROUTING[settings.routing]
                onward.append((part, forwarding.Forward(address, routing, queue or None)))
    return wanted


_ROUTING = {"STRIP": Routing.UNSET, "ANYCAST": Routing.ANYCAST, "MULTICAST": Routing.MULTICAST}


@lru_cache(1024)
def _filter(text: str) -> selector.Predicate:
    """Kept as long as it is in use."""
    return selector.compile(text)
