"""Owners that die, freeze, are cut off, lose their disk or are restarted while clients work: nothing is lost, nobody is
disconnected. How long it takes is asserted loosely here (machines differ) and measured by bench/cluster.py."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator

import pytest

from tests.harness.cluster import Cluster, Process

from .load import Load, assert_nothing_lost, consumed_again, persistent
from .slots import leader_of, slot_of

pytestmark = pytest.mark.timeout(180)
slow = pytest.mark.skipif(not os.environ.get("TEST_SLOW"), reason="half a minute each: `make torture` runs it")


def epoch_of(cluster: Cluster, address: str) -> int:
    return int(cluster.records()[slot_of(address)]["epoch"])


def declared_dead(cluster: Cluster, victim: Process) -> int:
    """How often its peers have taken its lease away, by what they say."""
    return sum(owner.log().count(f"{victim.id} is declared dead") for owner in cluster.owners)


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    """The one of this module; whatever a test did to it is made good."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the load generator cannot be built")
    yield shared
    Load.end_all()
    shared.heal()
    for process in shared.processes:
        if process.running:
            process.resume()
        else:
            process.start()
    for process in shared.processes:
        process.wait_ready()
    shared.wait_balanced()


def test_a_killed_owner_is_replaced_and_comes_back(cluster):
    load = Load(cluster.edges[0].port, *persistent(8, 1000, "/queue/killed%d"))
    time.sleep(2)
    victim = leader_of(cluster, "killed0")
    told = declared_dead(cluster, victim)
    victim.kill()
    cluster.wait(lambda: leader_of(cluster, "killed0") is not victim, 60, lambda: "not replaced")
    assert declared_dead(cluster, victim) > told, "its peers waited for its lease"
    victim.start()
    assert_nothing_lost(load.result())
    victim.wait_ready()
    cluster.wait_balanced()


def test_a_killed_owner_that_lost_its_disk_is_seeded_anew(cluster):
    load = Load(cluster.edges[0].port, *persistent(3, 500, "/queue/kept%d"), "--produce-only")
    produced = load.result()
    assert produced["errors"] == 0 and produced["receipts"] == produced["sent"]
    victim = leader_of(cluster, "kept0")
    victim.kill()
    victim.wipe()
    victim.start()
    victim.wait_ready()
    cluster.wait_balanced()
    # Now the two that were not wiped go: what is left stands on the new disk.
    for other in [owner for owner in cluster.owners if owner is not victim][:1]:
        other.kill()
    assert_nothing_lost(consumed_again(cluster.edges[1].port, produced, "/queue/kept%d"))


def test_disks_of_all_owners_are_replaced_one_after_the_other(cluster):
    """As docs/runbooks/disks.md has it done: to another StorageClass, or after a loss."""
    produced = Load(cluster.edges[0].port, *persistent(3, 500, "/queue/moved%d"), "--produce-only").result()
    assert produced["errors"] == 0 and produced["receipts"] == produced["sent"]
    load = Load(cluster.edges[1].port, *persistent(10, 300, "/queue/moving%d"))
    for owner in cluster.owners:
        owner.stop()
        owner.wipe()
        owner.start()
        owner.wait_ready()
        cluster.wait_balanced()
    assert_nothing_lost(load.result())
    # All that is left stands on the new disks.
    assert_nothing_lost(consumed_again(cluster.edges[1].port, produced, "/queue/moved%d"))


def test_a_frozen_owner_is_replaced_and_changes_nothing_when_it_thaws(cluster):
    load = Load(cluster.edges[0].port, *persistent(10, 500, "/queue/frozen%d"))
    time.sleep(2)
    victim = leader_of(cluster, "frozen0")
    before, told = epoch_of(cluster, "frozen0"), declared_dead(cluster, victim)
    victim.pause()
    cluster.wait(lambda: leader_of(cluster, "frozen0") is not victim, 60, lambda: "not replaced")
    assert declared_dead(cluster, victim) > told, "its peers waited for its lease"
    assert epoch_of(cluster, "frozen0") > before
    time.sleep(1)
    victim.resume()
    assert_nothing_lost(load.result(), duplicates=0)
    cluster.wait_balanced()


@pytest.mark.parametrize("blackhole", [False, pytest.param(True, marks=slow)], ids=["reset", "blackhole"])
def test_an_owner_cut_off_from_everybody_is_replaced(cluster, blackhole):
    load = Load(cluster.edges[0].port, *persistent(10, 500, "/queue/cut%d"))
    time.sleep(2)
    victim = leader_of(cluster, "cut0")
    told = declared_dead(cluster, victim)
    victim.isolate(blackhole)
    cluster.wait(lambda: leader_of(cluster, "cut0") is not victim, 60, lambda: "not replaced")
    assert declared_dead(cluster, victim) > told, "its peers waited for its lease"
    time.sleep(1)
    cluster.heal()
    assert_nothing_lost(load.result())
    cluster.wait_balanced()


def test_rolling_restart_of_all_owners(cluster):
    for owner in cluster.owners:
        load = Load(cluster.edges[0].port, *persistent(7, 500, "/queue/rolled%d"))
        time.sleep(1)
        assert owner.stop() == 0, owner.log()[-3000:]
        owner.start()
        owner.wait_ready()
        cluster.wait_balanced()
        assert_nothing_lost(load.result())


@slow
def test_an_edge_that_stops_tells_its_clients_and_loses_nothing(cluster_of):
    cluster = cluster_of()
    produced = Load(cluster.edges[0].port, *persistent(2, 500, "/queue/e%d"), "--produce-only").result()
    cluster.edges[0].kill()
    assert_nothing_lost(consumed_again(cluster.edges[1].port, produced, "/queue/e%d"))


@slow
def test_etcd_may_be_away_for_a_while(cluster_of, own_etcd):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(14, 500))
    time.sleep(2)
    own_etcd.kill()
    time.sleep(8)
    own_etcd.start()
    assert_nothing_lost(load.result())
    cluster.wait_balanced()


@slow
def test_losing_a_lease_moves_slots_and_loses_nothing(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(8, 500))
    time.sleep(2)
    victim = leader_of(cluster, "load0")
    cluster.revoke(victim.id)
    assert_nothing_lost(load.result())
    cluster.wait_balanced()


@slow
def test_scaling_out_and_in_under_load(cluster_of):
    cluster = cluster_of()
    load = Load(cluster.edges[0].port, *persistent(40, 300))
    time.sleep(2)
    fourth = cluster.add_owner()
    cluster.wait(lambda: cluster.leaders().get(fourth.id, 0) > 30, 40, lambda: f"no slots moved: {cluster.leaders()}")
    cluster.wait_balanced()
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
