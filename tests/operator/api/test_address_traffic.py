"""What goes on at an address shows in its status: a real cluster, a real API server, the operator between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker_operator.spec.names import ADDRESS, BROKER
from broker_operator.world import address_traffic, status_rounds

from broker.client import connect
from tests.harness.cluster import HOST, PREFIX, Cluster
from tests.harness.servers import Server, needs_etcdctl

from .world import World, all_told, events_of, operating

DEAD = {"maxDeliveryAttempts": 1, "deadLetterAddress": "failed"}
FULL = {"fullPolicy": "BLOCK", "maxSizeMessages": 4}


async def test_depth_consumers_and_dead_letters_show_in_the_status_and_what_people_search_for_in_events(
    world: World, own_etcd: Server, tmp_path: Path, monkeypatch
):
    needs_etcdctl()
    monkeypatch.setattr(status_rounds, "ROUND_S", 0.5)
    monkeypatch.setattr(address_traffic, "EVERY_S", 0.5)
    world.etcd = f"{HOST}:{own_etcd.port}"
    cluster = Cluster(tmp_path, own_etcd.port, owners=2, edges=1, settings={"cluster.replicas": 2})
    await asyncio.to_thread(cluster.start)
    try:
        await world.make(BROKER, world.broker, etcd={"endpoints": [world.etcd], "prefix": PREFIX})
        for name, settings in (("jobs", DEAD), ("full", FULL), ("idle", {})):
            await world.make(ADDRESS, name, name=name, settings=settings)
        async with operating(world):
            for name in ("jobs", "full", "idle"):
                await world.becomes(ADDRESS, name, "Programmed", "Applied")
            async with connect(f"stomp://{HOST}:{cluster.edges[0].port}") as client:
                for n in range(4):
                    await client.send("full", b"%d" % n)
                    await client.send("jobs", b"%d" % n)
                await shows(world, "full", depth=4, consumers=0, blocked=True, deadLettered=0)
                await shows(world, "jobs", depth=4, consumers=0, blocked=False, deadLettered=0)
                [told] = await world.until(lambda: all_told(world, "full", "Blocked", 1))
                assert told["type"] == "Warning" and "whoever sends to it waits" in told["message"]
                async with client.subscribe("jobs", ack="client-individual") as messages:
                    async for message in messages:
                        await message.nack()
                        break
                    await shows(world, "jobs", deadLettered=1, consumers=1)
                    await world.until(lambda: all_told(world, "jobs", "DeadLetters", 1))
                await shows(world, "jobs", depth=3, consumers=0)
            idle = await world.get(ADDRESS, "idle")
            assert idle["status"]["depth"] == 0 and not await events_of(world, "idle")
            cluster.owners[1].kill()
            [lost] = await world.until(lambda: all_told(world, world.broker, "OwnerLost", 1))
            assert cluster.owners[1].id in lost["message"]
            await shows(world, "jobs", depth=3)
            cluster.owners[0].stop()
    finally:
        await asyncio.to_thread(cluster.close)


async def shows(world: World, name: str, **fields: object) -> None:
    async def check() -> bool:
        status = (await world.get(ADDRESS, name) or {}).get("status", {})
        return {key: status.get(key) for key in fields} == fields

    await world.until(check)
