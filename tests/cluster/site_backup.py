"""A backup of a whole site, a loss of it, and its way back: what deploy/README.md tells to do, done by real processes.

Rule: etcd's snapshot first, then the owners' volumes, one after the other; clients may go on meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.cluster import Cluster, Process
from tests.harness.servers import LocalServer


class SiteBackup:
    """What was saved of a cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.etcd = folder / "etcd.db"

    def take_etcd(self, etcd: LocalServer) -> None:
        etcdctl(f"--endpoints=127.0.0.1:{etcd.port}", "snapshot", "save", str(self.etcd))

    def take_volume_of_paused(self, owner: Process) -> None:
        """Its folder, as a snapshot of the volume has it."""
        owner.pause()
        try:
            shutil.copytree(owner.data, self.folder / owner.id)
        finally:
            owner.resume()

    def take_volume(self, owner: Process, *options: str) -> None:
        """By `stampede backup`, while it works."""
        stampede("backup", str(self.folder / f"{owner.id}.tar"), "--data", str(owner.data), *options)

    def restore(self, cluster: Cluster, etcd: LocalServer) -> None:
        options = dict(zip(etcd.line[1::2], etcd.line[2::2], strict=True))
        wanted = ("--name", "--data-dir", "--initial-cluster", "--initial-advertise-peer-urls")
        # etcd 3.6 took it out of etcdctl.
        run(
            shutil.which("etcdutl") or "etcdctl",
            "snapshot",
            "restore",
            str(self.etcd),
            *(f"{name}={options[name]}" for name in wanted),
        )
        for owner in cluster.owners:
            if (self.folder / owner.id).exists():
                shutil.copytree(self.folder / owner.id, owner.data)
            else:
                copy = str(self.folder / f"{owner.id}.tar")
                stampede("restore", copy, "--whole-cluster", "--data", str(owner.data))


def stampede(*arguments: str) -> None:
    line = [sys.executable, "-m", "broker.app.cli", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def etcdctl(*arguments: str) -> None:
    run("etcdctl", *arguments)


def run(*command: str) -> None:
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
