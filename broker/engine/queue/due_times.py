"""What of one queue is not due yet, by the time when it comes out.

Rule: in the order of time, then of ids; a run costs one integer. When it is let out is decided in schedule.py.
"""

# Example. Runs due at 5000 (id 7, at 4096), 3000 (id 9, at 8192) and 5000 (id 8, at 6000): three ints in a heap.
#     first()       3000: the top bits of the smallest
#     pop(5000)     9, then 7, then 8: equal times stand by id, for to compare two ints is to compare (time, id, …)

from __future__ import annotations

from collections.abc import Container
from heapq import heapify, heappop, heappush

from broker.core.message import Run

_AT, _ID, _POSITION = 160, 96, 32
_ALL_64, _ALL_32 = (1 << 64) - 1, (1 << 32) - 1


class Agenda:
    """What of one queue is not due: (time, first id, position, messages) packed into one int, about 70 bytes per run.

    count, nbytes   messages.
    opened          everything up to this time (epoch ms) may have been delivered, and the log says so.
    asked           the same, on its way to the log; 0: nothing is.
    suspect         the same, of an earlier life that ended without notice.
    expires         no run it ever held expires before that time; 0: none does."""

    __slots__ = ("_heap", "asked", "count", "expires", "nbytes", "opened", "suspect")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self.count = self.nbytes = self.expires = 0
        self.opened = self.asked = self.suspect = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, run: Run) -> None:
        """The run has its ids, and its position if it is in the log."""
        count = len(run.ids)
        # The fields cannot run into each other: id and position have 64 bits each, the count 32, and the time is on
        # top, unbounded.
        heappush(self._heap, moment(run) << _AT | run.ids[0] << _ID | run.position << _POSITION | count)
        self.count += count
        self.nbytes += run.nbytes
        if run.expires and (not self.expires or run.expires < self.expires):
            self.expires = run.expires

    def ask(self, at: int) -> None:
        """The log is on its way to know that everything up to `at` may be delivered."""
        self.asked = at

    def open(self) -> None:
        """The log knows what it was asked."""
        self.opened, self.asked = self.asked, 0

    def open_unlogged(self, at: int) -> None:
        """Nothing of the queue is in the log: it is open up to `at` without asking."""
        self.opened = at

    def doubt(self) -> bool:
        """The life before ended without notice: what was open may have been delivered. False: that was known."""
        if self.opened <= self.suspect:
            return False
        self.suspect = self.opened
        return True

    def restore(self, opened: int, suspect: int) -> None:
        """What the log says of an earlier life."""
        self.opened = max(self.opened, opened)
        self.suspect = max(self.suspect, suspect)

    def first(self) -> int:
        """When the next one comes out; there must be one."""
        return self._heap[0] >> _AT

    def pop(self, until: int, most: int) -> list[tuple[int, int, int]]:
        """(position, messages, bytes by the mean) of at most so many runs up to that time; they are out of it now."""
        heap = self._heap
        # The smallest int of the next millisecond: all that is due up to `until` is below it, whatever its id.
        bound = until + 1 << _AT
        taken: list[tuple[int, int, int]] = []
        while heap and heap[0] < bound and len(taken) < most:
            entry = heappop(heap)
            count = entry & _ALL_32
            # The last one takes all that is left (count is self.count then), so that an empty agenda has no bytes.
            nbytes = self.nbytes * count // self.count
            self.count -= count
            self.nbytes -= nbytes
            taken.append((entry >> _POSITION & _ALL_64, count, nbytes))
        return taken

    def positions(self) -> list[int]:
        """Of all of it, in the order of time. It is all looked at: for few."""
        return [entry >> _POSITION & _ALL_64 for entry in sorted(self._heap)]

    def cancel(self, ids: Container[int]) -> tuple[list[int], int]:
        """Takes out those of these messages that are runs of their own. Returns them, and their bytes by the mean. It
        is all looked at: for few."""
        # A run of several messages is left alone: taken apart it would need its ids, which only the log has.
        gone = [e >> _ID & _ALL_64 for e in self._heap if e & _ALL_32 == 1 and e >> _ID & _ALL_64 in ids]
        if not gone:
            return [], 0
        self._heap = [e for e in self._heap if not (e & _ALL_32 == 1 and e >> _ID & _ALL_64 in ids)]
        heapify(self._heap)
        nbytes = self.nbytes * len(gone) // self.count
        self.count -= len(gone)
        self.nbytes -= nbytes
        return sorted(gone), nbytes


def moment(run: Run) -> int:
    """When it comes out: when it is due, or when it expires."""
    return min(run.due, run.expires) if run.expires else run.due
