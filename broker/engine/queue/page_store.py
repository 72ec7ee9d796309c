"""What of a queue is paged out, and what is asked of the journal for it.

    index            positions in the journal, in the order of the queue
    paging           new runs go to the index
    count, nbytes    what lies there (an estimate after a restart)
    stale            nothing of it expires before that time; 0: nothing does
    fetching         positions asked of the journal; 0: for a browser; < 0: that many of `recalls`; None: no fetch under
                     way. 0 as well while what was put out of memory is on its way to the log
    recalls          position → messages of which only the number is known, to be read back before all else
    table            which restored messages are still paged; None: nobody will ask, or all are read back

Rule: one fetch at a time. While the index is not empty `paging` stays, so that order cannot break. Knows positions and
sizes, no messages.
"""

# Example. A queue may keep 1 MB. 3 MB of durable messages come, runs 1 … 300, and then a consumer.
#     1 … 100     are ready; the next does not fit: begin(), `paging`
#     101 … 300   become positions, also when the consumer has made room meanwhile: in memory they would overtake
#     fetch(50)   half of memory is free: the first 50 positions are asked for. No second fetch until they are here
#     drop(50)    they are ready; count and nbytes by what was read
#     the end     the index is empty: `paging` ends, unless runs that wait for the log are still to become positions
# Proof that order cannot break: a run enters memory directly only while `paging` is off; then the index is empty and
# no run on its way to it is left, so everything older is in memory or gone (I7).

from __future__ import annotations

from array import array
from collections.abc import Mapping

from broker.core.message import Run

from ..messages.page_index import PageIndex
from ..messages.unloaded import Restored, Stub
from .large_returns import LargeReturn

Recall = tuple[list[int], LargeReturn]
"""Ids to be read back, and what becomes of them."""


class PageStore:
    """Of one queue."""

    __slots__ = ("count", "fetching", "index", "nbytes", "paging", "recalls", "stale", "table")

    def __init__(self) -> None:
        self.index = PageIndex()
        self.paging = False
        self.count = self.nbytes = self.stale = 0
        self.fetching: int | None = None
        self.recalls: dict[int, list[Recall]] = {}
        self.table: Restored | None = None

    # ── out of memory ──────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """From now on what comes goes to the index."""
        self.paging = True

    def add(self, position: int, count: int, nbytes: int, expires: int) -> None:
        """So many messages are at that position.    expires   of which the first at that time; 0: they do not."""
        self.index.append(position)
        self._count(count, nbytes, expires)

    def prepend(self, positions: list[int], count: int, nbytes: int, expires: int) -> None:
        """The same, before everything that the index has."""
        self.index.prepend(positions)
        self._count(count, nbytes, expires)

    def _count(self, count: int, nbytes: int, expires: int) -> None:
        if expires and (not self.stale or expires < self.stale):
            self.stale = expires
        self.count += count
        self.nbytes += nbytes

    def arrange(self, order: list[int]) -> None:
        """What is in the index stands there in another order: the places it has now, in the new one."""
        positions = array("Q", self.index)
        self.index = PageIndex()
        for at in order:
            # Once, at the end of a restart, before any is read.
            self.index.append(positions[at])
        if self.table is not None:
            self.table.arrange(order)

    def on_its_way(self) -> None:
        """What was put out of memory is on its way to the log: nothing is read back meanwhile."""
        self.fetching = 0

    def arrived(self) -> None:
        """It is there."""
        self.fetching = None

    # ── back into memory ───────────────────────────────────────────────────────────────────────────

    def fetch(self, asked: int) -> None:
        """The journal has been asked."""
        self.fetching = asked

    def fetched(self) -> int | None:
        """The journal has answered. What it was asked; None: nothing."""
        asked, self.fetching = self.fetching, None
        return asked

    def drop(self, positions: int, count: int, nbytes: int, more: bool) -> None:
        """The first `positions` have been read back, or were found dead. more: others are on their way to the index."""
        self.index.drop(positions)
        if self.table is not None and self.table.has_read(positions):
            self.table = None
        # At least 1 each while something is there: after a restart they are estimates, and a sum of 0 would say
        # "empty".
        if len(self.index):
            self.count = max(self.count - count, 1)
            self.nbytes = max(self.nbytes - nbytes, 1)
        else:
            # Empty: now it is known exactly, and every estimate ends here.
            self.count = self.nbytes = self.stale = 0
            if not more:
                self.paging = False

    def recall(self, messages: Mapping[int, Run], of: LargeReturn) -> int:
        """The stubs among these are to be read back, for what becomes of them. How many."""
        wanted: dict[int, list[int]] = {}
        for i, run in messages.items():
            if type(run) is Stub and run.position:
                wanted.setdefault(run.position, []).append(i)
        for position, ids in wanted.items():
            # By position: one read brings all that was said of a run, however many ACKs and NACKs said it.
            self.recalls.setdefault(position, []).append((ids, of))
        count = sum(map(len, wanted.values()))
        of.opens(count)
        return count

    def inherit(self, gone: PageStore) -> int:
        """What is to be read back of a queue that is gone is for this one. How many."""
        self.recalls = gone.recalls
        return sum([len(ids) for asked in self.recalls.values() for ids, _ in asked])

    def recalls_only(self, position: int, asked: list[Recall]) -> None:
        """Of what is to be read back there only this."""
        if asked:
            self.recalls[position] = asked
        else:
            del self.recalls[position]

    # ── after a restart ────────────────────────────────────────────────────────────────────────────

    def restore(self) -> Restored:
        """Messages come back: which ids stand where is noted from now on."""
        self.paging = True
        if self.table is None:
            self.table = Restored()
        return self.table

    def withdrawn(self, count: int, nbytes: int) -> None:
        """So much of it is a consumer's again, though its place in the index stays."""
        self.count = max(self.count - count, 0)
        self.nbytes = max(self.nbytes - nbytes, 0)
