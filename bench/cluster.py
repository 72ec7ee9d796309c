"""Measures the cluster: a real etcd, owners and edges on this machine, one scenario after the other.

    .venv/bin/python bench/cluster.py                     everything
    .venv/bin/python bench/cluster.py --scenarios link,kill --runs 5
    .venv/bin/python bench/cluster.py --scenarios durable-100,jetstream-100 --runs 3      beside three nats-servers

Rule: each run is a fresh cluster in a fresh folder, scenarios take turns inside every repetition, and figures are
medians; what was lost, duplicated unmarked or disconnected is counted, never hidden.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats_server
from brokers import ROOT, free_port
from nats_cluster import NatsServers
from scenarios import generator

sys.path.insert(0, str(ROOT / "deploy" / "local"))
from parts import HOST, answers, etcd, stampede

PREFIX = "/stampede/bench"
Result = dict[str, Any]


PAUSE_S = 0.1
"""Between two looks at what is waited for: looking costs time of the processor."""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def wait(ready: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds:g} s")
        time.sleep(PAUSE_S)


class Skipped(Exception):
    """What is measured is not installed here; the text says how it could be."""


class Member:
    """One `stampede owner` or `stampede edge`."""

    def __init__(self, cluster: Cluster, kind: str, number: int) -> None:
        self.cluster, self.kind, self.id = cluster, kind, f"{kind}-{number}"
        self.port, self.admin, self.component = free_port(), free_port(), free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        cluster, ports = self.cluster, (self.port, -1) if self.kind == "edge" else None
        line = stampede(
            self.kind, self.id, cluster.folder / self.id, self.component, self.admin, cluster.etcd_port, PREFIX,
            cluster.settings, ports,
        )  # fmt: skip
        with (cluster.folder / f"{self.id}.log").open("ab") as log:
            self.process = subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log)

    def ready(self) -> bool:
        return answers(self.admin)


class Cluster:
    def __init__(self, folder: Path, owners: int, edges: int, **settings: object) -> None:
        self.folder = folder
        self.settings = {name.replace("__", "."): value for name, value in settings.items()}
        self.etcd_port = free_port()
        self.owners = [Member(self, "owner", n) for n in range(owners)]
        self.edges = [Member(self, "edge", n) for n in range(edges)]
        self.etcd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "etcd.log").open("ab") as log:
            line = etcd(self.folder / "etcd", self.etcd_port, free_port())
            self.etcd = subprocess.Popen(line, stdout=log, stderr=log)
        wait(lambda: answers(self.etcd_port, "/health"), "etcd")
        for member in self.owners + self.edges:
            member.start()
        self.settled()
        for member in self.edges:
            wait(member.ready, member.id)

    def stored(self, first: str, end: str = "") -> Result:
        """etcd's own JSON gateway: a process for each question would take the processor from what is measured."""
        asked = {"key": _base64(first), "range_end": _base64(end)}
        url = f"http://{HOST}:{self.etcd_port}/v3/kv/range"
        with urllib.request.urlopen(url, json.dumps(asked).encode(), timeout=10) as reply:
            return dict(json.load(reply))

    def records(self, slot: int | None = None) -> list[dict[str, Any]]:
        """Of one slot, or of all of them."""
        folder = f"{PREFIX}/slots/"
        found = self.stored(folder, f"{PREFIX}/slots0") if slot is None else self.stored(f"{folder}{slot}")
        return [json.loads(base64.b64decode(pair["value"])) for pair in found.get("kvs", [])]

    def settled(self, seconds: float = 90.0) -> float:
        """Waits until every slot is led by a live owner and wholly replicated; how long that took."""
        began = time.monotonic()

        def whole() -> bool:
            alive = {o.id for o in self.owners if o.process is not None and o.process.poll() is None}
            records = self.records()
            copies = min(int(self.settings.get("cluster.replicas", 3)), len(alive))
            return len(records) == 256 and all(
                len(r["replicas"]) == copies
                and r["leader"] in alive
                and set(r["replicas"]) <= alive
                and sorted(r["isr"]) == sorted(r["replicas"])
                for r in records
            )

        wait(whole, "all slots led and in sync", seconds)
        return time.monotonic() - began

    def pids(self) -> str:
        return ",".join(str(m.process.pid) for m in self.owners + self.edges if m.process is not None)

    def stop(self) -> None:
        for member in self.edges + self.owners:
            if member.process is not None and member.process.poll() is None:
                member.process.kill()
                member.process.wait()
        if self.etcd is not None:
            self.etcd.kill()
            self.etcd.wait()


