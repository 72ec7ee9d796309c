"""What virtual hosts and users have in the slots led here, connected or not: for edge.quotas.

    host:NAME   queues, durable subscriptions, bytes of messages, and those of them in memory (host:/: the default one)
    user:NAME   durable subscriptions, by the fronts of their names that the question says are his; of the queues that
                were made for him (core.creation.Creation) their number, bytes, and those in memory

Rule: reads a slot in steps and changes nothing. Must not know what is too much.
"""

# Example. fronts {"ada": "ada", "ada.eu": "ada.eu"}; the durable subscriptions
#     ada.inbox        is one of ada
#     ada.eu.inbox     is one of ada.eu: the longest front that ends where a word does
#     adam.inbox       is nobody's

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from broker.core.pages import PIECE
from broker.core.virtual_host import host_of
from broker.engine.queue.queue import Queue
from broker.engine.state.slot import Slot

ROWS: Final = 64
"""Rows added up in one piece (loop_watchdog.portion)."""
MOST_ROWS: Final = 8_000
"""Users of an answer, which is encoded and read in one step. Who asks hears how many are missing."""
Counts = dict[str, list[int]]
"""host:NAME or user:NAME → queues, durable subscriptions, bytes, bytes in memory."""


def queues_of(slot: Slot) -> Iterator[list[Queue]]:
    """All that are there all the while. Their numbers are copied, as queues come and go between the pieces: to copy
    references would be a look at each, and 1,500 that no cache holds any more take two milliseconds."""
    queues, ids = slot.queues, iter(list(slot.queues))
    yield []  # the copy alone is a piece
    while some := list(islice(ids, PIECE)):
        yield [queue for queue in map(queues.get, some) if queue is not None]


def kept_of_slot(slot: Slot, fronts: Mapping[str, str]) -> Generator[None, None, Counts]:
    """Of one slot."""
    found: Counts = {}
    hosts: dict[str, str] = {}
    lengths = lengths_of(fronts)
    for some in queues_of(slot):
        for queue in some:
            if queue.hidden:
                continue
            address = queue.address
            who = hosts.get(address) or hosts.setdefault(address, f"host:{host_of(address) or '/'}")
            in_memory, nbytes = queue.nbytes, queue.nbytes + queue.pages.nbytes
            counts = found.get(who) or found.setdefault(who, [0, 0, 0, 0])
            counts[0] += 1
            counts[1] += queue.subscription
            counts[2] += nbytes
            counts[3] += in_memory
            if queue.maker:
                counts = found.setdefault(f"user:{queue.maker}", [0, 0, 0, 0])
                counts[0] += 1
                counts[2] += nbytes
                counts[3] += in_memory
            if queue.subscription and fronts and (user := user_of(queue.name, fronts, lengths)):
                found.setdefault(f"user:{user}", [0, 0, 0, 0])[1] += 1
        yield
    return found


def lengths_of(fronts: Iterable[str]) -> list[int]:
    """Where a name may be cut, the longest first. A client's name has up to 20,000 characters, and each of them may be
    a mark: to ask at every one would take as long as all else together."""
    return sorted({len(front) for front in fronts}, reverse=True)


def user_of(name: str, fronts: Mapping[str, str], lengths: Iterable[int]) -> str:
    """Whose durable subscription it is; empty: nobody's of these. lengths: those of the fronts (lengths_of)."""
    for end in lengths:
        # A front ends where a word of the name does: behind a mark, or before one.
        whole = end == len(name) or (0 < end < len(name) and not (name[end].isalnum() and name[end - 1].isalnum()))
        if whole and name[:end] in fronts:
            return fronts[name[:end]]
    return ""


class SideBySide(list[Counts]):
    """Those of several slots, and the sum of them once it was asked for: where nothing happens that is each second,
    and it goes when they do (listing_cache.py)."""

    __slots__ = ("_sum",)

    def __init__(self, slots: Iterable[Counts] = ()) -> None:
        super().__init__(slots)
        self._sum: tuple[Counts, int] | None = None

    def together(self) -> Generator[None, None, tuple[Counts, int]]:
        """As summed(). Nobody may change it."""
        if self._sum is None:
            self._sum = yield from summed(self)
        return self._sum


def side_by_side(parts: Sequence[Sequence[Counts]]) -> SideBySide:
    """Those of several slots, not summed: to sum all of them is no single step, where thousands of users have some."""
    return SideBySide(counts for part in parts for counts in part)


def summed(slots: Sequence[Counts]) -> Generator[None, None, tuple[Counts, int]]:
    """Of all slots together, in steps; and how many users have no row, because there are more than MOST_ROWS. Hosts
    all have one: without it one that is full would be sent to without end."""
    sums: Counts = {}
    untold: set[str] = set()
    left, users = ROWS, 0
    for counts in slots:
        for who, more in counts.items():
            had = sums.get(who)
            if had is not None:
                for at in range(4):
                    had[at] += more[at]
            elif who.startswith("host:"):
                sums[who] = list(more)
            elif users < MOST_ROWS:
                users += 1
                sums[who] = list(more)
            else:
                untold.add(who)
            left -= 1
            if not left:
                left = ROWS
                yield
    return sums, len(untold)
