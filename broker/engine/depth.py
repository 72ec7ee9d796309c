"""How much waits at an address: the numbers that people and autoscalers ask for.

Rule: reads one slot, changes nothing, and costs as much as the addresses asked for have queues.
"""

from __future__ import annotations

from typing import Any

from .matching import matches
from .queue import Queue
from .slot import Address, Slot


def depths(slot: Slot, match: str) -> list[dict[str, Any]]:
    """One entry per queue of the address, or of all addresses that the pattern `match` stands for, in messages.

    waiting      ready, paged out or on their way in.    scheduled    not due yet (delays of redelivery too)."""
    if slot.match.is_pattern(match):
        pattern, words = slot.match.words(match), slot.match.words
        found = [address for name, address in slot.addresses.items() if matches(pattern, words(name))]
    else:
        found = [slot.addresses[match]] if match in slot.addresses else []
    return [entry for address in found for entry in _of(address)]


def _later(queue: Queue) -> int:
    return sum([len(run.records) for _, _, run in queue.delayed]) + (queue.agenda.count if queue.agenda else 0)


def _of(address: Address) -> list[dict[str, Any]]:
    return [
        {
            "address": address.name, "queue": queue.name, "routing": queue.routing.name,
            "waiting": queue.count + queue.far + queue.paged_count + sum([len(run.records) for run in queue.returned]),
            "delivering": queue.delivering, "scheduled": _later(queue),
            "consumers": len(queue.consumers),
        }
        for queue in address.queues.values()
        if not queue.hidden
    ]  # fmt: skip
