"""Histories of edges that cannot reach an owner which is well otherwise, and of pairs that cannot reach each other.

All edges away from exactly one owner (other owners and the store reach it), or one pair cut both ways: two owners, or
an edge and an owner; with streams of edges that are reset meanwhile. `python -m tests.sim.cluster_reach SEED`.
"""

from __future__ import annotations

import sys

from tests.sim.cluster_cuts import CutHistory
from tests.sim.cluster_full import main

SECONDS = (0.3, 1.5, 4.0, 12.0)
"""Also so long that leaders go where edges reach them."""


class ReachHistory(CutHistory):
    """Other faults come along in a third of them."""

    KINDS = ("edges", "edges", "pair", "pair", "reset")

    def _cut(self, one: list[str], others: list[str]) -> None:
        seconds = self.random.choice(SECONDS) * self.random.uniform(0.5, 1.5)
        self.trouble_until = max(self.trouble_until, self.loop.now + seconds + 0.1)
        self.world.isolate(one, others, seconds)

    def harm_edges(self) -> None:
        """No edge reaches one of the owners."""
        if host := self._victim():
            self._cut([host.name], [edge.name for edge in self.world.of("edge")])

    def harm_pair(self) -> None:
        """An owner and another process, both ways."""
        if host := self._victim():
            others = [other.name for other in self.world.hosts.values() if other is not host]
            self._cut([host.name], [self.random.choice(others)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], ReachHistory))