def load(cluster: Cluster, *arguments: str, edge: int = 0) -> Result:
    """One run of the generator through an edge; its JSON line."""
    return generate("--port", str(cluster.edges[edge].port), "--pid", cluster.pids(), *arguments)


def generate(*arguments: str) -> Result:
    line = [str(generator()), *arguments]
    done = subprocess.run(line, capture_output=True, text=True)
    if not done.stdout.strip():
        raise RuntimeError(f"{' '.join(line)}: {done.stderr}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def figures(result: Result) -> Result:
    found: Result = {}
    for name in ("sent_per_s", "received_per_s", "broker_us_per_message", "other_cores"):
        if name in result:
            found[name] = result[name]
    for group in ("latency_us", "receipt_us"):
        if isinstance(result.get(group), dict) and result[group].get("p50"):
            for quantile in ("p50", "p99", "max"):
                found[f"{group}_{quantile}"] = result[group][quantile]
    for name in ("lost", "duplicated", "reordered", "errors", "closed_early"):
        found[name] = result.get(name, 0)
    if result.get("errors"):
        found["first_error"] = result.get("first_error")
    return found


SECONDS = 4.0


def certificates(folder: Path) -> dict[str, object]:
    """Settings of components that know each other by certificates of one authority."""
    files = {name: folder / name for name in ("ca.key", "ca.pem", "own.key", "own.csr", "own.pem", "names")}
    files["names"].write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=bench"]
    for line in (
        [*new, "-x509", "-days", "2", "-keyout", files["ca.key"], "-out", files["ca.pem"]],
        [*new, "-keyout", files["own.key"], "-out", files["own.csr"]],
        ["openssl", "x509", "-req", "-days", "2", "-in", files["own.csr"], "-CA", files["ca.pem"], "-CAkey",
         files["ca.key"], "-CAcreateserial", "-extfile", files["names"], "-out", files["own.pem"]],
    ):  # fmt: skip
        subprocess.run(line, check=True, capture_output=True)
    return {
        "cluster__ca_file": files["ca.pem"],
        "cluster__cert_file": files["own.pem"],
        "cluster__key_file": files["own.key"],
    }


def flow(*arguments: str, secure: bool = False) -> Callable[[Path], Result]:
    """One edge and one owner without replicas: what the link costs. `secure`: with mutual TLS."""

    def scenario(folder: Path) -> Result:
        more = certificates(folder) if secure else {}
        cluster = Cluster(folder, 1, 1, cluster__replicas=1, cluster__min_in_sync=1, **more)
        try:
            cluster.start()
            load(cluster, "--seconds", "1", "--max-lag", "2000", "--destination", "/queue/warm")
            return figures(load(cluster, "--seconds", str(SECONDS), "--verify", *arguments))
        finally:
            cluster.stop()

    return scenario


def receipts(window: int) -> list[str]:
    return ["--produce-only", "--header", "persistent:true", "--receipt-every", "1", "--window", str(window)]


def durable(window: int, secure: bool = False) -> Callable[[Path], Result]:
    """Three owners, three copies: a receipt for each message, after the disks of all in-sync replicas."""

    def scenario(folder: Path) -> Result:
        cluster = Cluster(folder, 3, 1, **(certificates(folder) if secure else {}))
        try:
            cluster.start()
            load(cluster, "--seconds", "1", "--destination", "/queue/warm", *receipts(window))
            return figures(load(cluster, "--seconds", str(SECONDS), *receipts(window)))
        finally:
            cluster.stop()

    return scenario


def jetstream(window: int, sync: str = "always") -> Callable[[Path], Result]:
    """What `durable` asks of ours, asked of three nats-servers, by the one that leads: a PubAck is the receipt."""

    def scenario(folder: Path) -> Result:
        if nats_server.binary() is None:
            raise Skipped(nats_server.TO_INSTALL)
        servers = NatsServers(folder, sync)
        try:
            servers.start()
            wait(servers.has_stream, "a stream with three copies")
            wait(lambda: servers.lead() is not None, "three copies of the stream")
            asked = ["--protocol", "jetstream", "--port", str(servers.lead()), "--pid", servers.pids()]
            asked += receipts(window)
            generate(*asked, "--seconds", "1", "--destination", "/queue/warm")
            return figures(generate(*asked, "--seconds", str(SECONDS)))
        finally:
            servers.stop()

    return scenario


PERSISTENT = ("--header", "persistent:true", "--receipt-every", "1", "--window", "2000", "--verify", "--rate", "2000",
              "--producers", "4", "--consumers", "4", "--destinations", "4", "--destination", "/queue/q%d",
              "--idle-timeout", "30")  # fmt: skip


def chaos(
    act: Callable[[Cluster], Result | None], seconds: float, owners: int = 3, **settings: object
) -> Callable[[Path], Result]:
    """2,000 persistent messages/s with receipts over four queues while something happens; the longest stall is the
    largest latency."""

    def scenario(folder: Path) -> Result:
        cluster = Cluster(folder, owners, 2, **settings)
        more: Result = {}
        errors: list[BaseException] = []

        def run() -> None:
            try:
                time.sleep(2)
                more.update(act(cluster) or {})
            except BaseException as error:
                errors.append(error)

        try:
            cluster.start()
            thread = threading.Thread(target=run)
            thread.start()
            result = load(cluster, "--seconds", str(seconds), *PERSISTENT)
            thread.join()
            if errors:
                raise errors[0]
            return figures(result) | more
        finally:
            cluster.stop()

    return scenario


def beside(*neighbour: str) -> Callable[[Path], Result]:
    """1,000 small messages/s through an edge and an owner that have something else to do as well."""

    def scenario(folder: Path) -> Result:
        cluster = Cluster(folder, 1, 1, cluster__replicas=1, cluster__min_in_sync=1)
        other = None
        try:
            cluster.start()
            load(cluster, "--seconds", "1", "--max-lag", "2000", "--destination", "/queue/warm")
            line = [str(generator()), "--port", str(cluster.edges[0].port), *neighbour]
            other = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            result = figures(load(cluster, "--seconds", str(SECONDS), "--verify", "--rate", "1000"))
            out, _ = other.communicate(timeout=60)
            told = json.loads(out.strip().splitlines()[-1])
            return result | {"neighbour_per_s": told["sent_per_s"], "neighbour_errors": told["errors"]}
        finally:
            if other is not None and other.poll() is None:
                other.kill()
                other.communicate()
            cluster.stop()

    return scenario


ADDRESSES, SUBSCRIPTIONS = 10_000, 20_000


async def fill(port: int) -> None:
    """Settings of many addresses, and names of many durable subscriptions."""
    from broker.cluster.keys import Keys
    from broker.config.settings import EtcdSettings
    from broker.metadata.etcd import EtcdMetadata
    from broker.metadata.port import Put

    store, keys = EtcdMetadata(EtcdSettings(endpoints=f"{HOST}:{port}")), Keys(PREFIX)
    puts = [Put(keys.address(f"address.{n}"), b'{"max_delivery_attempts":5}') for n in range(ADDRESSES)]
    puts += [Put(keys.subscription(f"c{n}.s"), b"address.%d" % (n % ADDRESSES)) for n in range(SUBSCRIPTIONS)]
    for at in range(0, len(puts), 100):
        await store.commit([], puts[at : at + 100])
    await store.close()


def revision(cluster: Cluster) -> int:
    return int(cluster.stored("x")["header"]["revision"])


def many(folder: Path) -> Result:
    """10,000 addresses and 20,000 durable subscriptions in the store: start of an edge, writes at rest."""
    cluster = Cluster(folder, 3, 1)
    try:
        cluster.start()
        asyncio.run(fill(cluster.etcd_port))
        time.sleep(3)
        before = revision(cluster)
        time.sleep(10)
        writes = (revision(cluster) - before) / 10
        edge = Member(cluster, "edge", 1)
        cluster.edges.append(edge)
        began = time.monotonic()
        edge.start()
        wait(lambda: speaks(edge.port), "the second edge")
        return {"etcd_writes_per_s": writes, "edge_start_s": round(time.monotonic() - began, 2)}
    finally:
        cluster.stop()


def processor(pid: int) -> float:
    """Seconds that all threads of the process have had."""
    folder = Path(f"/proc/{pid}/task")
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in folder.iterdir()) / 1e9


