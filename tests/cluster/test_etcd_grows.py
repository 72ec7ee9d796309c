"""One member of etcd becomes three while clients send and receive (docs/runbooks/etcd-members.md): it is stopped, its
own file is restored into three members, and nothing that was receipted is lost; afterwards one of them may go."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster
from tests.harness.servers import LocalServer, local_etcd, needs_etcdctl

from .load import Load, assert_nothing_lost, persistent

pytestmark = pytest.mark.timeout(300)


def option(member: LocalServer, name: str) -> str:
    return member.line[member.line.index(name) + 1]


def alone(member: LocalServer) -> LocalServer:
    """The same, as the only one."""
    line = list(member.line)
    line[line.index("--initial-cluster") + 1] = f"{option(member, '--name')}={option(member, '--listen-peer-urls')}"
    return LocalServer(member.port, member.log_file.with_name("one.log"), line, member.ready)


def restore(file: Path, member: LocalServer) -> None:
    """As step 2 of the page."""
    wanted = ("--name", "--data-dir", "--initial-cluster", "--initial-advertise-peer-urls")
    # etcd 3.6 took it out of etcdctl.
    line = [shutil.which("etcdutl") or "etcdctl", "snapshot", "restore", str(file), "--skip-hash-check"]
    line += [f"{name}={option(member, name)}" for name in wanted]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, env={**os.environ, "ETCDCTL_API": "3"})
    assert done.returncode == 0, done.stderr


def test_one_member_becomes_three_under_load(tmp_path):
    needs_etcdctl()
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the load generator cannot be built")
    members = local_etcd(tmp_path / "etcd", 3)
    one = alone(members[0])
    one.start()
    cluster = Cluster(tmp_path, one.port, edges=1)
    try:
        cluster.start()
        before = cluster.records()
        load = Load(cluster.edges[0].port, *persistent(15, 300, "/queue/grows%d"))
        one.stop()
        data = Path(option(one, "--data-dir"))
        kept = data.rename(data.with_name("before"))
        for member in members:
            restore(kept / "member" / "snap" / "db", member)
        for member in members:
            member.launch()
        for member in members:
            member.wait()
        cluster.wait(lambda: cluster.records() == before, 60, lambda: "the table of slots is another one")
        assert_nothing_lost(load.result())
        # It works as before, also without one of them: somebody else leads, and who was away comes back.
        members[2].kill()
        load = Load(cluster.edges[0].port, *persistent(6, 300, "/queue/after%d"))
        victim = cluster.owners[1]
        victim.kill()
        cluster.wait(lambda: not cluster.leaders().get(victim.id), 60, lambda: f"not replaced: {cluster.leaders()}")
        victim.start()
        assert_nothing_lost(load.result())
        victim.wait_ready()
        cluster.wait_balanced()
        assert not any("has lost data" in process.log() for process in cluster.processes)
    finally:
        Load.end_all()
        cluster.close()
        for member in (one, *members):
            member.stop()
