"""What the messages of a command match, found before the command is carried out: in pieces, so that no turn is long.

Whatever an address does with a message before its queues see it (life time, time stamp) is done to a copy here, as of
the time of the first look; publishing does the same as of the same time.

Rule: an answer that does not fit any more is found anew, so that this file decides when, and never what. Must not know
which commands wait meanwhile (owner/inbox/deferred.py).
"""

# Example. A read brings 200 messages for a topic with 20,000 selectors that no index helps with.
#     turn 1      go_on() looks for its share of the turn, ends in the middle of message 3 and says -1: the command
#                 waits
#     turn 2 …    others are served in between; the look goes on where it was
#     turn n      all is known. publish() finds the answer under the list of the bytes, and takes no longer than
#                 without filters
# A wildcard subscription that comes meanwhile makes other Filters of it: then look() asks anew.

from __future__ import annotations

from collections.abc import Sequence

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import Run

from ..messages.runs import copy
from ..queue.filters import Filters, Look, Seen
from ..state.slot import Slot
from . import expiry
from .ingress_timestamp import stamp


def go_on(slot: Slot, parts: Sequence[Publish], turn: Turn, most: int) -> int:
    """Looks at more of what these publish, for about `most` nanoseconds; how many are left of them, less than nothing:
    it is to go on with that in another turn. Then forget() them."""
    for part in parts:
        seen = slot.seen.get(id(part.run.records))
        if seen is None:
            seen = slot.seen[id(part.run.records)] = _begin(slot, part, turn)
        for filters, look in seen.looks:
            if look.at < len(look.run.records):
                if most <= 0:
                    return -1
                done = look.go_on(filters, most)
                most -= filters.index.work
                if not done:
                    return -1
    return max(most, 0)


def _begin(slot: Slot, part: Publish, turn: Turn) -> Seen:
    # No topic is asked: an empty answer, remembered so that this is found out once.
    if part.queue is not None or part.routing is Routing.ANYCAST:
        return Seen(part.run, turn.now, [])
    if part.ttl or part.delay:
        part.arrive(turn.now)
    filtering = _filtering(slot, part.address)
    # A selector may ask for what the address adds (its expiry, its time stamp): what is asked now has to look as it
    # will then.
    run = _dressed(slot, part, turn.now) if filtering else part.run
    return Seen(part.run, turn.now, [(filters, Look(run)) for filters in filtering])


def forget(slot: Slot, parts: Sequence[Publish]) -> None:
    """These have been carried out."""
    for part in parts:
        slot.seen.pop(id(part.run.records), None)


def _filtering(slot: Slot, name: str) -> list[Filters]:
    address = slot.addresses.get(name)
    found = [address.filters] if address is not None and address.filters else []
    if slot.patterns is not None and slot.patterns.filtered and (wild := slot.patterns.filters(name)):
        found.append(wild)
    return found


def _dressed(slot: Slot, part: Publish, now: int) -> Run:
    """As its queues will see it (admission.admit)."""
    run, rules = copy(part.run), slot.rulebook(part.address)
    run.accepted_at(now)
    if rules is not None and rules.aging and (part.session or not expiry.ended(run)):
        expiry.apply(rules.settings, run, now)
    if rules is not None and rules.stamped:
        stamp(run, now)
    return run


def moment(slot: Slot, run: Run, now: int) -> int:
    """When the broker took these messages: when they were looked at first, if they were."""
    seen = slot.seen.get(id(run.records))
    # Else the answer would be of another message: one that expires later, or has another stamp.
    return now if seen is None else seen.now


def look(slot: Slot, filters: Filters, run: Run) -> Look:
    """What the filters let in of the run: as it was found before, or now."""
    seen = slot.seen.get(id(run.records))
    if seen is not None:
        for known, found in seen.looks:
            if known is filters and found.at >= len(run.records) and found.fits(run):
                return found
    fresh = Look(run)
    fresh.go_on(filters, 0)
    return fresh
