"""Runbooks of a cluster, tried: the fault is caused, the alert's own series says so, what the page says to look at says
why, and what it says to do ends it. Those of a single broker: tests/docs/test_runbooks.py.

Rule: commands of `stampede` are run; what kubectl would do with a pod is done to its process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import shim
from tests.harness import Client, build
from tests.harness.cluster import Cluster, Process

from .slots import leader_of, led_by

pytestmark = pytest.mark.timeout(400)
SETTINGS = {"journal.max_inflight_bytes": 256 * 1024, "cluster.unavailable_after_s": 300}
PAGES = Path(__file__).parents[2] / "docs" / "runbooks"
SYNC_MS = 200


def page(alert: str) -> tuple[str, str]:
    """What it says to look at, and to do."""
    look, _, do = (PAGES / f"{alert}.md").read_text().partition("## Look")[2].partition("## Do")
    return look, do


def series(process: Process, name: str) -> float:
    """As Prometheus would sum it up."""
    lines = [line for line in process.metrics().splitlines() if re.match(rf"{name}[ {{]", line)]
    return sum([float(line.rpartition(" ")[2]) for line in lines])


def burst(client: Client, queue: str) -> None:
    """Three times as much as may be on its way to the disk, and the receipts for it."""
    headers = {"destination": queue, "persistent": "true"}
    client.raw(build("SEND", headers, b"x" * 20_000) * 40)
    client.ask("SEND", headers)


def doctor(owner: Process) -> str:
    """In its pod."""
    line = [sys.executable, "-m", "broker.app.cli", "doctor", "--data", str(owner.data)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, env={**os.environ, **owner.environment})
    return done.stdout


def test_producers_are_paused_for_a_slow_disk(shared: Cluster, tmp_path: Path):
    look, do = page("StampedeProducersPaused")
    library = shim.build(tmp_path)
    if library is None:
        pytest.skip("no C compiler: no disk that is slow")
    machine, owner = shim.Machine(tmp_path, library), shared.owners[0]
    owner.stop()
    owner.environment = machine.environment()
    owner.start()
    owner.wait_ready()
    shared.wait(lambda: owner.id in shared.leaders(), 180, lambda: f"it leads nothing: {shared.leaders()}")
    shared.wait_balanced(180)
    queue = next(led_by(shared, owner, "paused"))
    try:
        with Client(shared.edges[0].port, timeout=120) as client:
            client.connect()
            machine.be(sync_us=SYNC_MS * 1000)
            burst(client, queue)
            before = series(owner, "stomp_backpressure_pauses_total")
            for _ in range(3):
                burst(client, queue)
            assert series(owner, "stomp_backpressure_pauses_total") >= before + 3
            assert "stampede doctor" in look
            (told,) = re.findall(r"are synced in ([\d.]+) ms", doctor(owner))
            assert float(told) >= SYNC_MS
            assert "`stampede cluster drain OWNER`" in do
            shared.cluster("drain", owner.id)
            shared.wait(lambda: not holds(shared, owner), 180, lambda: f"not drained: {shared.leaders()}")
            burst(client, queue)  # what was on its way to it is there
            before = series(owner, "stomp_backpressure_pauses_total")
            burst(client, queue)
            assert leader_of(shared, queue) is not owner
            assert series(owner, "stomp_backpressure_pauses_total") == before
    finally:
        machine.be(sync_us=0)
        shared.cluster("undrain", owner.id)
    shared.wait_balanced(180)


def holds(cluster: Cluster, owner: Process) -> bool:
    return any(owner.id in record["replicas"] for record in cluster.records().values())


def test_slots_that_stand_still_go_on_when_an_owner_is_back(shared: Cluster):
    look, do = page("StampedeSlotsStalled")
    assert "stampede cluster status" in look and "1. Start one of the owners that are away" in do
    left, first, second = shared.owners
    with Client(shared.edges[0].port, timeout=180) as client:
        client.connect()
        client.publish("/queue/stalled", b"before", persistent="true")
        first.kill()
        second.kill()
        try:
            # Which owner says it holds the controller's office: the one that is left, when its lease is given.
            shared.wait(lambda: series(left, "stomp_slots_stalled") == 256, 120, lambda: left.metrics()[:3000])
            client.send("SEND", {"destination": "/queue/stalled", "persistent": "true", "receipt": "1"}, b"meanwhile")
            told = shared.cluster("status", status=None)
            assert "stalled 256" in told and re.search(rf"^{first.id} +(?!up)", told, re.MULTILINE), told
            with pytest.raises(TimeoutError):
                client.read(1)
            first.start()
            assert client.expect("RECEIPT")["receipt-id"] == "1"
            shared.wait(lambda: not series(left, "stomp_slots_stalled"), 180, lambda: f"still: {shared.status()}")
            client.subscribe("/queue/stalled", ack="client-individual")
            assert [message.body for message in client.messages(2)] == [b"before", b"meanwhile"]
        finally:
            for owner in (first, second):
                if not owner.running:
                    owner.start()
                owner.wait_ready()
    shared.wait_balanced(180)
