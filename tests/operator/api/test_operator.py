"""The operator itself: one of two works, and what it does while etcd does not answer."""

from __future__ import annotations

import asyncio

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.kube.lease import Lease
from broker_operator.spec import names
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER, Id

from broker.seams.clock import SystemClock
from broker.seams.entropy import token

from .world import NAMESPACE, PATIENCE_S, Pods, operating

pytestmark = pytest.mark.timeout(400)


async def test_one_of_two_operators_works(kube):
    name = f"lease-{token(3)}"
    first, second = (Lease(kube, NAMESPACE, name, me, SystemClock()) for me in ("a", "b"))
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.3)
    assert first.held and not second.held
    await first.release()
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert second.held and not first.held
    with pytest.raises(KubeError):
        await first._kube.replace(first._body(first._lease))
    await second.release()


async def test_etcd_that_does_not_answer_is_said_and_nothing_is_taken_away(world, own_etcd):
    world.etcd = own_etcd.address
    await world.make(BROKER, world.broker)
    await world.make(ADDRESS, "orders", name="orders")
    pods = world.pods = Pods(own_etcd.address, names.etcd_prefix(NAMESPACE, world.broker))
    await pods.start(f"{world.broker}-owner-0")
    async with operating(world) as operator:
        await world.becomes(ADDRESS, "orders", "Ready", "Ready")
        own_etcd.kill()

        async def said() -> bool:
            return (await world.condition(BROKER, world.broker, "EtcdReachable"))[0] == "False"

        await world.until(said)
        patch = {"spec": {"owners": {"replicas": 3}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        assert await world.condition(ADDRESS, "orders", "Ready") == ("True", "Ready")
        await asyncio.to_thread(own_etcd.start)
        await world.becomes(BROKER, world.broker, "EtcdReachable", "Reachable")
        assert operator.cache.clusters[Id(BROKER, NAMESPACE, world.broker)].known
