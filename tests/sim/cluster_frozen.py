"""Histories of edges that are away for so long that owners give them up, and come back: frozen for seconds up to
minutes, or cut off. Meanwhile others get what their clients hold, work on it, and go.

`python -m tests.sim.cluster_frozen SEED`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

from tests.sim.cluster_full import ClusterHistory, main
from tests.sim.cluster_processes import EdgeLife
from tests.sim.cluster_world import STORE

SECONDS = (1.5, 1.5, 3.0, 3.0, 6.0, 6.0, 20.0, 90.0)
AWAY = 3
"""Edges are away so much more often than anything else happens."""


class FrozenHistory(ClusterHistory):
    """Other faults come along in a half of them."""

    def build(self, stack: ExitStack) -> None:
        super().build(stack)
        if len(self.world.of("edge")) == 1:
            self.world.host("edge-1", "edge", partial(EdgeLife, self.named("edge-1"), self.attach))
        faults = self.habits.faults if self.random.random() < 0.5 else []
        self.habits.faults = sorted([*("away",) * AWAY, *faults[:2]])
        self.habits.seconds = self.random.choice((4.0, 8.0))

    def harm_away(self) -> None:
        """One edge stands still, or reaches nobody, or not the store; somebody stays."""
        able = [host for host in self.world.of("edge") if host.running and host.name not in self.away]
        if len(able) < 2:
            return
        host = self.random.choice(able)
        seconds = self.random.choice(SECONDS) * self.random.uniform(0.7, 1.3)
        self.trouble_until = max(self.trouble_until, self.loop.now + seconds + 0.1)
        self.away.add(host.name)
        self.world.after(seconds, self.away.discard, host.name)
        how = self.random.random()
        if how < 0.6:
            host.freeze()
            self.world.after(seconds, host.thaw)
        elif how < 0.8:
            others = [name for name in (*self.world.hosts, STORE) if name != host.name]
            self.world.isolate([host.name], others, seconds)
        else:
            self.world.isolate([host.name], [STORE], seconds)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.away: set[str] = set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], FrozenHistory))
