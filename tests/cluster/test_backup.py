"""The whole site is lost, and what deploy/README.md tells to do brings back every message that was receipted before the
backup began: etcd's snapshot first, then the owners' volumes, one after the other, while clients go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Broker
from tests.harness.cluster import Cluster
from tests.harness.servers import local_etcd, needs_etcdctl

from .load import Load, assert_nothing_lost, consumed_again, persistent
from .site_backup import SiteBackup, lose_everything, stampede, start_again

pytestmark = pytest.mark.timeout(300)

KEPT, LATER = "/queue/kept%d", "/queue/later%d"


def test_a_site_that_was_lost_comes_back(tmp_path):
    needs_etcdctl()
    (etcd,) = local_etcd(tmp_path / "etcd")
    etcd.start()
    cluster = Cluster(tmp_path, etcd.port, edges=1)
    try:
        cluster.start()
        produced = Load(cluster.edges[0].port, *persistent(2, 300, KEPT), "--produce-only").result()
        assert produced["errors"] == 0 and produced["receipts"] == produced["sent"] > 300
        later = Load(cluster.edges[0].port, *persistent(8, 100, LATER), "--produce-only")
        backup = SiteBackup(tmp_path / "backup")
        backup.take_etcd(etcd)
        # The worst case: leaders change between the snapshots, so that disks know epochs that etcd's snapshot does not.
        cluster.owners[0].kill()
        cluster.wait(lambda: not cluster.leaders().get("owner-0"), 30, lambda: str(cluster.leaders()))
        time.sleep(0.5)  # messages of the new epochs
        cluster.owners[0].start()
        cluster.owners[0].wait_ready()
        # The first as a volume snapshot: the folder at one moment, with whatever was not synced yet (or without it).
        backup.take_volume_of_paused(cluster.owners[0])
        for owner in cluster.owners[1:]:
            backup.take_volume(owner)
        later.result()
        lose_everything(cluster, etcd)
        backup.restore(cluster, etcd)
        start_again(cluster, etcd)
        assert_nothing_lost(consumed_again(cluster.edges[0].port, produced, KEPT))
        # And it works as before.
        after = Load(cluster.edges[0].port, *persistent(2, 200, "/queue/after%d"))
        assert_nothing_lost(after.result())
        an_owner_that_goes_back_in_time_is_refused(cluster, backup)
        one_copy_alone_can_be_read(tmp_path / "alone", backup, produced)
    finally:
        Load.end_all()
        cluster.close()
        etcd.stop()


def an_owner_that_goes_back_in_time_is_refused(cluster: Cluster, backup: SiteBackup) -> None:
    """The others rely on what its disk had confirmed."""
    owner = cluster.owners[2]
    owner.kill()
    owner.wipe()
    stampede("restore", str(backup.folder / f"{owner.id}.tar"), "--data", str(owner.data))
    owner.start()
    assert owner.process is not None and owner.process.wait(60) == 1
    assert "was restored from a backup" in owner.log()


def one_copy_alone_can_be_read(folder: Path, backup: SiteBackup, produced: dict[str, Any]) -> None:
    """By a standalone broker: there are as many replicas as owners, so it has all slots."""
    alone = Broker(folder)
    stampede("restore", str(backup.folder / "owner-1.tar"), "--data", str(alone.data))
    with alone as broker:
        assert_nothing_lost(consumed_again(broker.port, produced, KEPT))
