"""The ports that `make cluster` takes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

LOCAL = Path(__file__).resolve().parents[3] / "deploy" / "local"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(LOCAL))
    monkeypatch.delitem(sys.modules, "cluster", raising=False)  # bench has one of that name, and others may come
    module = importlib.import_module("cluster")
    del sys.modules["cluster"]
    return module


def flat(ports: dict[str, list[int]]) -> list[int]:
    return [port for all in ports.values() for port in all]


def test_its_own_ports_when_they_are_free(cluster: ModuleType) -> None:
    assert cluster.choose(0, {}, lambda name, port: False) == cluster.PORTS
    assert len(set(flat(cluster.PORTS))) == len(flat(cluster.PORTS)) == 19


def test_a_free_row_when_one_of_them_is_taken(cluster: ModuleType) -> None:
    busy = {61613, cluster.FIRST + 3}
    ports = cluster.choose(0, {}, lambda name, port: port in busy)
    first = cluster.FIRST + cluster.STEP
    assert flat(ports) == list(range(first, first + 19)) and ports.keys() == cluster.PORTS.keys()


def test_those_that_were_asked_for_or_none(cluster: ModuleType) -> None:
    assert flat(cluster.choose(50_000, {}, lambda name, port: False)) == list(range(50_000, 50_019))
    with pytest.raises(SystemExit, match="port 50007 is in use"):
        cluster.choose(50_000, {}, lambda name, port: port == 50_007)
    with pytest.raises(SystemExit, match="--ports"):
        cluster.choose(0, {}, lambda name, port: True)


def test_what_runs_keeps_its_ports(cluster: ModuleType) -> None:
    before = cluster.row(40_000)
    assert cluster.choose(0, before, lambda name, port: False) == before
    assert cluster.choose(50_000, before, lambda name, port: False) == before
