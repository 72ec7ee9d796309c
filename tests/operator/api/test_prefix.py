"""One etcd and several operators: a prefix has one StompBroker, and another one does no harm there, whoever it is."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from broker_operator.process import Options
from broker_operator.spec import names
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BROKER, USER

from broker.seams.entropy import token

from . import world as worlds
from .world import NAMESPACE, World, empty, operating

pytestmark = pytest.mark.timeout(400)
LISTENERS = [{"name": "stomp", "port": 61613}]


async def held_by_another_cluster(world: World) -> dict[str, bytes]:
    """A StompBroker of the same namespace and name, of another Kubernetes with the same etcd: it and its user."""
    keys, metadata = world.pods.keys, world.pods.metadata
    named = {"kind": USER, "namespace": NAMESPACE, "name": "ada", "uid": "of-another-cluster"}
    there = {
        keys.possession: {"broker": f"{NAMESPACE}/{world.broker}", "uid": "theirs", "home": "of-another-cluster"},
        keys.user("ada"): {"hash": "theirs"},
        keys.marker(keys.user("ada")): named,
    }
    found = {key: json.dumps(value).encode() for key, value in there.items()}
    for key, value in found.items():
        await metadata.put(key, value)
    return found


async def test_a_broker_of_the_same_name_in_another_cluster_keeps_its_prefix(world):
    """Two Kubernetes clusters that are installed alike, with one etcd: the younger one had swept the users of the
    other, and its owners had joined it."""
    theirs = await held_by_another_cluster(world)
    await world.make(BROKER, world.broker)
    name = f"x-{token(3)}"
    await world.make(ACCEPTOR, name, listeners=LISTENERS)
    await world.make(USER, name)
    await world.make(ADDRESS, name, name=name)
    async with operating(world):
        await world.becomes(BROKER, world.broker, "Accepted", "PrefixTaken")
        await world.becomes(ACCEPTOR, name, "Accepted", "PrefixTaken")
        assert (await world.condition(BROKER, world.broker, "Ready"))[0] == "False"
        assert await world.get("StatefulSet", names.owner_name(world.broker), "apps/v1") is None
        assert await world.get("Deployment", names.edge_name(name), "apps/v1") is None
        items, _ = await world.pods.metadata.range(world.pods.keys.root)
        assert {item.key: item.value for item in items} == theirs
        # It is gone for good: somebody says so, and nothing else has to be done.
        await world.pods.metadata.delete(world.pods.keys.possession)
        await world.becomes(BROKER, world.broker, "Accepted", "Accepted")
        await world.until(lambda: world.get("StatefulSet", names.owner_name(world.broker), "apps/v1"))
        await world.becomes(ACCEPTOR, name, "Accepted", "Accepted")


@asynccontextmanager
async def another_namespace(world: World, monkeypatch: pytest.MonkeyPatch):
    """The tests' world in a namespace of its own."""
    namespace = f"{NAMESPACE}-{token(2)}"
    await world.kube._write("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}}, "application/json")
    monkeypatch.setattr(worlds, "NAMESPACE", namespace)
    other = World(world.kube, world.etcd)
    try:
        yield other, namespace
    finally:
        await other.close()
        await world.kube._write("DELETE", f"/api/v1/namespaces/{namespace}", None, "application/json")


@pytest.mark.parametrize("below", ["", "/config/users"])
async def test_an_operator_that_sees_the_first_broker_nowhere_takes_nothing_of_it(world, monkeypatch, below):
    """Another release in another namespace names the prefix of ours, or one inside ours: there, its keys would be our
    users."""
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    user = f"u-{token(3)}"  # nobody collects the Secret of another one's
    await world.make(USER, user)
    async with operating(world):
        await world.becomes(USER, user, "Ready", "Ready")
        before = await world.pods.config()
        async with another_namespace(world, monkeypatch) as (other, namespace):
            prefix = world.pods.keys.root.rstrip("/") + below
            etcd = {"endpoints": [world.etcd.replace("127.0.0.1", "localhost")], "prefix": prefix}
            await other.make(BROKER, other.broker, etcd=etcd)
            await other.make(USER, "eve")
            async with operating(other, Options((namespace,), "stampede:1")):
                await other.becomes(BROKER, other.broker, "Accepted", "PrefixTaken")
                assert await other.get("StatefulSet", names.owner_name(other.broker), "apps/v1") is None
        assert await world.pods.config() == before


async def test_a_broker_that_is_made_anew_has_its_prefix(world):
    made = await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    await world.make(ADDRESS, "a", name="a")
    async with operating(world):
        await world.becomes(ADDRESS, "a", "Ready", "Ready")
    await world.kube.delete(made)
    await world.make(BROKER, world.broker)
    async with operating(world):
        await world.becomes(BROKER, world.broker, "EtcdReachable", "Reachable")
        await world.becomes(ADDRESS, "a", "Ready", "Ready")
        mine = await world.get(BROKER, world.broker)
        found = json.loads((await world.pods.metadata.get(world.pods.keys.possession)).value)
        assert found["uid"] == mine["metadata"]["uid"]
        await world.kube.delete(await world.get(ADDRESS, "a"))
        await world.until(lambda: empty(world))


async def test_nothing_is_written_once_the_prefix_is_anothers(world):
    """Between two looks somebody gives the prefix away: what is written in that time is written only if it is ours."""
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world):
        await world.becomes(BROKER, world.broker, "EtcdReachable", "Reachable")
        theirs = json.dumps({"broker": "b/x", "uid": "theirs", "home": "theirs"}).encode()
        await world.pods.metadata.put(world.pods.keys.possession, theirs)
        await world.make(ADDRESS, "a", name="a")
        await world.becomes(BROKER, world.broker, "Accepted", "PrefixTaken")
        assert await empty(world)
