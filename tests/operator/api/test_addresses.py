"""StompAddresses: programmed, repaired, given back, and whose they are."""

from __future__ import annotations

import asyncio

import pytest
from broker_operator import process
from broker_operator.kube.lease import Lease
from broker_operator.process import Operator, Options
from broker_operator.spec import names
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER
from broker_operator.world import ownership

from broker.seams.clock import SystemClock
from broker.seams.entropy import token

from .world import NAMESPACE, Table, empty, events_of, operating, writes_in

pytestmark = pytest.mark.timeout(400)


async def test_an_address_is_programmed_repaired_and_given_back(world):
    await world.make(BROKER, world.broker)
    async with operating(world) as operator:
        await world.make(ADDRESS, "orders", name="orders", settings={"maxSizeBytes": "1MiB"}, queues=[{"name": "big"}])
        await world.becomes(ADDRESS, "orders", "Programmed", "NoMembers")
        await world.pods.start(f"{world.broker}-owner-0", "edge-1")
        await world.becomes(ADDRESS, "orders", "Programmed", "Applied")
        wanted = {"addresses/orders": {"max_size_bytes": 1048576}, "queues/big": {"address": "orders"}}
        assert await world.pods.config() == wanted
        found = await world.get(ADDRESS, "orders")
        assert found["status"]["etcdRevision"] > 1 and "finalizers" not in found["metadata"]
        # Somebody else's edits are undone.
        await world.pods.metadata.put(world.pods.keys.address("orders"), b'{"partitions": 3}')
        await world.pods.metadata.delete(world.pods.keys.queue("big"))

        async def repaired() -> bool:
            return await world.pods.config() == wanted

        await world.until(repaired)
        assert operator.etcd_reconciler.drifts >= 1
        (told,) = await world.until(lambda: events_of(world, "orders", "DriftRepaired"))
        assert '{"partitions": 3}' in told["message"] or "queues/big was deleted" in told["message"]
        # A queue less is a key less, and it counts as programmed only when that is in use.
        found = await world.get(ADDRESS, "orders")
        await world.kube.merge(API_VERSION, ADDRESS, NAMESPACE, "orders", {"spec": {"queues": []}})
        await world.becomes(ADDRESS, "orders", "Programmed", "Applied")
        assert await world.pods.config() == {"addresses/orders": {"max_size_bytes": 1048576}}
        await world.kube.delete(found)
        await world.until(lambda: empty(world))


