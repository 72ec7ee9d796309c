"""How much waits at an address: the numbers that people and autoscalers ask for.

Rule: reads one slot, changes nothing, and costs as much as the addresses asked for have queues.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from ..address.address_settings import matches
from ..address.quota import BLOCK
from ..queue.queue import Queue
from .slot import Slot
from .slot_address import Address


def depths(slot: Slot, match: str) -> Iterator[dict[str, Any] | None]:
    """One entry per queue of the address, or of all addresses that the pattern `match` stands for, in messages; None
    for each address that it does not. Between two of them anything may happen to the slot.

    waiting      ready, paged out or on their way in.    scheduled    not due yet (delays of redelivery too)."""
    if slot.match.is_pattern(match):
        pattern, words = slot.match.words(match), slot.match.words
        # A copy: the asker takes one entry at a time, and queues come and go between two of them.
        for name, address in list(slot.addresses.items()):
            if matches(pattern, words(name)):
                yield from _of(address)
            else:
                yield None
    elif match in slot.addresses:
        yield from _of(slot.addresses[match])


def busy(slot: Slot, names: Container[str]) -> Iterator[dict[str, Any] | None]:
    """One entry for each address of these names, all of its queues together; None for each other queue or address; and
    at the end {slot, bytes}: what the messages of the slot weigh.

    came, died   messages that came into its queues, and dead letters of it, since they are led here: both only grow.
    blocked      it is full, and sessions that send to it wait."""
    weight = 0
    for name, address in list(slot.addresses.items()):
        named = name in names
        sums = dict.fromkeys(("waiting", "delivering", "scheduled", "consumers", "came", "died"), 0)
        for queue in list(address.queues.values()):
            weight += queue.nbytes + queue.pages.nbytes
            if named and not (queue.hidden or queue.deleted):
                sums["waiting"] += _waiting(queue)
                sums["delivering"] += queue.delivering
                sums["scheduled"] += _later(queue)
                sums["consumers"] += len(queue.consumers)
                sums["came"] += queue.came
                sums["died"] += queue.died
            yield None
        quota = address.quota
        if named:
            yield {"address": name, **sums, "blocked": quota is not None and quota.policy == BLOCK and quota.full()}
    yield {"slot": slot.number, "bytes": weight}


def _waiting(queue: Queue) -> int:
    return queue.count + queue.far + queue.pages.count + sum([len(run.records) for run in queue.returned])


def _later(queue: Queue) -> int:
    return queue.delayed.count + (queue.agenda.count if queue.agenda else 0)


def _of(address: Address) -> Iterator[dict[str, Any] | None]:
    for queue in list(address.queues.values()):
        if queue.hidden or queue.deleted:
            yield None
            continue
        yield {
            "address": address.name, "queue": queue.name, "routing": queue.routing.name, "waiting": _waiting(queue),
            "delivering": queue.delivering, "scheduled": _later(queue), "consumers": len(queue.consumers),
        }  # fmt: skip
