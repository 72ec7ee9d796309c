"""Histories of clusters whose machines are off by more than the others': wall clocks of edges that are hours away from
the truth and step, and owners that stand still for up to two minutes.

`python -m tests.sim.cluster_clocks SEED`.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack

from tests.sim.cluster_checkers import SKEW_MS
from tests.sim.cluster_clients import Clients
from tests.sim.cluster_full import ClusterHistory, main
from tests.sim.cluster_world import BEGIN_MS, Host

HOUR_MS = 3_600_000
SKEWS_MS = (0, -HOUR_MS, HOUR_MS, -9 * HOUR_MS, 9 * HOUR_MS, 26 * HOUR_MS)
STEPS_MS = (-500, 2_000, -60_000, 300_000, -HOUR_MS, HOUR_MS, -5 * HOUR_MS, 30 * HOUR_MS)
SECONDS = (3.0, 8.0, 20.0, 60.0, 120.0)
KINDS = ("step", "step", "still")


class ClockHistory(ClusterHistory):
    """Other faults come along in a half of them."""

    def build(self, stack: ExitStack) -> None:
        super().build(stack)
        for host in self.world.of("edge"):
            host.skew_ms = self.random.choice(SKEWS_MS)
            self.world.note(f"{host}: its clock is off by {host.skew_ms} ms")
        faults = self.habits.faults if self.random.random() < 0.5 else []
        self.model.skew_ms = 2 * SKEW_MS  # of the owner that began the delay, and of the one that ends it
        self.habits.faults = sorted([*KINDS, *faults[:2]])
        self.habits.seconds = seconds = self.random.choice((2.5, 2.5, 4.0, 8.0, 40.0, 130.0))
        if seconds > 10:  # as much work as in short ones, so that it goes on when who stood still is back
            self.habits.pace, self.habits.pause = seconds / 200, seconds / 15

    def attach(self, host: Host, port: object) -> Clients:
        """What they send later is due after a delay, of which the edge knows when it begins by its own clock."""
        clients = super().attach(host, port)
        clients.wall_ms = lambda: BEGIN_MS + host.skew_ms + int(self.loop.now * 1000)
        return clients

    def harm_step(self) -> None:
        """The wall clock of an edge is set, to what is right or to what is wrong."""
        host = self.random.choice(self.world.of("edge"))
        step = self.random.choice((*STEPS_MS, -host.skew_ms))
        host.skew_ms += step
        self.world.note(f"{host}: its clock steps by {step} ms")

    def harm_still(self) -> None:
        """One owner stands still, for so long that everybody has given it up; others may be harmed when it is back."""
        if host := self._victim():
            seconds = self.random.choice(SECONDS) * self.random.uniform(0.5, 1.0)
            self.trouble_until = max(self.trouble_until, self.loop.now + seconds + 0.1)
            host.freeze()
            self.world.after(seconds, host.thaw)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], ClockHistory))
