"""One member over a store in memory, without loops of its own: what it knows of others is what a test says."""

from __future__ import annotations

from types import SimpleNamespace

from broker.cluster.keys import Keys
from broker.core.slots import Member
from tests.harness.metadata import MemoryMetadata, MemoryStore

KEYS = Keys("/stampede/default")


def member(name: str, kind: str = "owner", **more) -> Member:
    return Member(name, kind, f"{name}:1", f"boot-{name}", **more)


def membership(me: Member, *others: Member, lease: int = 1) -> SimpleNamespace:
    """As much of a Membership as its neighbours read."""
    known = (me, *others)
    return SimpleNamespace(
        me=me,
        lease=lease,
        owners={one.id: one for one in known if one.kind == "owner"},
        edges={one.id: one for one in known if one.kind == "edge"},
        listen=lambda listener: None,
    )


def stored() -> tuple[MemoryStore, MemoryMetadata]:
    store = MemoryStore()
    return store, MemoryMetadata(store)
