"""What the conformance tests talk to: a standalone broker, or a cluster of three owners and two edges.

Rule: a test sees no difference. In the cluster every connection goes to the other edge than the one before it, so that
two clients of one test meet at the owners only; sync() of a client makes its round trips through every owner.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import Broker
from tests.harness.cluster import Cluster, Process
from tests.harness.servers import running
from tests.harness.stomp import Client

SLOTS = 256
SYNC = "harness.sync"
LIMITS = {
    "engine.addresses.block.#.full_policy": "BLOCK",
    "engine.addresses.block.#.max_size_messages": 4,
    "engine.addresses.block.#.reject_threshold_bytes": 20_000_000,
    "engine.addresses.fail.#.full_policy": "FAIL",
    "engine.addresses.fail.#.max_size_messages": 4,
    "engine.addresses.drop.#.full_policy": "DROP",
    "engine.addresses.drop.#.max_size_messages": 4,
    "engine.addresses.slow.#.slow_consumer_threshold": 1,
    "engine.addresses.slow.#.slow_consumer_policy": "KILL",
    "engine.addresses.slow.#.slow_consumer_check_period_s": 1,
    "edge.park_bytes": 100_000,
}
SETTINGS = {
    # What the brokers of test_split, test_limits and test_deep_queues are told; the other tests do not mind.
    "engine.addresses.split.#.partitions": 3,
    **LIMITS,
    "engine.queue_memory_bytes": 65_536,
    "engine.page_bytes": 16_384,
    "journal.segment_bytes": 1 << 20,
    "wire.large_body_bytes": 20_000,
    # These tests are not about fail-over: a busy machine must not cause one.
    "cluster.lease_s": 20,
    "cluster.dead_after_ms": 10_000,
}


class ClusterTarget:
    """As much of tests.harness.Broker as the tests use."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._turns = itertools.cycle(cluster.edges)
        self._web_turns = itertools.cycle(cluster.edges)
        leads: dict[str, str] = {}
        records = cluster.records()
        for name in (f"{SYNC}.{number}" for number in range(1000)):
            leads.setdefault(records[zlib.crc32(name.encode()) % SLOTS]["leader"], f"/queue/{name}")
        assert len(leads) == len(cluster.owners), leads
        self.sync_queues = tuple(leads.values())

    @property
    def port(self) -> int:
        return next(self._turns).port

    @property
    def ws_port(self) -> int:
        return next(self._web_turns).ws_port

    @property
    def alive(self) -> bool:
        return all(process.running for process in self.cluster.processes)

    def log(self) -> str:
        return "".join(process.log() for process in self.cluster.processes)

    def rss(self) -> int:
        """Bytes of the edges together."""
        return sum(resident(edge) for edge in self.cluster.edges)


def resident(process: Process) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@contextmanager
def cluster_target(folder: Path) -> Iterator[ClusterTarget]:
    """Three owners, two edges and an etcd of their own. While it lasts, sync() of clients reaches every owner."""
    with running("etcd", folder / "etcd", ours=True) as etcd, Cluster(folder, etcd.port, settings=SETTINGS) as cluster:
        cluster.wait(lambda: not cluster.status()["left_to_move"], 60, lambda: f"not at rest: {cluster.status()}")
        target = ClusterTarget(cluster)
        yield target
        assert "Traceback" not in target.log()


Target = Broker | ClusterTarget


def meet(client: Client, target: Target) -> Client:
    """Tells a client where its round trips must go."""
    if isinstance(target, ClusterTarget):
        client.sync_queues = target.sync_queues
    return client
