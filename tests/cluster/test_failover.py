"""Owners that die, freeze, are cut off, lose their disk or are restarted while clients work: nothing is lost, nobody is
disconnected. How long it takes is asserted loosely here (machines differ) and measured by bench/cluster.py."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tests.harness.cluster import Cluster, Process

from .load import Load, assert_nothing_lost, persistent

pytestmark = pytest.mark.timeout(180)
slow = pytest.mark.skipif(not os.environ.get("STAMPEDE_SLOW"), reason="half a minute each: `make torture` runs it")


def slot_of(address: str) -> int:
    import zlib

    return zlib.crc32(address.encode()) % 256


def leader_of(cluster: Cluster, address: str) -> Process:
    name = cluster.records()[slot_of(address)]["leader"]
    return next(owner for owner in cluster.owners if owner.id == name)


def epoch_of(cluster: Cluster, address: str) -> int:
    return int(cluster.records()[slot_of(address)]["epoch"])


def test_a_killed_owner_is_replaced_and_comes_back(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(8, 1000))
    time.sleep(2)
    victim = leader_of(cluster, "load0")
    victim.kill()
    time.sleep(3)
    assert leader_of(cluster, "load0") is not victim
    victim.start()
    assert_nothing_lost(load.result())
    victim.wait_ready()
    cluster.wait_balanced()


def test_a_killed_owner_that_lost_its_disk_is_seeded_anew(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(3, 500, "/queue/kept%d"), "--produce-only")
    produced = load.result()
    assert produced["errors"] == 0 and produced["receipts"] == produced["sent"]
    victim = leader_of(cluster, "kept0")
    victim.kill()
    victim.wipe()
    victim.start()
    victim.wait_ready(60)
    cluster.wait_balanced(60)
    # Now the two that were not wiped go: what is left stands on the new disk.
    for other in [owner for owner in cluster.owners if owner is not victim][:1]:
        other.kill()
    again = Load(
        cluster.edges[1].port, "--consume-only", "--producers", "4", "--consumers", "4", "--destinations", "4",
        "--destination", "/queue/kept%d", "--count", str(produced["sent"]), "--run-id", produced["run"], "--verify",
        "--body", "100", "--idle-timeout", "30",
    )  # fmt: skip
    assert_nothing_lost(again.result())


def test_a_frozen_owner_is_replaced_and_changes_nothing_when_it_thaws(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(10, 500))
    time.sleep(2)
    victim = leader_of(cluster, "load0")
    before = epoch_of(cluster, "load0")
    victim.pause()
    cluster.wait(lambda: leader_of(cluster, "load0") is not victim, 8, lambda: "not replaced")
    assert epoch_of(cluster, "load0") > before
    time.sleep(1)
    victim.resume()
    assert_nothing_lost(load.result(), duplicates=0)
    cluster.wait_balanced(60)


@pytest.mark.parametrize("blackhole", [False, pytest.param(True, marks=slow)], ids=["reset", "blackhole"])
def test_an_owner_cut_off_from_everybody_is_replaced(cluster_of, blackhole):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(10, 500))
    time.sleep(2)
    victim = leader_of(cluster, "load0")
    victim.isolate(blackhole)
    cluster.wait(lambda: leader_of(cluster, "load0") is not victim, 10, lambda: "not replaced")
    time.sleep(1)
    cluster.heal()
    assert_nothing_lost(load.result())
    cluster.wait_balanced(60)


def test_rolling_restart_of_all_owners(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(25, 500))
    time.sleep(2)
    for owner in cluster.owners:
        assert owner.stop() == 0, owner.log()[-3000:]
        owner.start()
        owner.wait_ready(40)
        cluster.wait_balanced(40)
    assert load.running(), "the restarts took longer than the load"
    assert_nothing_lost(load.result())


@slow
def test_an_edge_that_stops_tells_its_clients_and_loses_nothing(cluster_of):
    cluster = cluster_of()
    produced = Load(cluster.edges[0].port, *persistent(2, 500, "/queue/e%d"), "--produce-only").result()
    cluster.edges[0].kill()
    again = Load(
        cluster.edges[1].port, "--consume-only", "--producers", "4", "--consumers", "4", "--destinations", "4",
        "--destination", "/queue/e%d", "--count", str(produced["sent"]), "--run-id", produced["run"], "--verify",
        "--body", "100", "--idle-timeout", "30",
    )  # fmt: skip
    assert_nothing_lost(again.result())


@slow
def test_etcd_may_be_away_for_a_while(cluster_of, own_etcd):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(14, 500))
    time.sleep(2)
    own_etcd.kill()
    time.sleep(8)
    own_etcd.start()
    assert_nothing_lost(load.result())
    cluster.wait_balanced(40)


@slow
def test_losing_a_lease_moves_slots_and_loses_nothing(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(8, 500))
    time.sleep(2)
    victim = leader_of(cluster, "load0")
    cluster.revoke(victim.id)
    assert_nothing_lost(load.result())
    cluster.wait_balanced(40)


@slow
def test_scaling_out_and_in_under_load(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(40, 300))
    time.sleep(2)
    fourth = cluster.add_owner()
    cluster.wait(lambda: cluster.leaders().get(fourth.id, 0) > 30, 40, lambda: f"no slots moved: {cluster.leaders()}")
    cluster.wait_balanced(60)
    cluster.cluster("drain", fourth.id)
    cluster.wait(
        lambda: not any(fourth.id in record["replicas"] for record in cluster.records().values()),
        60,
        lambda: f"not drained: {cluster.leaders()}",
    )
    assert fourth.stop() == 0
    assert_nothing_lost(load.result())


@slow
def test_two_edges_reach_one_queue_while_an_owner_dies(cluster_of):
    """Producer and consumer at different edges."""
    cluster = cluster_of()
    shared = ["--producers", "2", "--consumers", "0", "--destinations", "2", "--destination", "/queue/two%d"]
    kind = ["--header", "persistent:true", "--receipt-every", "1", "--window", "500", "--body", "100"]
    consume = Load(
        cluster.edges[1].port, "--consume-only", "--producers", "2", "--consumers", "2", "--destinations", "2",
        "--destination", "/queue/two%d", "--count", "3000", "--run-id", "abcd1234", "--verify", "--body", "100",
        "--idle-timeout", "30",
    )  # fmt: skip
    killer = threading.Timer(1.5, lambda: leader_of(cluster, "two0").kill())
    killer.start()
    produced = Load(
        cluster.edges[0].port, *shared, *kind, "--count", "3000", "--rate", "1000", "--run-id", "abcd1234",
        "--produce-only",
    ).result()  # fmt: skip
    killer.join()
    assert produced["receipts"] == 3000 and produced["errors"] == 0
    assert_nothing_lost(consume.result())
