"""The last items of each slot's log in memory, for followers that come back.

Rule: what is kept of a slot has no gap and ends with its last item; when space runs out the oldest item of all
slots goes first. Must not know records or files.
"""

from __future__ import annotations

from collections import deque

from broker.core.records import Item


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
        items = self._slots[oldest[0]]
        if items and items[0] is oldest:  # else its slot was dropped meanwhile
            items.popleft()
            self._before[oldest[0]] = oldest[1]

    def since(self, slot: int, after: int, last: int) -> list[Item] | None:
        """The items behind lsn `after` up to `last`, the slot's last lsn; None: they are not all here."""
        if after == last:
            return []
        items = self._slots.get(slot)
        if not items or items[-1][1] != last or not self._before[slot] <= after < last:
            return None
        return [item for item in items if item[1] > after]

    def drop(self, slot: int) -> None:
        """The slot's log is void."""
        if slot in self._slots:
            self._slots[slot].clear()
