"""Which edge runs which bridge."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from broker.cluster import bridge_holders
from broker.cluster.bridge_holders import BridgeHolders
from broker.cluster.keys import Keys
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

NAMES = {f"b{number}" for number in range(20)}


class Edges:
    """Edges that know each other."""

    def __init__(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(bridge_holders, "EVERY_S", 0.01)
        monkeypatch.setattr(bridge_holders, "STEP_S", 0.05)
        self.store = MemoryStore()
        self.members: dict[str, object] = {}
        self.holders: dict[str, BridgeHolders] = {}
        self.leases: dict[str, Any] = {}
        self.wanted = set(NAMES)

    def knows(self, *ids: str) -> None:
        """They are registered, for all to see."""
        for id in ids:
            self.members[id] = SimpleNamespace(id=id, boot=f"boot of {id}")

    async def begin(self, id: str) -> None:
        self.knows(id)
        metadata = MemoryMetadata(self.store)
        self.leases[id] = await metadata.grant(60)
        membership: Any = SimpleNamespace(me=self.members[id], edges=self.members, lease=self.leases[id].id)
        holders = BridgeHolders(metadata, Keys("/t"), membership, lambda: self.wanted, lambda: None)
        self.holders[id] = holders
        await holders.start()

    async def die(self, id: str) -> None:
        await self.holders.pop(id).stop()
        del self.members[id]
        await self.leases[id].revoke()

    def held(self) -> dict[str, list[str]]:
        return {name: [id for id, each in self.holders.items() if each.held(name)] for name in self.wanted}

    async def all_held(self) -> dict[str, str]:
        await eventually(lambda: all(len(who) == 1 for who in self.held().values()))
        return {name: who[0] for name, who in self.held().items()}


async def test_each_is_run_by_one_and_they_are_spread(monkeypatch):
    edges = Edges(monkeypatch)
    edges.knows("x", "y", "z")
    for id in ("x", "y", "z"):
        await edges.begin(id)
    found = await edges.all_held()
    assert set(found.values()) == {"x", "y", "z"}
    await asyncio.sleep(0.2)
    assert await edges.all_held() == found, "who has one keeps it"
    gone = found["b0"]
    await edges.die(gone)
    after = await edges.all_held()
    assert gone not in after.values()
    assert {name: id for name, id in found.items() if id != gone}.items() <= after.items()
    other = edges.holders["x" if gone != "x" else "y"]
    await eventually(lambda: other.holder("b0") == after["b0"])  # it hears of it a moment later
    for each in edges.holders.values():
        await each.stop()


async def test_what_nobody_wants_any_more_is_given_back(monkeypatch):
    edges = Edges(monkeypatch)
    await edges.begin("x")
    await edges.all_held()
    edges.wanted.discard("b1")
    await eventually(lambda: not edges.holders["x"].holder("b1"))
    await edges.holders["x"].stop()


async def test_who_has_lost_its_lease_holds_nothing(monkeypatch):
    edges = Edges(monkeypatch)
    await edges.begin("x")
    await edges.all_held()
    edges.holders["x"]._membership.lease = 0  # type: ignore[misc]
    assert not edges.holders["x"].held("b0")
    await edges.holders["x"].stop()
