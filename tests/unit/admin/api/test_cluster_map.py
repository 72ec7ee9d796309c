"""The map of a cluster as the API tells it, and what is refused by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.admin.api.access import Who
from broker.admin.api.calls import Call
from broker.admin.api.cluster_map import ClusterMap
from broker.admin.api.openapi import document
from broker.admin.api.problems import Problem
from broker.app.topology import Topology
from broker.cluster.keys import Keys
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.schemas import Checked

KEYS = Keys("/t")
RECORDS = {
    0: SlotRecord(0, 4, "a", ("a", "b"), ("a", "b"), revision=1),
    1: SlotRecord(1, 2, "", ("b", "c"), ("c",), target="b", revision=1, shelved="throws"),
}


def member(name: str, kind: str = "owner", **more: Any) -> Member:
    return Member(name, kind, f"{name}:1", "boot", admin=f"{name}:2", **more)


@pytest.fixture
async def topology() -> AsyncIterator[Topology]:
    metadata = MemoryMetadata(MemoryStore())
    for name in ("a", "b"):
        await metadata.commit([], [Put(KEYS.member("owner", name), member(name).encode())])
    for slot, record in RECORDS.items():
        await metadata.commit([], [Put(KEYS.slot(slot), record.encode())])
    membership = SimpleNamespace(
        owners={"a": member("a"), "b": member("b", leaving=True)},
        edges={"e": member("e", "edge", unreached=("b",))},
    )
    table = SimpleNamespace(records=RECORDS)
    yield Topology(metadata, KEYS, table, membership)  # type: ignore[arg-type]
    await metadata.close()


async def test_what_the_api_makes_of_it(topology):
    ops = {op.name: op for op in ClusterMap(topology).routes()}
    checked = Checked(document(list(ops.values())))
    who = Who("ada", "", None, True)

    async def ask(name: str, path: dict[str, str], body: dict[str, Any]) -> Any:
        return await ops[name].handler(Call(who, path, {}, body))

    checked.answer("GET", "/nodes", 200, "application/json", await ask("nodes", {}, {}))
    checked.answer("GET", "/slots", 200, "application/json", await ask("slots", {}, {}))
    assert await ask("move-slot", {"slot": "0"}, {"to": "b"}) == {"slot": 0, "state": "handing over"}
    assert (await ask("drain-owner", {"owner": "a"}, {}))["done"]
    for name, path, body, problem in (
        ("drain-owner", {"owner": "z"}, {}, "not-now"), ("move-slot", {"slot": "256"}, {"to": "b"}, "bad-value"),
        ("move-slot", {"slot": "1"}, {"to": "b"}, "not-now"),
    ):  # fmt: skip
        with pytest.raises(Problem) as refused:
            await ask(name, path, body)
        assert refused.value.name == problem
    alone = {op.name: op for op in ClusterMap(None).routes()}
    with pytest.raises(Problem, match="standalone"):
        await alone["drain-owner"].handler(Call(who, {"owner": "a"}, {}, {}))
