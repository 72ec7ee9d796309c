"""One broker's cluster as etcd has it: what is unknown is never taken for empty, and a prefix belongs to one broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_operator.world import cluster as world_cluster
from broker_operator.world.cluster import NOT_ASKED, Cluster
from broker_operator.world.possession import Holder

from broker.cluster.planning.view import Policy
from broker.config.settings import EtcdSettings
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Delete, Put
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

Told = list[tuple[str, list[str]]]


US = Holder("shop/b", "1", "here")


def made(metadata: MemoryMetadata, told: Told, holder: Holder | None = US) -> Cluster:
    return Cluster(EtcdSettings(prefix="/p"), lambda part, names: told.append((part, names)), metadata, holder)


@asynccontextmanager
async def following(metadata: MemoryMetadata, holder: Holder | None = US) -> AsyncIterator[tuple[Cluster, Told]]:
    told: Told = []
    cluster = made(metadata, told, holder)
    cluster.start()
    try:
        yield cluster, told
    finally:
        await cluster.stop()


async def test_nothing_is_known_before_all_has_been_read_and_what_is_there_is_told_then():
    store = MemoryStore()
    store.commit([], [Put("/p/cordon/owner-1", b"{}"), Put("/p/owners/owner-1", member("owner-1", "owner"))])
    told: Told = []
    cluster = made(MemoryMetadata(store), told)
    assert not cluster.known and not cluster.asked and cluster.why == NOT_ASKED
    async with following(MemoryMetadata(store)) as (cluster, told):
        await eventually(lambda: cluster.known)
        assert cluster.asked and cluster.cordoned == {"owner-1"} and list(cluster.members) == ["owner-1"]
        assert ("reachable", []) in told and ("cordons", ["owner-1"]) in told
        assert json.loads(store.keys["/p/possession"].value) == US._asdict()


async def test_an_etcd_that_cannot_be_reached_is_unknown_and_not_empty(monkeypatch):
    monkeypatch.setattr(world_cluster, "PING_S", 0.01)
    store = MemoryStore()
    async with following(MemoryMetadata(store, timeout_s=0.05)) as (cluster, told):
        await eventually(lambda: cluster.known)
        store.down = True
        await eventually(lambda: not cluster.known)
        assert cluster.asked and not cluster.whole
        store.down = False
        await eventually(lambda: cluster.known)
        assert [part for part, _ in told].count("reachable") == 3, "told when it turns, not each time it is asked"


def member(id: str, kind: str) -> bytes:
    return Member(id, kind, "h:1", "boot").encode()


async def test_numbers_follow_their_keys_and_what_is_no_number_is_none():
    store = MemoryStore()
    store.commit([], [Put("/p/edges/e", member("e", "edge")), Put("/p/edges/bad", b"x"),
                      Put("/p/load/e", b'{"connections": 7}'), Put("/p/load/f", b'{"connections": "many"}'),
                      Put("/p/load/g", b"{}"), Put("/p/applied/e", b'{"revision": 4}')])  # fmt: skip
    async with following(MemoryMetadata(store)) as (cluster, _):
        await eventually(lambda: cluster.known)
        assert (cluster.connections, cluster.applied, list(cluster.members)) == ({"e": 7}, {"e": 4}, ["e"])
        assert cluster.behind(4) == [] and cluster.behind(5) == ["e"]
        store.commit([], [Delete("/p/load/e"), Delete("/p/edges/e")])
        await eventually(lambda: not cluster.members)
        assert cluster.connections == {}


async def test_slots_are_counted_with_their_copies_and_a_table_is_whole_when_all_are_there():
    store = MemoryStore()
    for slot in range(SLOTS):
        record = SlotRecord(slot, 1, "a", ("a", "b"), ("a", "c") if not slot else ("a", "b"))
        store.commit([], [Put(f"/p/slots/{slot}", record.encode())])
    store.commit([], [Put("/p/owners/a", member("a", "owner")), Put("/p/owners/b", member("b", "owner"))])
    async with following(MemoryMetadata(store)) as (cluster, _):
        await eventually(lambda: cluster.known)
        assert cluster.whole and cluster.holding() == {"a": SLOTS, "b": SLOTS, "c": 1}
        found = cluster.slots(Policy())
        assert (found["total"], found["online"], found["offline"]) == (SLOTS, SLOTS, 0)
        store.commit([], [Delete("/p/slots/9"), Put("/p/slots/x", b"{}")])
        await eventually(lambda: len(cluster.records) == SLOTS - 1)
        assert not cluster.whole


async def test_keys_that_a_resource_has_marked_are_known_by_its_uid():
    store = MemoryStore()
    async with following(MemoryMetadata(store)) as (cluster, _):
        await eventually(lambda: cluster.known)
        key, marker = "/p/config/addresses/a", "/p/managed/addresses/a"
        await cluster.commit([(key, 0)], [Put(key, b"{}"), Put(marker, b'{"uid": "1"}')])
        assert key in cluster.config and cluster.marks == {"1": {key}}, "what was written is known at once"
        await cluster.commit([], [Put(marker, b'{"uid": "2"}')])
        assert cluster.marks == {"2": {key}}
        assert await cluster.commit([(key, 0)], [Delete(marker)]) == 0, "another one was faster"
        assert cluster.marks == {"2": {key}}
        await cluster.commit([], [Delete(marker), Delete(key)])
        assert cluster.marks == {} and key not in cluster.config
        store.commit([], [Put("/p/possession", b'{"broker": "other/x"}')])
        assert await cluster.commit([], [Put(key, b"{}")]) == 0, "it is another's now, and nobody has told us yet"


async def test_a_prefix_of_another_broker_is_not_taken_and_not_given_up():
    store = MemoryStore()
    store.commit([], [Put("/p/possession", b'{"broker": "other/x"}')])
    async with following(MemoryMetadata(store)) as (cluster, _):
        await eventually(lambda: cluster.asked)
        assert "belongs to StompBroker other/x" in cluster.why and not cluster.known
        await cluster.possession.release()
        assert "/p/possession" in store.keys
    async with following(MemoryMetadata(store), holder=None) as (cluster, _):
        await eventually(lambda: cluster.known)


async def test_an_owner_that_goes_without_a_word_is_lost_and_one_that_says_so_is_not():
    store = MemoryStore()
    for name in ("owner-0", "owner-1", "owner-2"):
        store.commit([], [Put(f"/p/owners/{name}", member(name, "owner"))])
    async with following(MemoryMetadata(store)) as (cluster, _):
        await eventually(lambda: cluster.known)
        leaving = Member("owner-1", "owner", "a:1", "boot", leaving=True).encode()
        store.commit([], [Put("/p/owners/owner-1", leaving)])
        store.commit([], [Delete("/p/owners/owner-1")])
        store.commit([], [Delete("/p/owners/owner-2")])
        await eventually(lambda: list(cluster.members) == ["owner-0"])
        assert cluster.take_lost() == ["owner-2"] and cluster.take_lost() == []
