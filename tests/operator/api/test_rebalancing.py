"""A rebalance of a real cluster by its StompBroker: proposed, approved, stopped, approved again, and nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from broker_operator.spec.names import API_VERSION, BROKER, REBALANCE
from broker_operator.workloads import rebalancing
from broker_operator.world import status_rounds

from broker.client import connect
from tests.harness.cluster import HOST, PREFIX, Cluster
from tests.harness.servers import Server, needs_etcdctl

from .world import NAMESPACE, World, all_told, operating

MESSAGES = 40


@pytest.fixture
async def cluster(own_etcd: Server, tmp_path: Path):
    needs_etcdctl()
    settings = {"cluster.replicas": 2, "cluster.max_moves": 32}
    found = Cluster(tmp_path, own_etcd.port, owners=2, edges=1, settings=settings)
    await asyncio.to_thread(found.start)
    yield found
    await asyncio.to_thread(found.close)


async def test_copies_move_when_their_proposal_is_approved_and_no_longer_than_it_is(
    world: World, cluster: Cluster, monkeypatch
):
    monkeypatch.setattr(status_rounds, "ROUND_S", 0.5)
    monkeypatch.setattr(rebalancing, "AGAIN_S", 0.5)
    world.etcd = f"{HOST}:{cluster.etcd_port}"
    owners = {"replicas": 3, "rebalance": {"mode": "Manual", "movesAtOnce": 1}}
    etcd = {"endpoints": [world.etcd], "prefix": PREFIX}
    await world.make(BROKER, world.broker, etcd=etcd, owners=owners, replication={"factor": 2, "minInSync": 2})
    async with operating(world), connect(f"stomp://{HOST}:{cluster.edges[0].port}") as client:
        await world.becomes(BROKER, world.broker, "Rebalancing", "Idle")
        for n in range(MESSAGES):
            await client.send(f"q{n}", b"%d" % n, headers={"persistent": "true"}, receipt=True)
        await asyncio.to_thread(cluster.add_owner)
        await world.becomes(BROKER, world.broker, "Rebalancing", "Proposed")
        first = await status(world)
        assert first["moves"] > 100 and copies(cluster) == 0, "nothing moves of itself"
        await world.until(lambda: weighs(world))
        await approve(world, first["id"])
        await world.becomes(BROKER, world.broker, "Rebalancing", "Moving")
        await world.until(lambda: copies(cluster) > 2)
        await approve(world, None)
        await world.becomes(BROKER, world.broker, "Rebalancing", "Proposed")
        await world.until(lambda: all_told(world, world.broker, "RebalanceCancelled", 1))
        stopped = await status(world)
        assert 0 < stopped["moves"] < first["moves"] and stopped["id"] != first["id"]
        await asyncio.to_thread(cluster.wait_balanced)
        begun = copies(cluster)
        await approve(world, first["id"])
        await asyncio.sleep(2)
        assert copies(cluster) == begun, "what was approved before is approved no more"
        patch = {"spec": {"owners": {"rebalance": {"movesAtOnce": 32}}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        await world.until(lambda: proposes(world))
        await approve(world, (await status(world))["id"])
        await world.until(lambda: all_told(world, world.broker, "RebalanceDone", 1))
        assert copies(cluster) == first["moves"]
        for n in range(MESSAGES):
            async with client.subscribe(f"q{n}") as messages:
                assert (await messages.get(60)).body == b"%d" % n


def copies(cluster: Cluster) -> int:
    return sum("owner-2" in record["replicas"] for record in cluster.records().values())


async def status(world: World) -> dict:
    return ((await world.get(BROKER, world.broker)) or {}).get("status", {}).get("rebalance", {})


async def weighs(world: World) -> bool:
    return (await status(world)).get("bytes", 0) > 0


async def proposes(world: World) -> bool:
    return (await status(world)).get("state") == "Proposed"


async def approve(world: World, id: str | None) -> None:
    patch = {"metadata": {"annotations": {REBALANCE: id}}}
    await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
