"""The archive of a cluster: each acknowledged message once, whoever dies and whoever leads. One round of
`make pipeline-torture ARGS=--cluster`, which also kills edges, drivers and workers, restarts owners in turn, and
replays what is archived."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.servers import needs_etcdctl

from .host import Hosts
from .sites import InCluster
from .torture import Torture

pytestmark = pytest.mark.timeout(1800)  # Spark and a cluster start dozens of processes; other tests run beside them


def test_who_dies_or_leads_leaves_each_message_once(sparks: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs_etcdctl()
    monkeypatch.setattr(Torture, "LONGEST_S", 2.0)
    site = InCluster(tmp_path / "cluster")
    torture = Torture(tmp_path, site, 1, 200, print, sparks)
    try:
        torture.round("owner")
    finally:
        torture.close()
        site.close()
