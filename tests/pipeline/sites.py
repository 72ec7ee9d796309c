"""What `make pipeline-torture` does harm to, besides Spark: a broker of its own, or a cluster.

Rule: a harm has been done and everybody is back when harm() returns; data stays in the folder, over runs.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from tests.harness import Broker, free_ports, listens, until
from tests.harness.cluster import Cluster, Process
from tests.harness.servers import running

LIMIT_S = 600.0


class Site(Protocol):
    """harms   what can be done to it.    source   options of format("stampede")."""

    harms: tuple[str, ...]
    source: dict[str, str]

    def port(self) -> int:
        """Where to send to, now."""
        ...

    def harm(self, what: str) -> None: ...

    def close(self) -> None: ...


class Alone:
    """A standalone broker."""

    harms = ("broker",)

    def __init__(self, folder: Path) -> None:
        (reads,) = free_ports(1)
        # Small segments: tasks, and records at the ends of files.
        self.broker = Broker(folder, {"log_reads.port": reads, "journal.segment_bytes": 256 * 1024})
        self._reads = reads
        self.broker.start()
        self.source = {"broker": f"127.0.0.1:{reads}", "addresses": "torture.*"}
        until(lambda: listens(reads), "the read API", LIMIT_S)

    def port(self) -> int:
        return self.broker.port

    def harm(self, what: str) -> None:
        self.broker.kill()
        self.broker.start()
        until(lambda: listens(self._reads), "the broker to be back", LIMIT_S)

    def close(self) -> None:
        self.broker.stop()


class InCluster:
    """etcd, three owners, two edges. "owner", "edge": SIGKILL to one of them. "drain": an owner gives all its slots to
    others and gets some back. "rolling": one owner after the other ends and begins."""

    harms = ("owner", "edge", "drain", "rolling")

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            etcd = self._stack.enter_context(running("etcd", folder / "etcd", ours=True))
            settings = {
                "log_reads.host": "127.0.0.1", "journal.segment_bytes": 256 * 1024,
                # A replay of all rounds is run twice.
                "engine.address.id_cache_size": 500_000,
            }  # fmt: skip
            self.cluster = Cluster(folder, etcd.port, 3, 2, settings)
            self._reads = dict(zip((owner.id for owner in self.cluster.owners), free_ports(3), strict=True))
            for owner in self.cluster.owners:
                owner.settings["log_reads.port"] = self._reads[owner.id]
            self._stack.enter_context(self.cluster)
        except BaseException:
            self._stack.close()
            raise
        brokers = ",".join(f"127.0.0.1:{port}" for port in self._reads.values())
        self.source = {"broker": brokers, "addresses": "torture.*", "patience": "300"}
        self._turns = itertools.count()

    def port(self) -> int:
        """Of one edge after the other."""
        return self.cluster.edges[next(self._turns) % len(self.cluster.edges)].port

    def harm(self, what: str) -> None:
        turn = next(self._turns)
        owner = self.cluster.owners[turn % len(self.cluster.owners)]
        if what == "drain":
            self.cluster.cluster("drain", owner.id)
            self.cluster.wait(
                lambda: owner.id not in self.cluster.leaders(), 180, lambda: f"not drained: {self.cluster.leaders()}"
            )
            self.cluster.cluster("undrain", owner.id)
            self.cluster.wait_balanced(180)
        elif what == "rolling":
            for each in self.cluster.owners:
                each.stop()
                self._begin(each)
                self.cluster.wait_balanced(180)
        else:
            one = owner if what == "owner" else self.cluster.edges[turn % len(self.cluster.edges)]
            one.kill()
            self._begin(one)

    def _begin(self, process: Process) -> None:
        process.start()
        process.wait_ready()
        if (port := self._reads.get(process.id)) is not None:
            until(lambda: listens(port), f"the read API of {process.id}", LIMIT_S)

    def close(self) -> None:
        self._stack.close()
