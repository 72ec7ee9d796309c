"""What is abused: one broker, or a cluster of etcd, three owners and two edges.

Rule: a place starts fresh, says where to connect, and is asked in the end what its loops have done. The polite client
and its neighbour are at the same edge: nowhere else are they closer to each other.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness import Broker
from tests.harness.cluster import Cluster
from tests.harness.servers import local_etcd

QUIET_S = 0.005
"""So long a step of a loop is to last at most (docs/adr/0009-work-is-bounded.md)."""
_BUCKET = re.compile(r'stomp_step_seconds_bucket\{le="([^"]+)".*?\} (\S+)')
_LONGEST = re.compile(r"stomp_step_longest_seconds\{.*?\} (\S+)")


@dataclass
class Stepped:
    """Steps of all loops of a place: how many, how many of them within QUIET_S, and seconds of the longest."""

    count: float = 0
    quick: float = 0
    longest: float = 0.0

    def add(self, metrics: str) -> None:
        """What /metrics of a process says."""
        for bound, value in _BUCKET.findall(metrics):
            if bound == "+Inf":
                self.count += float(value)
            elif float(bound) == QUIET_S:
                self.quick += float(value)
        self.longest = max([self.longest, *map(float, _LONGEST.findall(metrics))])

    @property
    def long_ones(self) -> float:
        """Of a thousand steps, how many were longer than QUIET_S."""
        return 1000 * (self.count - self.quick) / self.count if self.count else 0.0


@dataclass
class Place:
    """Where clients connect. admins: the admin ports of all processes. pids: theirs. edge: the admin port of who
    serves the clients."""

    port: int
    ws_port: int
    edge: int
    admins: list[int]
    pids: list[int]

    def steps(self) -> Stepped:
        """Of all its loops, since they started."""
        found = Stepped()
        for admin in self.admins:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=60) as page:
                found.add(page.read().decode())
        return found

    def peak(self) -> int:
        """Most memory that one of its processes had, in bytes."""
        texts = [Path(f"/proc/{pid}/status").read_text() for pid in self.pids]
        peaks = [re.search(r"VmHWM:\s+(\d+) kB", text) for text in texts]
        return max(int(peak[1]) * 1024 for peak in peaks if peak)


@contextmanager
def alone(folder: Path, settings: Mapping[str, object]) -> Iterator[Place]:
    """One broker."""
    with Broker(folder, settings) as broker:
        broker.metrics()  # the admin port is up
        yield Place(broker.port, broker.ws_port, broker.admin_port, [broker.admin_port], [broker.pid])
        broker.kill()


@contextmanager
def in_cluster(folder: Path, settings: Mapping[str, object]) -> Iterator[Place]:
    """As `make cluster` starts one. Raises AssertionError in the end when an owner was declared dead."""
    with ExitStack() as stack:
        etcd = local_etcd(folder / "etcd", 1)[0]
        etcd.start()
        stack.callback(etcd.stop)
        cluster = stack.enter_context(Cluster(folder, etcd.port, settings=dict(settings)))
        edge = cluster.edges[0]
        epochs = {slot: record["epoch"] for slot, record in cluster.records().items()}
        yield Place(
            edge.port, edge.ws_port, edge.admin_port, [each.admin_port for each in cluster.processes],
            [each.pid for each in cluster.processes],
        )  # fmt: skip
        moved = [slot for slot, record in cluster.records().items() if record["epoch"] != epochs[slot]]
        assert not moved, f"slots {moved} have changed their leader: an owner was taken for dead"
