"""Whose a prefix in etcd is: the first one's, until it goes; nobody writes what is another's."""

from __future__ import annotations

import pytest
from broker_operator.world.possession import Holder, Possession

from broker.cluster.keys import Keys
from tests.harness.metadata import MemoryMetadata, MemoryStore


def holding(store: MemoryStore, name: str, uid: str = "1", home: str = "here", prefix: str = "/x") -> Possession:
    return Possession(MemoryMetadata(store), Keys(prefix), Holder(name, uid, home))


async def test_a_prefix_is_the_first_ones_until_it_goes():
    """Two operators that do not see each other's resources, and one etcd."""
    store = MemoryStore()
    first, second, again = holding(store, "a/x"), holding(store, "b/x"), holding(store, "a/x", "2")
    assert await first.claim() == "" and not second.held
    assert "belongs to StompBroker a/x:" in await second.claim()
    assert await again.claim() == "", "deleted and made again"
    assert "a/x of another cluster" in await holding(store, "a/x", "2", "there").claim()
    assert await holding(store, "a/x", "2", "").claim() == "", "it may not read the uid of its namespace"
    assert "of another cluster" in await holding(store, "a/x", "2", "there").claim(), "and takes that of others away"
    await second.release()
    assert "a/x" in await second.claim(), "what is somebody else's is not given up"
    await first.release()
    assert await second.claim() == "" and second.held
    assert "b/x" in await again.claim()


async def test_a_prefix_from_before_that_names_no_cluster_is_taken_by_name():
    store = MemoryStore()
    await MemoryMetadata(store).put("/x/possession", b'{"broker": "a/x"}')
    assert "a/x" in await holding(store, "b/x").claim()
    assert await holding(store, "a/x").claim() == ""
    assert "another cluster" in await holding(store, "a/x", "9", "there").claim()


@pytest.mark.parametrize("other", ["/x/config/users", "/x/y", "/"])
async def test_a_prefix_around_or_inside_anothers_is_refused(other):
    """A user of the inner one would be a user of the outer one."""
    store = MemoryStore()
    assert await holding(store, "a/x").claim() == ""
    assert "overlap" in (why := await holding(store, "b/x", prefix=other).claim()) and "a/x" in why
    assert await holding(store, "b/x", prefix="/xy").claim() == ""
