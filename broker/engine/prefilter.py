"""What the messages of a command match, found before the command is carried out: in pieces, so that no turn is long.

Whatever an address does with a message before its queues see it (life time, time stamp) is done to a copy here, as of
the time of the first look; whoever publishes does the same as of the same time.

Rule: an answer that does not fit any more is found anew, so that this file decides when, and never what. Must not know
who waits meanwhile (owner/behind.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.message import Run

from . import expiry
from .address_rules import rules_for
from .filters import Filters, Look, Looking
from .ingress_timestamp import stamp
from .runs import copy

if TYPE_CHECKING:
    from .slot import Slot


def go_on(slot: Slot, command: object, parts: Sequence[Publish], now: int, most: int) -> int:
    """Looks at more of what the command publishes, for about `most` nanoseconds; how many are left of them, less than
    nothing: it is to go on with that in another turn."""
    looking = slot.looking
    if looking is None or looking.command is not command:
        looking = slot.looking = Looking(command, now)
    for part in parts:
        for filters, look in _looks(slot, looking, part):
            if look.at < len(look.run.records):
                if most <= 0:
                    return -1
                done = look.go_on(filters, most)
                most -= filters.index.work
                if not done:
                    return -1
    return most


def _looks(slot: Slot, looking: Looking, part: Publish) -> list[tuple[Filters, Look]]:
    """Who filters these messages, and how far that has come."""
    known = looking.looks.get(id(part.run.records))
    if known is not None:
        return known
    found: list[tuple[Filters, Look]] = []
    if part.queue is None and part.routing is not Routing.ANYCAST:
        if part.ttl or part.delay:
            part.arrive(looking.now)
        filtering = _filtering(slot, part.address)
        run = _dressed(slot, part, looking.now) if filtering else part.run
        found = [(filters, Look(run)) for filters in filtering]
    looking.looks[id(part.run.records)] = found
    return found


def _filtering(slot: Slot, name: str) -> list[Filters]:
    address = slot.addresses.get(name)
    found = [address.filters] if address is not None and address.filters else []
    if slot.patterns is not None and slot.patterns.filtered and (wild := slot.patterns.filters(name)):
        found.append(wild)
    return found


def _dressed(slot: Slot, part: Publish, now: int) -> Run:
    """As its queues will see it (admission.admit)."""
    run, rules = copy(part.run), rules_for(slot, part.address)
    run.time = now
    if rules is not None and rules.aging and (part.session or not expiry.ended(run)):
        expiry.apply(rules.settings, run, now)
    if rules is not None and rules.stamped:
        stamp(run, now)
    return run


def moment(slot: Slot, run: Run, now: int) -> int:
    """When the broker took these messages: when they were looked at first, if they were."""
    looking = slot.looking
    return looking.now if looking is not None and id(run.records) in looking.looks else now


def look(slot: Slot, filters: Filters, run: Run) -> Look:
    """What the filters let in of the run: as it was found before, or now."""
    looking = slot.looking
    if looking is not None:
        for known, seen in looking.looks.get(id(run.records), ()):
            if known is filters and seen.at >= len(run.records) and seen.fits(run):
                return seen
    fresh = Look(run)
    fresh.go_on(filters, 0)
    return fresh
