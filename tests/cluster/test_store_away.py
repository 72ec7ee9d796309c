"""What happens to owners while etcd is away is made good as soon as it is back."""

from __future__ import annotations

import time

import pytest

from broker.config.settings import EdgeSettings
from tests.harness import Client
from tests.harness.cluster import Cluster, Process

from .slots import leader_of

pytestmark = [pytest.mark.alone, pytest.mark.timeout(180)]
SETTINGS = {"cluster.lease_s": 60, "cluster.dead_after_ms": 1000}


def cut_from_peers(cluster: Cluster, victim: Process) -> None:
    """Edges and etcd reach it, and it them."""
    for other in cluster.owners:
        if other is not victim:
            other.inbound.blackhole(victim.pid)
            victim.inbound.blackhole(other.pid)


def test_an_owner_cut_off_from_its_peers_while_nobody_could_say_so_is_replaced_afterwards(shared):
    """Its lease does not end, and its streams broke once only: who was told then could not write it down."""
    victim = leader_of(shared, "cut")
    told = f"{victim.id} is declared dead"
    for process in shared.processes:
        process.to_etcd.blackhole()
    cut_from_peers(shared, victim)
    others = [owner for owner in shared.owners if owner is not victim]
    for owner in others:
        shared.wait(lambda owner=owner: f"{victim.id} cannot be reached" in owner.log(), 30, lambda: "nobody noticed")
    time.sleep(4)  # longer than a suspicion counts
    for process in shared.processes:
        process.to_etcd.heal()
    with Client(shared.edges[0].port, timeout=60) as client:
        client.connect()
        client.send("SEND", {"destination": "/queue/cut", "persistent": "true", "receipt": "1"}, b"x")
        client.expect("RECEIPT", {"receipt-id": "1"}, timeout=25)
    assert any(told in owner.log() for owner in others)
    shared.heal()
    shared.wait_balanced()


def test_status_says_that_slots_are_not_served_though_the_table_has_leaders(shared):
    """Two of three are gone for a while: the third leads what it led, in the table, and can confirm nothing."""
    last, *others = shared.owners
    for owner in others:
        owner.pause()

    def told() -> list[dict]:
        return shared.status()["not_served"]

    def expected(one: dict) -> bool:
        return one["leader"] == last.id and one["why"].endswith("(silent)")

    shared.wait(lambda: any(map(expected, told())), 40, lambda: f"status: {told()[:3]}")
    assert "Not served for" in shared.cluster("status")
    for owner in others:
        owner.resume()
    shared.wait_balanced()
    shared.wait(lambda: not told(), 30, lambda: f"status: {told()}")


@pytest.mark.parametrize("kind", ["owners", "edges"])
def test_sigterm_is_obeyed_in_its_time_though_etcd_is_frozen(shared, kind):
    """docs/cluster.md: for at most edge.drain_timeout_s, also when nobody can be told."""
    process = getattr(shared, kind)[-1]
    most = EdgeSettings().drain_timeout_s
    with Client(shared.edges[-1].port, timeout=30) as client:
        client.connect()
        client.subscribe("/queue/stays")
        process.to_etcd.blackhole()
        began = time.monotonic()
        assert process.stop(seconds=2 * most) == 0
        took = time.monotonic() - began
    assert took <= most, f"{took:.1f} s"
    process.to_etcd.heal()
    if kind == "edges":
        return  # the last test here: its name is taken until its lease ends, for a minute
    process.start()
    process.wait_ready()
    shared.wait_balanced()
