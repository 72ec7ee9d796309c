"""An edge as a process: what it is ready for, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.app.edge import EdgeProcess
from broker.cluster import membership
from broker.cluster.keys import Keys
from broker.cluster.slots import SlotTable
from broker.config.load import from_tree
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Delete, Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

KEYS = Keys("/test")


@asynccontextmanager
async def edge(folder: Path, *puts: Put, **more: object) -> AsyncIterator[tuple[EdgeProcess, MemoryStore]]:
    """One that runs over a store in memory with these keys, and all slots led by somebody."""
    store = MemoryStore()
    records = [Put(KEYS.slot(slot), SlotRecord(slot, 1, "a", ("a",), ("a",)).encode()) for slot in range(100)]
    store.commit([], [*records, *puts])
    given = {"cluster.id": "e", "data": str(folder), "edge.port": 0, "edge.ws_port": -1, "admin.port": -1}
    process = EdgeProcess(from_tree(given | {name.replace("__", "."): value for name, value in more.items()}, "here"))
    await process.metadata.close()
    process.keys, process.metadata = KEYS, MemoryMetadata(store)
    process.table = SlotTable(process.metadata, KEYS)
    await process.start()
    try:
        yield process, store
    finally:
        if process._ready:
            await process.stop()


def ready(process: EdgeProcess) -> bool:
    return process.readiness()[0]


@pytest.mark.parametrize("key", [KEYS.permission("a.b"), KEYS.setting("a.b"), KEYS.address("a.b"), KEYS.user("a.b")])
async def test_one_that_starts_with_an_entry_it_cannot_read_is_not_ready_and_says_which(tmp_path, key, caplog):
    """Others may have read it before and serve with it; this one would serve without."""
    async with edge(tmp_path, Put(key, b'{"sned": "x"')) as (process, store):
        good, details = process.readiness()
        assert not good and key in details["configuration"] and key in caplog.text
        assert f"stampede cluster {key.split('/')[-2]} set a.b" in details["configuration"]
        store.commit([], [Put(key, b'{"sned": 1}')])  # as bad as before
        await asyncio.sleep(0.05)
        assert not ready(process)
        store.commit([], [Delete(key)])
        await eventually(lambda: ready(process))
        assert "configuration" not in process.readiness()[1]


async def test_one_that_had_read_it_before_goes_on_and_says_so(tmp_path):
    """A slip of the hand must not take all edges out of the balancer at once."""
    key = KEYS.permission("a.b")
    async with edge(tmp_path, Put(key, b'{"send": "x"}')) as (process, store):
        assert ready(process)
        store.commit([], [Put(key, b"{"), Put(KEYS.permission("new"), b"{")])
        await eventually(lambda: "configuration" in process.readiness()[1])
        assert ready(process) and process.config.permissions == {"a.b": {"send": "x"}, "new": {}}


async def test_users_that_cannot_be_read_leave_nothing_open(tmp_path):
    """Without any user everybody of this machine may log in; one that is there all the same closes that."""
    async with edge(tmp_path, Put(KEYS.user("ada"), b"{")) as (process, _):
        assert process.auth is not None and process.auth.has_users


async def test_a_store_that_gives_no_answer_does_not_hold_up_the_end(tmp_path):
    async with edge(tmp_path) as (process, store):
        process.metadata._timeout_s = 600.0
        store.stop()
        await asyncio.wait_for(process.stop(), 60)


async def test_an_etcd_that_has_lost_its_data_is_told_and_clients_are_still_welcome(tmp_path):
    async with edge(tmp_path) as (process, _):
        process.metadata.rewound = "it was at revision 9 and is at 1"
        assert process.readiness() == (True, process.readiness()[1] | {"etcd": "it was at revision 9 and is at 1"})
        assert [m.samples for m in process.metrics() if m.name == "stomp_etcd_rewound"] == [[({}, 1)]]


async def test_one_whose_certificate_is_revoked_is_no_member_and_not_ready_until_it_has_another(tmp_path, monkeypatch):
    """It stayed registered: it had its part of every quota, and clients that no owner would hear of."""
    monkeypatch.setattr(membership, "BARRED_S", 0.02)
    async with edge(tmp_path) as (process, store):
        assert ready(process) and store.range(KEYS.edges)[0]
        monkeypatch.setattr(process.dialer, "revoked", lambda: "its own certificate is revoked")
        await eventually(lambda: not store.range(KEYS.edges)[0] and not process.membership.up)
        good, details = process.readiness()
        assert not good and details["cluster"] == "not registered: its own certificate is revoked"
        monkeypatch.setattr(process.dialer, "revoked", lambda: "")
        await eventually(lambda: store.range(KEYS.edges)[0] and ready(process))


@pytest.mark.parametrize(("own", "prefer"), [("x", True), ("x", False), ("", True)])
async def test_slots_that_owners_of_its_zone_lead_are_near_wherever_owners_come_back(tmp_path, own, prefer):
    def owner(name: str, zone: str) -> Put:
        return Put(KEYS.member("owner", name), Member(name, "owner", f"{name}:1", "boot", "d", zone).encode())

    def led(slot: int, leader: str) -> Put:
        return Put(KEYS.slot(slot), SlotRecord(slot, 2, leader, (leader,), (leader,)).encode())

    near = own and prefer
    more = {"cluster__zone": own, "edge__prefer_zone": prefer}
    first = owner("a", "x"), owner("b", "y"), owner("c", "")
    async with edge(tmp_path, *first, **more) as (process, store):
        assert process.edge is not None and process.edge.near is process.near
        assert process.near.slots == ({*range(100)} if near else set())
        store.commit([], [led(1, "b"), led(2, "c")])
        mine = {*range(100)} - {1, 2}
        await eventually(lambda: process.near.slots == (mine if near else set()))
        assert process.port._far == (frozenset({"b"}) if own else frozenset())
        store.commit([], [led(3, "b")])
        await eventually(lambda: process.near.slots == (mine - {3} if near else set()))
        store.commit([], [owner("b", "x")])  # started anew on another machine
        await eventually(lambda: process.near.slots == ((mine | {1}) if near else set()))
        await eventually(lambda: process.port._far == frozenset())
