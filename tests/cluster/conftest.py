"""A cluster of processes for every test of this folder; skipped where etcd or a C compiler cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.servers import Server

from .load import Load

MakeCluster = Callable[..., Cluster]


@pytest.fixture
def cluster_of(own_etcd: Server, tmp_path: Path) -> Iterator[MakeCluster]:
    """cluster_of(owners=3, edges=2, **settings): one that runs."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: the load generator cannot be built")
    if shutil.which("etcdctl") is None:
        pytest.skip("no etcdctl: slot records cannot be looked at")
    made: list[Cluster] = []

    def make(owners: int = 3, edges: int = 2, settings: dict[str, Any] | None = None) -> Cluster:
        made.append(Cluster(tmp_path, own_etcd.port, owners, edges, settings))
        made[-1].start()
        return made[-1]

    yield make
    Load.end_all()
    for cluster in made:
        cluster.close()
