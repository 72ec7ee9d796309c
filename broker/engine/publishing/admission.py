"""What happens to messages before they reach queues, where an address or a message asks for more than delivery.

Rule: the order of the steps is decided here, what each does elsewhere. Only runs that say so by their own fields
(`due`, UNIQUE), or whose address has rules, come here. Must not know how runs enter queues.
"""

# Example. /topic/a has a limit (DROP), id_cache_size, expiry_delay_ms and an exclusive divert with a selector. Five
# messages of one read come; the duplicate id of the second is known.
#     duplicates   1, 3, 4, 5 are left. The second one is Done like the others: its first try counted
#     limits       there is room for three: 5 is dropped
#     remember     the ids of 1, 3 and 4 alone. Were 5's remembered, its second try would be taken for a repetition
#                  and be lost, though it was never taken
#     life time    1, 3, 4 expire
#     divert       3 goes elsewhere; 1 and 4 are left for the queues, through sift()

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import UNIQUE, Run
from broker.selector import Predicate

from ..dispatch import costly_selectors
from ..messages.runs import pick
from ..queue.filters import Filters, Look
from ..queue.queue import Queue
from ..routing import diverts
from ..state import duplicates, limits, makers
from ..state.slot import Slot
from . import expiry
from .ingress_timestamp import stamp
from .prefilter import look, moment

Part = tuple[Run, list[Queue]]
"""A run, and the queues that get all of it."""


def check(slot: Slot, command: Publish, asked: limits.Asked, waits: bool = True) -> None:
    """Raises RefusedError if admit() would refuse this part of a transaction. asked, waits: see limits.check()."""
    makers.check(slot, slot.addresses.get(command.address), command)
    rules = slot.rulebook(command.address)
    if rules is not None and rules.limited:
        limits.check(slot, slot.addresses.get(command.address), command, asked, waits)


def would_page(slot: Slot, part: Publish) -> bool:
    """Would it, though not durable, be written because the memory of a queue is full."""
    address = slot.addresses.get(part.address)
    if address is None:
        return False
    if part.run.due:
        return True
    # By the same sum as publish._must_page(): a transaction is planned by this answer, before anything is changed.
    room = slot.limit - part.run.nbytes
    return any(q.pages.paging or q.nbytes + q.gate.nbytes > room for q in address.queues.values())


class Admitted(NamedTuple):
    """left: something is left for the queues of its address.    onward: what goes to other addresses first."""

    left: bool
    onward: diverts.Onward


_TAKEN = Admitted(True, [])
_GONE = Admitted(False, [])


def admit(slot: Slot, command: Publish, turn: Turn) -> Admitted:
    """Duplicates, limits (of who made a queue, too), life time, time stamp, diverts, in this order: what is known
    already adds nothing, so no address is too full for it; and what an address is too full for is not known by it.
    Nothing is left for the queues if it was dropped, known already, or goes elsewhere. `command.run` may be another one
    afterwards. Raises RefusedError; nothing has been changed then."""
    if command.run.due <= turn.now:
        # What is due already is like any other message; `due` would send it through the journal.
        command.run.due_at(0)
    address = slot.addresses.get(command.address)
    rules = slot.rulebook(command.address)
    unique = command.run.flags & UNIQUE
    if unique and not duplicates.fresh(slot, command):
        return _GONE
    makers.check(slot, address, command)
    surplus = limits.admit(slot, address, command) if rules is not None and rules.limited else None
    beside = [] if surplus is None else diverts.surplus(slot, command, surplus)
    if not command.run.records:
        return Admitted(False, beside) if beside else _GONE
    if unique:
        duplicates.remember(slot, command, turn)
    if rules is None:
        return _TAKEN
    # Session 0 is the broker itself: a dead letter, an expired message. Only there a header that says so is believed.
    if rules.aging and (command.session or not expiry.ended(command.run)):
        expiry.apply(rules.settings, command.run, moment(slot, command.run, turn.now))
    if rules.stamped:
        stamp(command.run, moment(slot, command.run, turn.now))
    if not (rules.diverts or beside):
        return _TAKEN
    onward = diverts.divert(slot, command, turn) if rules.diverts else []
    return Admitted(bool(command.run.records), beside + onward)


def _overran(slot: Slot, filters: Filters, seen: Look) -> None:
    """Ends whose selector would have cost too much."""
    for predicate, why in seen.overran.items():
        costly_selectors.note(slot, [c for queue in filters.takers.get(predicate, ()) for c in queue.consumers], why)
    seen.overran.clear()


def sift(slot: Slot, parts: list[Part], address: str) -> list[Part]:
    """The same, with only those messages for each queue that its filter lets in. Queues which get the same messages
    share a run."""
    result: list[Part] = []
    of_address = slot.addresses.get(address)
    own = of_address.filters if of_address is not None else None
    for run, queues in parts:
        if own and of_address is not None and queues is of_address.multicast:
            # All selectors of the topic at once, by an index, and mostly found before this turn (prefilter.py).
            seen = look(slot, own, run)
            _overran(slot, own, seen)
            result += own.share(run, seen.found)
        elif any([queue.selective() for queue in queues]):
            result += _sifted(slot, run, queues, address, own)
        else:
            result.append((run, queues))
    return result


def _sifted(slot: Slot, run: Run, queues: list[Queue], address: str, own: Filters | None) -> list[Part]:
    """Queues of an address, and others beside them: of wildcards, or of the other type."""
    count = len(run.records)
    free: list[Queue] = []
    wanted: dict[tuple[int, ...], list[Queue]] = {}
    known = _known(slot, run, address, own)
    for queue in queues:
        if queue.closed():
            continue
        matching = queue.filter
        if matching is None:
            free.append(queue)
            continue
        # Queues with the same selector share one answer: the question is asked once, however many subscribe alike.
        if matching not in known:
            known[matching] = matching.select(run, address)
            if matching.meter is not None and (why := matching.meter.overran()):
                costly_selectors.note(slot, [c for q in queues if q.filter is matching for c in q.consumers], why)
        at = known[matching]
        if len(at) == count:
            free.append(queue)
        elif at:
            wanted.setdefault(tuple(at), []).append(queue)
    result: list[Part] = [(run, free)] if free else []
    return result + [(pick(run, at), takers) for at, takers in wanted.items()]


def _known(slot: Slot, run: Run, address: str, own: Filters | None) -> dict[Predicate, Sequence[int]]:
    """What those who filter together let in."""
    known: dict[Predicate, Sequence[int]] = {}
    wild = slot.patterns.filters(address) if slot.patterns is not None and slot.patterns.filtered else None
    for filters in (own, wild):
        if filters:
            seen = look(slot, filters, run)
            _overran(slot, filters, seen)
            # Who was asked together and is not among what was found wants none of it: that is an answer, too, and not
            # asked again.
            known.update(dict.fromkeys(filters.takers, ()))
            known.update(seen.found)
    return known
