"""Connections of each edge: told when they change by a tenth, and known of the others."""

from __future__ import annotations

import asyncio

import msgspec

from broker.cluster.load import Load, Loads
from broker.metadata.port import Delete, Put

from .members import KEYS, member, membership, stored


class Edge:
    def __init__(self, name: str = "e0", lease: bool = True) -> None:
        self.store, self.metadata = stored()
        self.count = 0
        self.membership = membership(member(name, "edge"), lease=self.store.grant(60)[0] if lease else 0)
        self.loads = Loads(self.metadata, KEYS, self.membership, lambda: self.count)

    async def told(self, count: int) -> int | None:
        """What stands in the store after it has had so many connections; None: nothing."""
        self.count = count
        await self.loads.tell()
        item = self.store.keys.get(KEYS.load_of("e0"))
        return None if item is None else msgspec.json.decode(item.value, type=Load).connections


async def test_it_is_told_when_it_has_changed_by_more_than_a_tenth():
    edge = Edge()
    assert [await edge.told(count) for count in (100, 109, 110, 90, 111, 100, 99)] == [100, 100, 100, 100, 111, 111, 99]


async def test_below_ten_each_connection_is_told():
    edge = Edge()
    assert [await edge.told(count) for count in (0, 1, 2, 1, 0)] == [0, 1, 2, 1, 0]


async def test_a_new_lease_has_it_told_again():
    edge = Edge()
    assert await edge.told(50) == 50
    edge.store.revoke(edge.membership.lease)
    assert await edge.told(50) is None, "gone with the registration"
    edge.membership.lease = edge.store.grant(60)[0]
    assert await edge.told(50) == 50


async def test_without_a_registration_nothing_is_told():
    assert await Edge(lease=False).told(50) is None


async def test_what_the_store_does_not_take_is_told_the_next_time():
    edge = Edge()
    edge.store.stop()
    await edge.loads.tell()
    edge.metadata.timeout_s = 0.01
    edge.store.start()
    assert await edge.told(50) == 50


async def test_the_others_are_known_as_long_as_they_live_and_a_broken_entry_harms_nobody(caplog):
    edge = Edge()
    put = edge.store.commit
    put([], [Put(KEYS.load_of("e1"), msgspec.json.encode(Load(7))), Put(KEYS.load_of("e2"), b"{")])
    await edge.loads.start()
    assert await edge.told(5) == 5
    assert edge.loads.others == {"e1": 7} and "is not a load" in caplog.text
    put([], [Delete(KEYS.load_of("e1")), Put(KEYS.load_of("e3"), msgspec.json.encode(Load(1)))])
    await asyncio.sleep(0.05)
    assert edge.loads.others == {"e3": 1}
    await edge.loads.stop()
