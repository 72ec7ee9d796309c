"""Histories of cuts that a random partition hardly ever draws: along the lines between the kinds of processes.

One owner away from exactly the other owners (its edges and the store reach it), with streams of edges that are reset
meanwhile: what it has taken is not replicated, and its edges ask it again. `python -m tests.sim.cluster_cuts SEED`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from tests.sim.cluster_full import ClusterHistory, main


class CutHistory(ClusterHistory):
    """Other faults come along in a third of them."""

    KINDS: tuple[str, ...] = ("owners", "owners", "reset", "reset")

    def build(self, stack: ExitStack) -> None:
        super().build(stack)
        faults = self.habits.faults if self.random.random() < 1 / 3 else []
        self.habits.faults = sorted([*self.KINDS, *faults[:1]])

    def harm_owners(self) -> None:
        """One owner is away from exactly the others."""
        if host := self._victim():
            others = [other.name for other in self.world.of("owner") if other is not host]
            self.world.isolate([host.name], others, self._duration())

    def harm_reset(self) -> None:
        """Some streams between edges and owners are reset."""
        edges = {host.name for host in self.world.of("edge")}
        for stream in self.world.network.streams():
            if stream.place.name in edges and self.random.random() < 0.5:
                self.world.network.cut(stream)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], CutHistory))
