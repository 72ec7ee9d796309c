"""What is known of resources: the newest version, whose a claim is, and who shares one."""

from __future__ import annotations

from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, RESTORE, USER
from broker_operator.world.entries import conflict
from broker_operator.world.resource_cache import ResourceCache

from .builders import raw


def test_the_oldest_has_a_key():
    world = ResourceCache(lambda id: None)
    old = raw(ADDRESS, "old", created="2026-01-01T00:00:00Z")
    new = raw(ADDRESS, "new", created="2026-01-02T00:00:00Z")
    for one in (new, old):
        world.put(one)

    def claimants(place: str):
        return world.claimants("shop", "stomp", place)

    first, second = (world.resources[id] for id in sorted(world.resources, key=lambda id: id.name, reverse=True))
    assert conflict(first, ["addresses/orders"], claimants) is None
    lost = conflict(second, ["addresses/orders"], claimants)
    assert lost is not None and lost.winner.name == "old"


def test_who_shares_a_claim_is_looked_at_again():
    again = []
    world = ResourceCache(again.append)
    one, two = raw(ADDRESS, "one"), raw(ADDRESS, "two")
    world.put(one)
    assert again == []
    world.put(two)
    assert [id.name for id in again] == ["one"]
    world.drop(world.resources[next(id for id in world.resources if id.name == "one")].id)
    assert [id.name for id in again] == ["one", "two"]


def test_whom_a_restore_holds_up_looks_again_whoever_wrote_its_status():
    """We write it ourselves: its event is then no news, and the owners waited six hours for the next look."""
    again = []
    world = ResourceCache(again.append)
    ref = {"brokerRef": {"name": "stomp"}}
    for one in (raw(BROKER), raw(BROKER, "other"), raw(ACCEPTOR, **ref), raw(ADDRESS, **ref)):
        world.put(one)
    restore = raw(RESTORE, **ref)
    world.put(restore)
    assert sorted(id.name for id in again) == ["edge", "stomp"]
    again.clear()
    world.drop(next(id for id in world.resources if id.kind == RESTORE))
    assert sorted(id.name for id in again) == ["edge", "stomp"]


def test_an_older_version_of_a_resource_is_not_taken():
    world = ResourceCache(lambda id: None)
    one = raw(ADDRESS, "one")
    version = str(int(one["metadata"]["resourceVersion"]) + 1)
    newer = {**one, "metadata": {**one["metadata"], "resourceVersion": version}}
    assert world.put(newer) is not None
    assert world.put(one) is None and world.put(newer) is None


def test_a_user_is_one_of_a_broker_of_its_own_namespace_alone():
    """So who may write StompUsers elsewhere is none of its users' maker: rights are given by namespace (RBAC)."""
    world = ResourceCache(lambda id: None)
    broker, mine, foreign = world.put(raw(BROKER)), raw(USER, "mine"), raw(USER, "foreign")
    foreign["metadata"]["namespace"] = "elsewhere"
    found = [world.put(one) for one in (mine, foreign)]
    assert [world.broker_of(one) for one in found if one is not None] == [broker, None]