async def test_two_for_one_address_do_not_fight(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    first = await world.make(ADDRESS, "first", name="orders", settings={"maxDeliveryAttempts": 3})
    await asyncio.sleep(1.1)  # ages are whole seconds
    async with operating(world) as operator:
        await world.becomes(ADDRESS, "first", "Ready", "Ready")
        await world.make(ADDRESS, "second", name="orders", settings={"maxDeliveryAttempts": 5})
        await world.becomes(ADDRESS, "second", "Accepted", "Conflict")
        assert await world.pods.config() == {"addresses/orders": {"max_delivery_attempts": 3}}
        assert "Address/status" not in await writes_in(operator, 1)
        (told,) = await world.until(lambda: events_of(world, "second", "Conflict"))
        assert told["type"] == "Warning" and f"{ADDRESS} {NAMESPACE}/first is older" in told["message"]
        await world.kube.delete(first)
        await world.becomes(ADDRESS, "second", "Ready", "Ready")
        assert len(await world.until(lambda: events_of(world, "second", "Accepted"))) == 1
        assert not await events_of(world, "first")
        assert await world.pods.config() == {"addresses/orders": {"max_delivery_attempts": 5}}


async def test_two_releases_in_one_namespace_do_not_fight(world, monkeypatch):
    """Each operator has an image of its own, and both see all resources: a StompBroker is one operator's, and so is
    whatever names it. The other one takes over when the lease of that one is not renewed any more."""
    monkeypatch.setattr(process, "LOOK_S", 0.2)
    first, second = (
        Options((NAMESPACE,), f"stampede:{tag}", lease=f"{NAMESPACE}/{world.broker}-{tag}") for tag in ("1", "2")
    )
    leases = [Lease(world.kube, NAMESPACE, f"{world.broker}-{tag}", "pod", SystemClock()) for tag in ("1", "2")]
    for lease in leases:
        await lease.acquire()
    owners = names.owner_name(world.broker)

    async def stateful() -> Table:
        return await world.get("StatefulSet", owners, "apps/v1") or {}

    async def runs(image: str) -> bool:
        found = await stateful()
        return bool(found) and found["spec"]["template"]["spec"]["containers"][0]["image"] == image

    async def looks(operator: Operator) -> None:
        """It has looked at the StompBroker once more."""
        before = sum(operator.queue.done.values())
        labels = {"metadata": {"labels": {"a": token(4)}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, labels)
        await world.until(lambda: sum(operator.queue.done.values()) > before)

    await world.make(BROKER, world.broker, {names.OPERATOR: second.lease}, image=None)
    async with operating(world, second):
        await world.until(lambda: runs("stampede:2"))
        async with operating(world, first) as idle:
            await world.make(ADDRESS, "orders", name="orders")
            await world.becomes(ADDRESS, "orders", "Programmed", "NoMembers")
            generation = (await stateful())["metadata"]["generation"]
            await looks(idle)
            assert not +idle.kube.writes, "what is another operator's is not written"
            assert not idle.cache.clusters
            assert (await stateful())["metadata"]["generation"] == generation
    # One that nobody looks after any more: its operator's lease stands still.
    monkeypatch.setattr(ownership, "GONE_S", 0.5)
    async with operating(world, first):
        await world.until(lambda: runs("stampede:1"))
        assert (await world.get(BROKER, world.broker))["metadata"]["annotations"][names.OPERATOR] == first.lease
        (told,) = await world.until(lambda: events_of(world, world.broker, "OperatorChanged"))
        assert second.lease in told["message"]
    monkeypatch.setattr(ownership, "GONE_S", 3600.0)
    async with operating(world, second) as idle:
        await looks(idle)
        assert not +idle.kube.writes and await runs("stampede:1")


async def test_a_broker_that_names_no_operator_gets_one_before_anything_is_made(world):
    await world.make(BROKER, world.broker)
    async with operating(world) as operator:
        await world.until(lambda: world.get("StatefulSet", names.owner_name(world.broker), "apps/v1"))
        found = await world.get(BROKER, world.broker)
        assert found["metadata"]["annotations"][names.OPERATOR] == operator.options.lease


async def test_what_went_while_nobody_looked_is_swept(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    gone = await world.make(ADDRESS, "gone", name="gone")
    kept = await world.make(ADDRESS, "kept", name="kept", deletionPolicy="Retain")
    async with operating(world):
        for name in ("gone", "kept"):
            await world.becomes(ADDRESS, name, "Ready", "Ready")
    for one in (gone, kept):
        await world.kube.delete(one)
        assert await world.get(ADDRESS, one["metadata"]["name"]) is None, "deleting never waits"
    async with operating(world):

        async def swept() -> bool:
            return set(await world.pods.config()) == {"addresses/kept"}

        await world.until(swept)
    # What was left without a marker is adopted by the next one of its name.
    await world.make(ADDRESS, "again", name="kept", settings={"paused": True})
    async with operating(world):
        await world.becomes(ADDRESS, "again", "Ready", "Ready")
        assert (await world.get(ADDRESS, "again"))["status"]["adopted"]


async def test_a_paused_resource_is_left_alone(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world):
        await world.make(ADDRESS, "paused", {names.PAUSED: "true"}, name="paused")
        await world.becomes(ADDRESS, "paused", "Paused", "Annotation")
        assert await world.pods.config() == {}
        await world.kube.merge(
            API_VERSION, ADDRESS, NAMESPACE, "paused", {"metadata": {"annotations": {names.PAUSED: None}}}
        )
        await world.becomes(ADDRESS, "paused", "Programmed", "Applied")
        assert await world.condition(ADDRESS, "paused", "Paused") == ("", "")
