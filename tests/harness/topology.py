"""A small cluster as the API of an edge sees it: two owners, an edge, two slots; a fixture to import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.app.topology import Topology
from broker.cluster.keys import Keys
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Put

from .metadata import MemoryMetadata, MemoryStore

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
