"""Clusters of processes for the tests of this folder; skipped where etcd or a C compiler cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import scratch
from tests.harness.cluster import Cluster
from tests.harness.servers import Server, needs_etcdctl, running

from .load import Load

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def cluster_of(own_etcd: Server, tmp_path: Path) -> Iterator[MakeCluster]:
    """cluster_of(owners=3, edges=2, **settings): one that runs."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the load generator cannot be built")
    needs_etcdctl()
    made: list[Cluster] = []

    def make(owners: int = 3, edges: int = 2, settings: dict[str, Any] | None = None) -> Cluster:
        made.append(Cluster(tmp_path, own_etcd.port, owners, edges, settings))
        made[-1].start()
        return made[-1]

    yield make
    Load.end_all()
    for cluster in made:
        cluster.close()


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One cluster for all tests of a module, with the settings in its SETTINGS: three owners, two edges. Everything
    runs when a test begins, and must again when it ends; at the end no log has a traceback."""
    needs_etcdctl()
    settings = getattr(request.module, "SETTINGS", None)
    with (
        scratch(request, "cluster") as folder,
        running("etcd", folder / "etcd", ours=True) as etcd,
        Cluster(folder, etcd.port, settings=settings) as cluster,
    ):
        yield cluster
        for process in cluster.processes:
            assert "Traceback" not in process.log(), f"{process.id}:\n{process.log()[-5000:]}"
