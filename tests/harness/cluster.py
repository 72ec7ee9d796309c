"""A cluster of real processes on loopback: etcd, owners, edges, and proxies in between to cut them apart.

Rule: only what an operator could do (flags, signals, files, etcd); imports nothing of the product.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.local.parts import HOST, answers, stampede

from . import steps
from .broker import free_ports
from .proxy import Proxy

PREFIX = "/stampede/test"
ASKED_S = 120.0
"""For etcdctl, which gives itself 25: on a machine that is starved it begins late."""
SMALL = {"journal.segment_bytes": 8 << 20}
"""Zero-filled ahead, three to an owner: writing 64 MiB ones makes whatever else the machine does wait for its disk. And
segments that are full, spare and freed are a part of every longer test."""


class Process:
    """`stampede KIND` with its own data folder and log, over restarts."""

    def __init__(self, cluster: Cluster, kind: str, id: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.id = id
        self.folder = cluster.folder / id
        self.folder.mkdir(parents=True, exist_ok=True)
        self.data = self.folder / "data"
        self.log_file = self.folder / "log"
        members = cluster.members
        self.port, self.ws_port, self.admin_port, self.component_port, advertised, *etcd = free_ports(5 + len(members))
        ways = zip((advertised, *etcd), (self.component_port, *members), strict=True) if cluster.proxied else ()
        self.proxies = [Proxy(here, there).start() for here, there in ways]
        """The first one to it, the others from it to each member of etcd."""
        self.settings: dict[str, object] = {}
        """Of this process alone: they win over the cluster's."""
        self.environment: dict[str, str] = {}
        """Besides ours."""
        self.code: Path | None = None
        """The folder with another release's `broker`; None: the present one."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def inbound(self) -> Proxy:
        return self.proxies[0]

    @property
    def to_etcds(self) -> list[Proxy]:
        return self.proxies[1:]

    @property
    def to_etcd(self) -> Proxy:
        """Of the only member as a rule."""
        return self.proxies[1]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        at, *etcds = [proxy.port for proxy in self.proxies] or [self.component_port, *self.cluster.members]
        endpoints = ",".join(f"{HOST}:{port}" for port in etcds)
        advertised = {"cluster.advertise": f"{HOST}:{at}", "etcd.endpoints": endpoints}
        line = stampede(
            self.kind, self.id, self.data, self.component_port, self.admin_port, etcds[0], PREFIX,
            {**advertised, **self.cluster.settings, **self.settings},
            (self.port, self.ws_port) if self.kind == "edge" else None,
        )  # fmt: skip
        with self.log_file.open("ab") as out:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.code,
                env={**os.environ, **self.environment},
            )  # fmt: skip

    def wait_ready(self, seconds: float = 180.0) -> None:
        def ready() -> bool:
            assert self.running, self.log()[-3000:]  # nobody would start it again
            return self.ready()

        self.cluster.wait(ready, seconds, lambda: f"{self.id} is not ready:\n{self.log()[-3000:]}")

    def ready(self) -> bool:
        """It runs and says that it is ready. One that has ended is not: whoever waits may start it again."""
        return self.running and answers(self.admin_port)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{HOST}:{self.admin_port}/metrics", timeout=30) as answer:
            return str(answer.read().decode())

    def readiness(self) -> str:
        """What /readyz says."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.admin_port}/readyz", timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return str(error.read().decode())

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, also when it is stopped."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        steps.look(self.log_file)

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM; its exit status."""
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait(seconds)
        steps.look(self.log_file)
        return status

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def wipe(self) -> None:
        """Its disk is gone (the process must not run)."""
        assert not self.running
        shutil.rmtree(self.data)

    def isolate(self, blackhole: bool = False) -> None:
        """Nobody reaches it and it reaches nobody, etcd included."""
        for other in self.cluster.processes:
            if other is not self:
                (other.inbound.blackhole if blackhole else other.inbound.cut)(self.pid)
        for proxy in self.proxies:
            (proxy.blackhole if blackhole else proxy.cut)()

    def close(self) -> None:
        """Its process must have ended, and those of its peers."""
        for proxy in self.proxies:
            proxy.stop()


class Cluster:
    """`etcd_port`: of a running etcd; `more_etcd`: of its other members. `settings`: dotted name → value, for all
    processes. `proxied`: its parts reach each other through proxies of this process, which can cut them apart; False:
    directly, for what is measured."""

    def __init__(
        self, folder: Path, etcd_port: int, owners: int = 3, edges: int = 2, settings: Mapping[str, Any] | None = None,
        more_etcd: Sequence[int] = (), proxied: bool = True,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.proxied = proxied
        self.etcd_port = etcd_port
        self.members = [etcd_port, *more_etcd]
        # A machine that is busy with other tests must not look like dead owners.
        self.settings = {"cluster.dead_after_ms": 2000, "cluster.lease_s": 10, **SMALL, **(settings or {})}
        self.endpoints = ",".join(f"{HOST}:{port}" for port in self.members)
        # Its own limit is 5 s, which a starved machine may take: what waits for a condition would fail for it.
        self.etcdctl = ["etcdctl", f"--endpoints={self.endpoints}", "--command-timeout=25s"]
        """To be extended where etcd asks for more."""
        self.owners = [Process(self, "owner", f"owner-{n}") for n in range(owners)]
        self.edges = [Process(self, "edge", f"edge-{n}") for n in range(edges)]

    @property
    def processes(self) -> list[Process]:
        return self.owners + self.edges

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        for process in self.processes:
            process.start()
        for process in self.processes:
            process.wait_ready()
        self.wait_balanced(180)
        self.wait(lambda: len(self.leaders()) == len(self.owners), 180, lambda: f"no slots moved: {self.leaders()}")

    def close(self) -> None:
        for process in self.processes:
            if process.running:
                process.kill()
        for process in self.processes:
            process.close()

    def add_owner(self) -> Process:
        owner = Process(self, "owner", f"owner-{len(self.owners)}")
        self.owners.append(owner)
        owner.start()
        owner.wait_ready()
        return owner

    def remove_owner(self, owner: Process, seconds: float = 180.0) -> None:
        """Drained, stopped, gone with its disk; its name is free."""
        self.cluster("drain", owner.id)

        def empty() -> bool:
            return not any(owner.id in record["replicas"] for record in self.records().values())

        self.wait(empty, seconds, lambda: f"{owner.id} is not drained: {self.leaders()}")
        owner.stop()
        self.cluster("undrain", owner.id)
        self.owners.remove(owner)
        owner.close()
        shutil.rmtree(owner.folder)

    def heal(self) -> None:
        for process in self.processes:
            for proxy in process.proxies:
                proxy.heal()

    def status(self) -> dict[str, Any]:
        """`stampede cluster status --json`, also while a slot has no leader: who waits for something asks again."""
        answer: dict[str, Any] = json.loads(self.cluster("status", "--json", status=None))
        return answer

    def cluster(self, *arguments: str, stdin: str = "", status: int | None = 0) -> str:
        """`stampede cluster …`, which must end with this status (None: with 0 or 1); its output."""
        line = [sys.executable, "-m", "broker.app.cli", "cluster", *arguments]
        line += ["--set", f"etcd.endpoints={self.endpoints}", "--set", f"etcd.prefix={PREFIX}"]
        for name, value in self.settings.items():
            line += ["--set", f"{name}={value}"] if name.startswith("etcd.") else []
        done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode in ((0, 1) if status is None else (status,)), done.stderr
        return done.stdout

    def records(self) -> dict[int, dict[str, Any]]:
        """The slot records as they stand in etcd."""
        found = {}
        for pair in json.loads(self._ask("get", "--prefix", f"{PREFIX}/slots/", "-w", "json")).get("kvs", []):
            slot = int(base64.b64decode(pair["key"]).rpartition(b"/")[2])
            found[slot] = json.loads(base64.b64decode(pair["value"]))
        return found

    def revisions(self) -> dict[int, int]:
        """Slot → when its record was changed last, in etcd's count."""
        found = json.loads(self._ask("get", "--prefix", f"{PREFIX}/slots/", "-w", "json")).get("kvs", [])
        return {int(base64.b64decode(pair["key"]).rpartition(b"/")[2]): int(pair["mod_revision"]) for pair in found}

    def revoke(self, owner: str) -> None:
        """Takes that owner's lease away, as its peers would."""
        found = self._ask("get", f"{PREFIX}/owners/{owner}", "--print-value-only")
        self._ask("lease", "revoke", f"{json.loads(found)['lease']:x}")

    def _ask(self, *arguments: str) -> str:
        env = {**os.environ, "ETCDCTL_API": "3"}
        done = subprocess.run([*self.etcdctl, *arguments], capture_output=True, text=True, timeout=ASKED_S, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leaders(self) -> dict[str, int]:
        """Owner → number of slots it leads."""
        found: dict[str, int] = {}
        for record in self.records().values():
            found[record["leader"]] = found.get(record["leader"], 0) + 1
        return found

    def start_again(self) -> None:
        """Who was killed or stopped is started again, whatever became of the test."""
        for process in self.processes:
            if not process.running:
                process.start()
            process.wait_ready()

    def wait_balanced(self, seconds: float = 90.0) -> None:
        """Every slot has a live leader and as many replicas as it should, all of them in sync. (At first all slots are
        at the owner that registered first, by themselves.)"""
        alive = {owner.id for owner in self.owners if owner.running}
        replicas = min(int(self.settings.get("cluster.replicas", 3)), len(alive))

        def balanced() -> bool:
            records = self.records()
            return len(records) == 256 and all(
                record["leader"] in alive
                and len(record["replicas"]) >= replicas
                and set(record["isr"]) == set(record["replicas"])
                for record in records.values()
            )

        self.wait(balanced, seconds, lambda: f"not balanced: {self.leaders()}")

    @staticmethod
    def wait(condition: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, why()
            time.sleep(0.05)
