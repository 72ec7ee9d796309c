"""Large messages on their way to or from an owner that is drained, restarted or killed: no client notices."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from random import Random

import pytest

from tests.cluster.slots import leader_of, slot_of
from tests.harness import Client
from tests.harness.cluster import Cluster, Process

MIB = 1 << 20
BODY = Random(7).randbytes(MIB) * 50


@pytest.fixture(autouse=True)
def everybody(shared: Cluster) -> Iterator[None]:
    yield
    shared.start_again()
    shared.wait_balanced()


def drain(cluster: Cluster, victim: Process) -> None:
    cluster.cluster("drain", victim.id)
    cluster.wait(lambda: not cluster.leaders().get(victim.id), 60, lambda: f"not drained: {cluster.leaders()}")
    cluster.cluster("undrain", victim.id)


def restart(cluster: Cluster, victim: Process) -> None:
    assert victim.stop() == 0
    victim.start()
    victim.wait_ready()


def kill(cluster: Cluster, victim: Process) -> None:
    victim.kill()
    cluster.wait(lambda: not cluster.leaders().get(victim.id), 60, lambda: f"no fail-over: {cluster.leaders()}")


def metric(process: Process, name: str) -> float:
    (line,) = [line for line in process.metrics().splitlines() if line.startswith((name + " ", name + "{"))]
    return float(line.split()[-1])


def bodies(cluster: Cluster) -> list[str]:
    return [str(path) for owner in cluster.owners for path in owner.data.glob("journal/blobs/*")]


@pytest.mark.parametrize("harm", [drain, restart, kill])
def test_a_body_goes_on_at_the_next_owner(shared, harm):
    address = f"large.{harm.__name__}"
    victim, before = leader_of(shared, address), shared.records()[slot_of(address)]["epoch"]
    again = metric(shared.edges[0], "stomp_link_bodies_total")
    with Client(shared.edges[0].port, timeout=120) as sender:
        sender.connect()
        head = f"SEND\ndestination:/queue/{address}\npersistent:true\ncontent-length:{len(BODY)}\nreceipt:it\n\n"
        sender.raw(head.encode())
        half = len(BODY) // 2
        for at in range(0, half, MIB):
            sender.raw(BODY[at : at + MIB])
            time.sleep(0.05)
        harm(shared, victim)
        shared.wait(lambda: shared.records()[slot_of(address)]["epoch"] > before, 60, lambda: "its slot has not moved")
        for at in range(half, len(BODY), MIB):
            sender.raw(BODY[at : at + MIB])
            time.sleep(0.02)
        sender.raw(b"\0")
        assert sender.expect("RECEIPT")["receipt-id"] == "it"
        sender.publish(f"/queue/{address}", b"behind it", persistent="true")
    with Client(shared.edges[1].port, timeout=120) as reader:
        reader.connect()
        reader.subscribe(f"/queue/{address}", ack="client")
        first, second = reader.messages(2)
        assert hashlib.sha256(first.body).digest() == hashlib.sha256(BODY).digest()
        assert second.body == b"behind it"
        reader.ack(second, receipt="done")
        reader.expect("RECEIPT")
        reader.nothing()
    assert metric(shared.edges[0], "stomp_link_bodies_total") > again, "nothing was put to the test"
    if not victim.running:
        victim.start()
        victim.wait_ready()
    shared.wait(lambda: not bodies(shared), 60, lambda: f"left behind: {bodies(shared)}")


@pytest.mark.parametrize("harm, ack", [(drain, "auto"), (kill, "auto"), (restart, "client")])
def test_a_body_that_is_read_goes_on_at_the_next_owner(shared, harm, ack):
    """In the middle of its frame. In `auto` it counts as consumed when all of it is with its client."""
    address = f"large.read.{harm.__name__}"
    victim, before = leader_of(shared, address), shared.records()[slot_of(address)]["epoch"]
    with Client(shared.edges[0].port, timeout=60) as sender:
        sender.connect()
        sender.publish(f"/queue/{address}", BODY, persistent="true")
    seen, sum_ = 0, hashlib.sha256()

    def take(piece: bytes) -> None:
        nonlocal seen
        if seen < MIB <= seen + len(piece):
            harm(shared, victim)
            shared.wait(lambda: shared.records()[slot_of(address)]["epoch"] > before, 60, lambda: "it has not moved")
        seen += len(piece)
        sum_.update(piece)

    with Client(shared.edges[1].port, timeout=120) as reader:
        reader.connect()
        reader.subscribe(f"/queue/{address}", ack=ack)
        message = reader.swallow(take, timeout=120)
        assert sum_.digest() == hashlib.sha256(BODY).digest() and message.get("redelivered") is None
        if ack == "client":
            reader.ack(message, receipt="done")
            reader.expect("RECEIPT")
        reader.nothing()
    with Client(shared.edges[0].port, timeout=60) as other:
        other.connect()
        other.subscribe(f"/queue/{address}")
        other.nothing()
    if not victim.running:
        victim.start()
        victim.wait_ready()
    shared.wait(lambda: not bodies(shared), 60, lambda: f"left behind: {bodies(shared)}")


def test_the_edge_keeps_nothing_of_it(shared):
    """Neither files nor bytes that count, when all is answered."""
    edge = shared.edges[0]
    assert not [path for path in edge.data.glob("*") if path.name.startswith("stampede-")]
    assert metric(edge, "stomp_kept_body_bytes") == 0