def idle(folder: Path) -> Result:
    """What three owners and an edge compute while no client is there."""
    cluster = Cluster(folder, 3, 1)
    try:
        cluster.start()
        time.sleep(4)
        pids = {m.id: m.process.pid for m in cluster.owners + cluster.edges if m.process is not None}
        before = {id: processor(pid) for id, pid in pids.items()}
        time.sleep(10)
        took = {f"{id}_ms_per_s": round((processor(pid) - before[id]) * 100, 1) for id, pid in pids.items()}
        return {"all_ms_per_s": round(sum(took.values()), 1), **took}
    finally:
        cluster.stop()


def speaks(port: int) -> bool:
    """Does a CONNECT get its CONNECTED."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            connection.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            return connection.recv(4096).lstrip().startswith(b"CONNECTED")
    except OSError:
        return False


def leader_of(cluster: Cluster, address: str) -> Member:
    import zlib

    slot = zlib.crc32(address.encode()) % 256
    (found,) = cluster.records(slot)
    return next(owner for owner in cluster.owners if owner.id == found["leader"])


def kill(cluster: Cluster) -> None:
    victim = leader_of(cluster, "q0")
    assert victim.process is not None
    victim.process.kill()


def freeze(cluster: Cluster) -> None:
    victim = leader_of(cluster, "q0")
    assert victim.process is not None
    victim.process.send_signal(signal.SIGSTOP)
    time.sleep(8)
    victim.process.send_signal(signal.SIGCONT)


def rolling(cluster: Cluster) -> Result:
    """Every owner once: SIGTERM, wait, start, wait until all is in sync."""
    worst = 0.0
    for owner in cluster.owners:
        assert owner.process is not None
        began = time.monotonic()
        owner.process.terminate()
        owner.process.wait(90)
        owner.start()
        cluster.settled()
        worst = max(worst, time.monotonic() - began)
    return {"slowest_restart_s": round(worst, 2)}


def scale(cluster: Cluster) -> Result:
    """3 → 5 → 3 owners."""
    began = time.monotonic()
    for number in (3, 4):
        cluster.owners.append(Member(cluster, "owner", number))
        cluster.owners[-1].start()
    wait(lambda: len({r["leader"] for r in cluster.records()}) == 5, "five leaders", 90)
    grown = cluster.settled()
    line = [sys.executable, "-m", "broker.app.cli", "cluster"]
    options = ["--set", f"etcd.endpoints={HOST}:{cluster.etcd_port}", "--set", f"etcd.prefix={PREFIX}"]
    up = time.monotonic() - began
    for owner in cluster.owners[3:]:
        subprocess.run([*line, "drain", owner.id, *options], check=True, capture_output=True)
    gone = {owner.id for owner in cluster.owners[3:]}
    wait(lambda: not any(gone & set(r["replicas"]) for r in cluster.records()), "drained owners empty", 120)
    for owner in cluster.owners[3:]:
        assert owner.process is not None
        owner.process.terminate()
        owner.process.wait(60)
    cluster.settled()
    return {
        "grown_after_s": round(up, 2),
        "settled_s": round(grown, 2),
        "back_after_s": round(time.monotonic() - began, 2),
    }


SCENARIOS: dict[str, tuple[str, Callable[[Path], Result]]] = {
    "link": ("1 edge + 1 owner, 1→1, 100 B", flow("--max-lag", "2000")),
    "open-1000": ("open loop 1,000/s", flow("--rate", "1000")),
    "open-5000": ("open loop 5,000/s", flow("--rate", "5000")),
    "open-20000": ("open loop 20,000/s", flow("--rate", "20000")),
    "topic": (
        "topic 1→10, one edge",
        flow("--topic", "--consumers", "10", "--destination", "/topic/t", "--max-lag", "2000"),
    ),
    "beside-large": (
        "1,000/s of 100 B beside 4 MB messages",
        beside("--destination", "/queue/large", "--body", "4000000", "--seconds", "8", "--max-lag", "4"),
    ),
    "beside-flood": (
        "1,000/s beside a flood into a queue that nobody consumes",
        beside("--destination", "/queue/full", "--seconds", "8", "--produce-only"),
    ),
    "many": ("10,000 addresses, 20,000 durable subscriptions", many),
    "idle": ("3 owners and an edge without clients", idle),
    "durable-1": ("persistent, 3 copies, window 1", durable(1)),
    "durable-100": ("persistent, 3 copies, window 100", durable(100)),
    "durable-1000": ("persistent, 3 copies, window 1,000", durable(1000)),
    "jetstream-1": ("3 nats-servers, 3 copies, every PubAck synced, window 1", jetstream(1)),
    "jetstream-100": ("3 nats-servers, 3 copies, every PubAck synced, window 100", jetstream(100)),
    "jetstream-default-1": ("3 nats-servers, 3 copies, nothing synced (their default), window 1", jetstream(1, "2m")),
    "jetstream-default-100": (
        "3 nats-servers, 3 copies, nothing synced (their default), window 100",
        jetstream(100, "2m"),
    ),
    "link-tls": ("1 edge + 1 owner, 1→1, mutual TLS", flow("--max-lag", "2000", secure=True)),
    "open-1000-tls": ("open loop 1,000/s, mutual TLS", flow("--rate", "1000", secure=True)),
    "durable-100-tls": ("persistent, 3 copies, window 100, mutual TLS", durable(100, secure=True)),
    "kill": ("owner SIGKILL at 2,000/s", chaos(kill, 8)),
    "freeze": ("owner SIGSTOP at 2,000/s", chaos(freeze, 14)),
    "freeze-lease": (
        "owner SIGSTOP at 2,000/s, found by its lease alone",
        chaos(freeze, 18, cluster__dead_after_ms=60_000),
    ),
    "rolling": ("rolling restart of all owners at 2,000/s", chaos(rolling, 60)),
    "scale": ("3 → 5 → 3 owners at 2,000/s", chaos(scale, 90)),
}


def one_run(name: str, runs: list[Result], keep: bool) -> bool:
    """Adds its figures to those that are there. Returns whether it failed."""
    folder = Path(tempfile.mkdtemp(prefix=f"stampede-{name}-"))
    try:
        runs.append(SCENARIOS[name][1](folder))
        print(json.dumps({"scenario": name, **runs[-1]}), file=sys.stderr, flush=True)
        return False
    except Skipped as skipped:
        print(f"{name}: skipped: {skipped}", file=sys.stderr, flush=True)
        return False
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return True
    finally:
        if keep:
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def medians(runs: list[Result]) -> str:
    names = [name for name, value in runs[0].items() if not isinstance(value, str)]
    middle = {name: statistics.median([run[name] for run in runs if name in run]) for name in names}
    return ", ".join(f"{name} {value:,.4g}" for name, value in middle.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default="", help="comma list; empty: all (--list shows them)")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep folders with logs")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:14} {text}" for name, (text, _) in SCENARIOS.items()))
        return 0
    names = [n for n in options.scenarios.split(",") if n] or list(SCENARIOS)
    runs: dict[str, list[Result]] = {name: [] for name in names}
    bad = 0
    for _ in range(options.runs):
        for name in names:
            bad += one_run(name, runs[name], options.keep)
    for name in names:
        if runs[name]:
            print(f"{SCENARIOS[name][0]}: {medians(runs[name])}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
