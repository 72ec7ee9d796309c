"""The whole site is lost, and what deploy/README.md tells to do brings back every message that was receipted before the
backup began: etcd's snapshot first, then the owners' volumes, one after the other, while clients go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Broker
from tests.harness.cluster import Cluster
from tests.harness.servers import LocalServer, local_etcd, needs_etcdctl

from .load import Load, assert_nothing_lost, consumed_again, persistent

pytestmark = pytest.mark.timeout(300)

KEPT, LATER = "/queue/kept%d", "/queue/later%d"


class Backup:
    """What was saved of a cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.etcd = folder / "etcd.db"

    def take_etcd(self, etcd: LocalServer) -> None:
        _etcdctl(f"--endpoints=127.0.0.1:{etcd.port}", "snapshot", "save", str(self.etcd))

    def take_volumes(self, cluster: Cluster) -> None:
        """The first as a volume snapshot: the folder at one moment, with whatever was not synced yet (or without it).
        The others by `stampede backup`, while they work."""
        for owner in cluster.owners:
            if owner is not cluster.owners[0]:
                _stampede("backup", str(self.folder / f"{owner.id}.tar"), "--data", str(owner.data))
                continue
            owner.pause()
            try:
                shutil.copytree(owner.data, self.folder / owner.id)
            finally:
                owner.resume()

    def restore(self, cluster: Cluster, etcd: LocalServer) -> None:
        options = dict(zip(etcd.line[1::2], etcd.line[2::2], strict=True))
        wanted = ("--name", "--data-dir", "--initial-cluster", "--initial-advertise-peer-urls")
        # etcd 3.6 took it out of etcdctl.
        _run(
            shutil.which("etcdutl") or "etcdctl",
            "snapshot",
            "restore",
            str(self.etcd),
            *(f"{name}={options[name]}" for name in wanted),
        )
        for owner in cluster.owners:
            if owner is cluster.owners[0]:
                shutil.copytree(self.folder / owner.id, owner.data)
            else:
                copy = str(self.folder / f"{owner.id}.tar")
                _stampede("restore", copy, "--whole-cluster", "--data", str(owner.data))


def _stampede(*arguments: str) -> None:
    line = [sys.executable, "-m", "broker.app.cli", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def _etcdctl(*arguments: str) -> None:
    _run("etcdctl", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"}, timeout=60)
    assert done.returncode == 0, done.stderr


def lose_everything(cluster: Cluster, etcd: LocalServer) -> None:
    for process in cluster.processes:
        process.kill()
    for owner in cluster.owners:
        owner.wipe()
    etcd.kill()
    shutil.rmtree(etcd.line[etcd.line.index("--data-dir") + 1])


def start_again(cluster: Cluster, etcd: LocalServer) -> None:
    etcd.start()
    cluster.start()


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
        backup = Backup(tmp_path / "backup")
        backup.take_etcd(etcd)
        # The worst case: leaders change between the snapshots, so that disks know epochs that etcd's snapshot does not.
        cluster.owners[0].kill()
        cluster.wait(lambda: not cluster.leaders().get("owner-0"), 30, lambda: str(cluster.leaders()))
        time.sleep(0.5)  # messages of the new epochs
        cluster.owners[0].start()
        cluster.owners[0].wait_ready()
        backup.take_volumes(cluster)
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


def an_owner_that_goes_back_in_time_is_refused(cluster: Cluster, backup: Backup) -> None:
    """The others rely on what its disk had confirmed."""
    owner = cluster.owners[2]
    owner.kill()
    owner.wipe()
    _stampede("restore", str(backup.folder / f"{owner.id}.tar"), "--data", str(owner.data))
    owner.start()
    assert owner.process is not None and owner.process.wait(60) == 1
    assert "was restored from a backup" in owner.log()


def one_copy_alone_can_be_read(folder: Path, backup: Backup, produced: dict[str, Any]) -> None:
    """By a standalone broker: there are as many replicas as owners, so it has all slots."""
    alone = Broker(folder)
    _stampede("restore", str(backup.folder / "owner-1.tar"), "--data", str(alone.data))
    with alone as broker:
        assert_nothing_lost(consumed_again(broker.port, produced, KEPT))
