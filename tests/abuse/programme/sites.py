"""What is abused: one broker, or a cluster of etcd, three owners and two edges.

Rule: a place starts fresh, says where to connect, and is asked in the end what its loops have done. The polite client
and its neighbour are at the same edge: nowhere else are they closer to each other.
"""

from __future__ import annotations

import math
import os
import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import Broker
from tests.harness.cluster import Cluster
from tests.harness.servers import local_etcd

QUIET_S = 0.005
"""So long a step of a loop is to last at most (docs/adr/0009-work-is-bounded.md)."""
_STEP = re.compile(r"stomp_step_(?:seconds_bucket|longest_seconds)\{(.*?)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Kind:
    """Steps of one kind in one process. counts: bound in seconds → how many were no longer. longest: seconds."""

    counts: dict[float, float] = field(default_factory=dict)
    longest: float = 0.0

    @property
    def count(self) -> float:
        return self.counts.get(math.inf, 0)

    @property
    def long_ones(self) -> float:
        """More than QUIET_S."""
        return self.count - self.counts.get(QUIET_S, 0)

    def since(self, before: Kind) -> Kind:
        """What came after that. Where the longest was before, this one's is the bound of its bucket."""
        counts = {bound: value - before.counts.get(bound, 0) for bound, value in self.counts.items()}
        most = min((bound for bound, value in counts.items() if value == counts[math.inf]), default=0.0)
        grown = self.longest > before.longest
        return Kind(counts, self.longest if grown else min(most, self.longest) if any(counts.values()) else 0.0)


@dataclass
class Stepped:
    """Steps of all loops of a place, by process and kind."""

    kinds: dict[tuple[str, str], Kind] = field(default_factory=dict)

    def add(self, process: str, metrics: str) -> None:
        """What /metrics of a process says."""
        for labels, value in _STEP.findall(metrics):
            named = dict(_LABEL.findall(labels))
            kind = self.kinds.setdefault((process, named["step"]), Kind())
            if "le" in named:
                kind.counts[float(named["le"])] = float(value)
            else:
                kind.longest = float(value)

    def since(self, before: Stepped) -> Stepped:
        """Those after that one was asked."""
        none = Kind()
        return Stepped({key: kind.since(before.kinds.get(key, none)) for key, kind in self.kinds.items()})

    @property
    def long_ones(self) -> float:
        """Of a thousand steps, how many were longer than QUIET_S."""
        count = sum(kind.count for kind in self.kinds.values())
        return 1000 * sum(kind.long_ones for kind in self.kinds.values()) / count if count else 0.0

    @property
    def longest(self) -> tuple[float, str]:
        """Seconds, and whose: `owner-1 turn`."""
        return max(((kind.longest, " ".join(key)) for key, kind in self.kinds.items()), default=(0.0, ""))

    def told(self, least: float = 0.02) -> str:
        """Whose steps were long: by process and kind, how many of how many, and the longest. least: that part of all
        long ones; the longest of all is told whatever its share."""
        every = sum(kind.long_ones for kind in self.kinds.values())
        _, worst = self.longest
        chosen = [
            (kind, " ".join(key)) for key, kind in self.kinds.items()
            if kind.long_ones and (kind.long_ones >= least * every or " ".join(key) == worst)
        ]  # fmt: skip
        chosen.sort(key=lambda each: -each[0].long_ones)
        return "; ".join(
            f"{name} {kind.long_ones:.0f} of {kind.count:.0f}, longest {1000 * kind.longest:.0f}"
            for kind, name in chosen
        )


@dataclass(frozen=True)
class Loop:
    """One of its processes: where it is asked, and who it is for the system."""

    name: str
    admin: int
    pid: int

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=60) as page:
            return str(page.read().decode())

    def computed(self) -> float:
        """Seconds of processors, since it started."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Place:
    """Where clients connect. edge: the admin port of who serves the clients."""

    port: int
    ws_port: int
    edge: int
    loops: list[Loop]

    def steps(self) -> Stepped:
        """Of all its loops, since they started."""
        found = Stepped()
        for loop in self.loops:
            found.add(loop.name, loop.metrics())
        return found

    def computed(self) -> dict[str, float]:
        """Seconds of processors that each of them has used."""
        return {loop.name: loop.computed() for loop in self.loops}

    def peak(self) -> int:
        """Most memory that one of its processes had, in bytes."""
        texts = [Path(f"/proc/{loop.pid}/status").read_text() for loop in self.loops]
        peaks = [re.search(r"VmHWM:\s+(\d+) kB", text) for text in texts]
        return max(int(peak[1]) * 1024 for peak in peaks if peak)


@contextmanager
def alone(folder: Path, settings: Mapping[str, object]) -> Iterator[Place]:
    """One broker."""
    with Broker(folder, settings) as broker:
        broker.metrics()  # the admin port is up
        yield Place(
            broker.port, broker.ws_port, broker.admin_port, [Loop("broker", broker.admin_port, broker.pid)]
        )  # fmt: skip
        broker.kill()


@contextmanager
def in_cluster(folder: Path, settings: Mapping[str, object]) -> Iterator[Place]:
    """As `make cluster` starts one. Raises AssertionError in the end when an owner was declared dead."""
    with ExitStack() as stack:
        etcd = local_etcd(folder / "etcd", 1)[0]
        etcd.start()
        stack.callback(etcd.stop)
        # Not proxied: the proxies would run in the process of the polite client, whose waits are measured, and all that
        # edges and owners say to each other would pass its interpreter.
        cluster = stack.enter_context(Cluster(folder, etcd.port, settings=dict(settings), proxied=False))
        edge = cluster.edges[0]
        epochs = {slot: record["epoch"] for slot, record in cluster.records().items()}
        loops = [Loop(each.id, each.admin_port, each.pid) for each in cluster.processes]
        yield Place(edge.port, edge.ws_port, edge.admin_port, loops)
        moved = [slot for slot, record in cluster.records().items() if record["epoch"] != epochs[slot]]
        assert not moved, f"slots {moved} have changed their leader: an owner was taken for dead"
