"""Edges that a new leader waits for, before it takes or hands out anything: what their clients hold and consume.

Rule: until every live edge has told everything about the slot, or GATHER_S are over, whichever comes first; each slot
for itself. Must not know why a slot is led here.
"""

# Example. Slot 9 is led here from now on; the live edges are e1 and e2.
#     begin      the slot is served: e1 and e2 attach the consumers that held something of it. Nobody else gets in
#     _look      e1 has told everything; e2 has not: it is waited for
#     _all       looks every LOOK_S: e2 may have died meanwhile, or 0.2 s are over. Then the slot is `gathered`
# What a slow edge's clients hold would be given to others, as redelivered; that is the price of not waiting for ever.

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from .lifecycle_ports import EdgeServer

GATHER_S = 0.2
"""A new leader takes and hands out nothing before every live edge has said what its clients hold and consume, but waits
no longer than this: what a slow edge's clients hold would be given to others, as redelivered, and its subscribers
without a durable name miss what comes before they do."""
LOOK_S = 0.01


class EdgeGathering:
    """until   slot → monotonic time until which edges are waited for."""

    __slots__ = ("_edges", "_gathered", "_later", "_looking", "_now", "_serving", "until")

    def __init__(
        self,
        serving: EdgeServer,
        edges: Callable[[], Collection[str]],
        gathered: Callable[[int], None],
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Any],
    ) -> None:
        """edges: ids of those that live. gathered(slot): everybody is there who will be waited for."""
        self._serving = serving
        self._edges = edges
        self._gathered = gathered
        self._now = now
        self._later = later
        self._looking = False
        self.until: dict[int, float] = {}

    def begin(self, slot: int, epoch: int) -> None:
        """Nobody is let in but consumers that attach again, before the edges are there."""
        self.until[slot] = self._now() + GATHER_S
        # From here on edges get answers: they attach, and what they replay waits (attach_barrier).
        self._serving.serve(slot, epoch, partial(self._look, slot))
        self._look_later()

    def forget(self, slot: int) -> None:
        """Nobody is waited for any more: the slot stands still, or is led elsewhere."""
        self.until.pop(slot, None)

    def _look(self, slot: int) -> None:
        """Another edge is there."""
        if slot in self.until and set(self._edges()) <= self._serving.attached(slot):
            self._end(slot)

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._later(LOOK_S, self._all)

    def _all(self) -> None:
        """Edges may have gone, or been waited for long enough."""
        self._looking = False
        now, edges = self._now(), set(self._edges())
        for slot, until in list(self.until.items()):
            if until <= now or edges <= self._serving.attached(slot):
                self._end(slot)
        if self.until:
            self._look_later()

    def _end(self, slot: int) -> None:
        del self.until[slot]
        self._gathered(slot)
