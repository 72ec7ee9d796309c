"""An owner that lives and is well for everybody but the edges: others lead what it led, and it gets it back."""

from __future__ import annotations

import urllib.request

import pytest

from tests.harness import Client
from tests.harness.cluster import HOST, Process

from .slots import leader_of

pytestmark = [pytest.mark.alone, pytest.mark.timeout(240)]
SETTINGS = {"cluster.lease_s": 5, "cluster.dead_after_ms": 1000}


def details(process: Process) -> str:
    with urllib.request.urlopen(f"http://{HOST}:{process.admin_port}/readyz", timeout=30) as answer:
        return str(answer.read().decode())


def test_slots_go_to_where_the_edges_are(shared):
    victim = leader_of(shared, "reach")
    with Client(shared.edges[0].port, timeout=60) as client:
        client.connect()
        client.send("SEND", {"destination": "/queue/reach", "persistent": "true", "receipt": "1"}, b"1")
        client.expect("RECEIPT", {"receipt-id": "1"})
        for edge in shared.edges:
            victim.inbound.cut(edge.pid)
        client.send("SEND", {"destination": "/queue/reach", "persistent": "true", "receipt": "2"}, b"2")
        client.expect("RECEIPT", {"receipt-id": "2"}, timeout=28)  # before it would be refused (unavailable_after_s)
        shared.wait(lambda: victim.id not in shared.leaders(), 60, lambda: f"{shared.leaders()}")
        shared.wait_balanced()  # it follows, and holds everything
        told = shared.status()
        assert told["unreached"] == {victim.id: ["edge-0", "edge-1"]}
        assert f"{victim.id} is not reached by 2 of 2 edges" in shared.cluster("status")
        assert f"cannot be reached from here: {victim.id}" in details(shared.edges[0])
        assert "cannot reach this owner: edge-0, edge-1" in details(victim)
        assert f'stomp_owners_unreached{{owner="{victim.id}"}} 2' in victim.metrics()
        shared.heal()
        shared.wait(lambda: victim.id in shared.leaders(), 90, lambda: f"not back: {shared.leaders()}")
        shared.wait(lambda: not shared.status()["unreached"], 60, lambda: "still told")
        client.send("SUBSCRIBE", {"destination": "/queue/reach", "id": "s", "ack": "auto"})
        assert [client.expect("MESSAGE").body for _ in range(2)] == [b"1", b"2"]
    assert not any("declared dead" in owner.log() for owner in shared.owners), "it was well all the time"
