"""The last items of each slot's log in memory, for followers that come back.

Rule: what is kept of a slot has no gap and ends with its last item; when space runs out the oldest item of all
slots goes first. Must not know files, nor what records mean.
"""

# Example, limit 300 bytes, items of 100: slot 1 has lsns 7, 8, slot 2 has 40. Item 9 of slot 1 is added: the oldest
# of all, 7, goes, and `_before[1]` is 7. A follower that has 7 gets 8 and 9 from memory; one that has 6 is sent to
# the disk (None).

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter

from broker.core.records import Item

_lsn_of = itemgetter(1)


class Tail:
    """At most `limit` bytes of items; 0 keeps none."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._bytes = 0
        self._all: deque[Item] = deque()
        self._slots: dict[int, deque[Item]] = {}
        self._before: dict[int, int] = {}
        """slot → lsn before the first item that is kept"""

    def add(self, first: int, item: Item) -> None:
        """The item with lsns first…item[1] was appended."""
        slot = item[0]
        items = self._slots.setdefault(slot, deque())
        # Items that do not follow (a slot led again, with a gap of other leaders' items) begin anew.
        if not items or items[-1][1] + 1 != first:
            items.clear()
            self._before[slot] = first - 1
        items.append(item)
        self._all.append(item)
        self._bytes += len(item[2])
        while self._bytes > self.limit:
            self._evict()

    def _evict(self) -> None:
        oldest = self._all.popleft()
        self._bytes -= len(oldest[2])
        # An item that was dropped with its slot is still in `_all`, and counted: its bytes leave the sum here.
        items = self._slots[oldest[0]]
        if items and items[0] is oldest:  # else its slot was dropped meanwhile
            items.popleft()
            self._before[oldest[0]] = oldest[1]

    def since(self, slot: int, after: int, last: int, most: int) -> list[Item] | None:
        """The first `most` items behind lsn `after`; None: not all of them up to the slot's last one are here."""
        if after == last:
            return []
        items = self._slots.get(slot)
        if not items or items[-1][1] != last or not self._before[slot] <= after < last:
            return None
        # An item has one lsn at least, so it lies no further back than this; mostly just here.
        at = bisect_right(items, after, hi=min(after - self._before[slot], len(items)), key=_lsn_of)
        return [items[i] for i in range(at, min(at + most, len(items)))]

    def drop(self, slot: int) -> None:
        """The slot's log is void."""
        if slot in self._slots:
            self._slots[slot].clear()
