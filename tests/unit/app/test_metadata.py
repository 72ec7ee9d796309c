"""What etcd knows of a cluster goes into a file and comes out of it under other names."""

from __future__ import annotations

import json

import pytest

from broker.app.copies.metadata import renaming, restore, snapshot
from broker.cluster.keys import Keys
from broker.core.errors import JournalError
from broker.core.slots import SlotRecord
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore

OLD, NEW = Keys("/old"), Keys("/new")


def world():
    store = MemoryStore()
    for slot, owners in ((0, ("a-10", "a-2")), (1, ("a-2", "a-10"))):
        store.commit([], [Put(OLD.slot(slot), SlotRecord(slot, 3, owners[0], owners, owners, owners[1]).encode())])
    return store, MemoryMetadata(store)


async def test_owners_stand_in_the_order_of_their_numbers():
    _, metadata = world()
    found = json.loads(await snapshot(metadata, OLD, 5))
    assert found["owners"] == ["a-2", "a-10"] and found["takenMs"] == 5


async def test_every_name_in_a_record_is_the_new_one():
    store, metadata = world()
    copy = json.loads(await snapshot(metadata, OLD, 5))
    assert await restore(metadata, NEW, copy, renaming(copy["owners"], ["b-0", "b-1"]), "run") == 3
    found = SlotRecord.decode(0, store.keys[NEW.slot(0)].value, 0)
    assert found == SlotRecord(0, 3, "b-1", ("b-1", "b-0"), ("b-1", "b-0"), "b-0")


async def test_who_comes_in_between_is_not_written_over():
    store, metadata = world()
    copy = json.loads(await snapshot(metadata, OLD, 5))
    real = metadata.commit

    async def commit(compare, then):
        store.commit([], [Put(NEW.slot(0), b"{}")])
        return await real(compare, then)

    metadata.commit = commit
    with pytest.raises(JournalError, match="somebody else"):
        await restore(metadata, NEW, copy, {}, "run")
    assert store.keys[NEW.slot(0)].value == b"{}"


def test_there_are_as_many_owners_as_there_were():
    assert renaming(["a"], ["b"]) == {"a": "b"}
    with pytest.raises(JournalError, match="is of 2 owners and this cluster has 1"):
        renaming(["a", "b"], ["c"])


async def test_no_cluster_is_no_backup():
    with pytest.raises(JournalError, match="no cluster"):
        await snapshot(MemoryMetadata(MemoryStore()), OLD, 5)
