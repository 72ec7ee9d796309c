"""The cluster as the API of an edge shows it, and what is changed by it."""

from __future__ import annotations

from typing import Any

import pytest

from broker.app.topology import Topology
from broker.cluster.operate import NotPossible
from broker.metadata.port import MetadataUnavailable
from tests.harness.topology import topology

__all__ = ["topology"]  # fixtures


async def rows(topology: Topology) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in await topology.nodes()}


async def test_who_is_there_and_what_each_keeps(topology):
    found = await rows(topology)
    assert {name: (row["kind"], row["state"]) for name, row in found.items()} == {
        "a": ("owner", "up"), "b": ("owner", "leaving"), "c": ("owner", "dead"), "e": ("edge", "up"),
    }  # fmt: skip
    assert [(row["leads"], row["replicas"], row["in_sync"]) for row in found.values()][:3] == [
        (1, 1, 1), (0, 2, 1), (0, 1, 1),
    ]  # fmt: skip
    assert found["b"]["unreached"] == ["e"] and found["e"]["unreached"] == ["b"]
    slot = topology.slots()[1]
    assert (slot["leader"], slot["target"], slot["in_sync"], slot["shelved"]) == ("", "b", ["c"], "throws")


async def test_an_owner_is_drained_and_undrained(topology):
    assert await topology.drain("a", True)
    assert not await topology.drain("a", True)
    assert (await rows(topology))["a"]["state"] == "up, draining"
    assert await topology.drain("a", False)
    assert (await rows(topology))["a"]["state"] == "up"
    with pytest.raises(NotPossible, match="no owner 'z'"):
        await topology.drain("z", True)


async def test_a_leader_is_moved_step_by_step(topology):
    assert await topology.move(0, "b") == "handing over"
    with pytest.raises(NotPossible, match="no live owner 'z'"):
        await topology.move(0, "z")


async def test_a_store_that_is_away_is_said(topology, monkeypatch):
    async def away(_: str) -> Any:
        raise MetadataUnavailable("a test says so")

    monkeypatch.setattr(topology._metadata, "range", away)
    assert (await rows(topology))["a"]["state"] == "up, drained or not: etcd does not answer"
