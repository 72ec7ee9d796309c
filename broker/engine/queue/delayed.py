"""What of a queue came back and is not ready again before a time.

Rule: the message that is ready first stands first. `runs`, `count` (messages) and `nbytes` say what all of it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from broker.core.message import Run


class Delayed:
    """Of one queue: a heap of (due, first id, run)."""

    __slots__ = ("_heap", "count", "nbytes", "runs")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Run]] = []
        self.count = self.nbytes = self.runs = 0

    def __iter__(self) -> Iterator[tuple[int, Run]]:
        """(when it is ready again, run) in no order."""
        return ((due, run) for due, _, run in self._heap)

    def first(self) -> int:
        """When the first of them is ready again; there is one."""
        return self._heap[0][0]

    def postpone(self, run: Run, due: int) -> None:
        """Ready again at `due`."""
        # The first id decides between equal times, so runs are never compared; two runs of one queue do not share an
        # id.
        heappush(self._heap, (due, run.ids[0], run))
        self.runs += 1
        self.nbytes += run.nbytes
        self.count += len(run.records)

    def ready(self, now: int) -> list[Run]:
        """Takes out what is ready again."""
        ready: list[Run] = []
        while self._heap and self._heap[0][0] <= now:
            ready.append(self.pop())
        return ready

    def pop(self) -> Run:
        """Takes out what is ready again first."""
        run = heappop(self._heap)[2]
        self.runs -= 1
        self.nbytes -= run.nbytes
        self.count -= len(run.records)
        return run

    def keep(self, left: list[tuple[int, Run]]) -> None:
        """These are what is left when some were withdrawn."""
        # A heap from a list is linear, and withdrawing happens only when a consumer attaches again.
        self._heap = [(due, run.ids[0], run) for due, run in left]
        heapify(self._heap)
        self.runs = len(left)
        self.nbytes = sum([run.nbytes for _, run in left])
        self.count = sum([len(run.records) for _, run in left])
