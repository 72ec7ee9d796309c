"""A cluster at work is copied into an object store, and a new one, with owners of other names and another etcd, begins
from there: compared message by message with what clients know of the time that the backup states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.harness import Client, until
from tests.harness.cluster import PREFIX, Cluster, Process
from tests.harness.servers import local_etcd
from tests.pipeline.s3 import as_variables, bucket, missing_of_server

pytestmark = pytest.mark.timeout(300)
QUEUES = [f"/queue/q{n}" for n in range(6)]


class Traffic:
    """Durable messages with receipts, one of two acknowledged, and when each of that was receipted."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.stop = threading.Event()
        self.sent: dict[str, float] = {}
        self.trying: set[str] = set()
        self.acked: dict[str, float] = {}
        self.acking: dict[str, float] = {}
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(work, queue)) for queue in QUEUES
                        for work in (self._produce, self._consume)]  # fmt: skip

    def _run(self, work, queue: str) -> None:
        try:
            with Client(self.port) as client:
                client.connect()
                work(client, queue)
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()

    def _produce(self, client: Client, queue: str) -> None:
        for n in range(100_000):
            if self.stop.wait(0.01):
                return
            name = f"{queue} {n}"
            self.trying.add(name)
            client.ask("SEND", {"destination": queue, "persistent": "true"}, name.encode() + b" " * 500)
            self.sent[name] = time.time()

    def _consume(self, client: Client, queue: str) -> None:
        client.subscribe(queue, ack="client-individual")
        while not self.stop.is_set():
            try:
                message = client.expect("MESSAGE", timeout=0.2)
            except TimeoutError:
                continue
            name = message.body.decode().rstrip()
            if int(name.split()[1]) % 2:
                self.acking[name] = time.time()
                client.ask("ACK", {"id": message["ack"]})
                self.acked[name] = time.time()

    def until(self, acked: int) -> None:
        until(lambda: len(self.acked) >= acked or self.stop.is_set(), "traffic", 120)

    def __enter__(self) -> Traffic:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def s3(tmp_path, monkeypatch):
    if lacks := missing_of_server("obstore"):
        pytest.skip(f"no S3: {lacks}")
    with bucket("backups", tmp_path / "moto.log") as endpoint:
        for name, value in as_variables(endpoint).items():
            monkeypatch.setenv(name, value)
        yield "s3://backups/stomp"


def stampede(cluster: Cluster | None, *arguments: object, report: Path) -> dict:
    line = [sys.executable, "-m", "broker.app.cli", *map(str, arguments), "--report", str(report)]
    if cluster is not None:
        line += ["--set", f"etcd.endpoints={cluster.endpoints}", "--set", f"etcd.prefix={PREFIX}"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text())


def left(port: int) -> dict[str, bytes]:
    """All that is in the queues, each once."""
    found: dict[str, bytes] = {}
    with Client(port) as client:
        client.connect()
        for n, queue in enumerate(QUEUES):
            client.ask("SEND", {"destination": queue, "persistent": "true"}, b"end")
            client.subscribe(queue, id=str(n))
            while (message := client.expect("MESSAGE", timeout=60)).body != b"end":
                name = message.body.decode().rstrip()
                assert name not in found, f"{name} came twice"
                found[name] = message.body
    return found


def test_a_new_cluster_begins_from_a_bucket(tmp_path, s3):
    (etcd,) = local_etcd(tmp_path / "etcd")
    etcd.start()
    (other_etcd,) = local_etcd(tmp_path / "other-etcd")
    cluster = Cluster(tmp_path / "old", etcd.port, edges=1)
    again = Cluster(tmp_path / "new", other_etcd.port, owners=0, edges=1)
    again.owners = [Process(again, "owner", f"new-{n}") for n in range(3)]
    run, words = f"{s3}/2026-11-27T02-00-00Z", tmp_path / "words"
    try:
        cluster.start()
        with Traffic(cluster.edges[0].port) as traffic:
            traffic.until(100)
            began = stampede(cluster, "cluster", "backup", run, report=words)
            traffic.until(len(traffic.acked) + 100)
            for owner in cluster.owners:
                report = stampede(None, "backup", f"{run}/{owner.id}.tar", "--data", owner.data, report=words)
                assert report["messages"] > 50 and not report["lost"]
            stated = stampede(cluster, "cluster", "backup", run, "--complete", "--keep", 3, report=words)
            traffic.until(len(traffic.acked) + 50)
        assert not traffic.errors
        assert stated["takenMs"] == began["takenMs"] and stated["owners"] == 3
        for process in cluster.processes:
            process.kill()
        etcd.stop()

        other_etcd.start()
        names = ",".join(owner.id for owner in again.owners)
        found = stampede(again, "cluster", "restore", s3, "--latest", "--owners", names, report=words)
        for old, owner in zip(cluster.owners, again.owners, strict=True):
            data = ("--whole-cluster", "--unless-restored", "--data", owner.data)
            for _ in range(2):  # a pod that was taken away before anybody saw that it was done
                stampede(None, "restore", f"{s3}/{found['run']}/{old.id}.tar", *data, report=words)
        again.start()
        there = left(again.edges[0].port)
        moment = stated["takenMs"] / 1000
        due = {name for name, at in traffic.sent.items() if at < moment and traffic.acking.get(name, moment) >= moment}
        missing = {name for name in due - there.keys() if name not in traffic.acking}
        assert due and not missing, f"receipted before the stated time and not there: {sorted(missing)[:5]}"
        assert not [name for name, at in traffic.acked.items() if at < moment and name in there]
        assert there.keys() <= traffic.trying and all(
            body == name.encode() + b" " * 500 for name, body in there.items()
        )
    finally:
        cluster.close()
        again.close()
        etcd.stop()
        other_etcd.stop()
