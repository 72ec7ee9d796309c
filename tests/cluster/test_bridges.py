"""A bridge of a cluster: one edge at a time runs it; when it dies another one goes on, and each message comes once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.client import connect
from tests.harness import Broker, Client
from tests.harness.cluster import HOST, Cluster, Process
from tests.harness.waiting import eventually

from .test_admin_api import done

SETTINGS = {"cluster.lease_s": 5, "cluster.dead_after_ms": 10_000}
MANY = 400


def runs(edge: Process) -> bool:
    return edge.running and 'stomp_bridge_up{bridge="orders"} 1' in edge.metrics()


async def test_another_edge_takes_over(shared: Cluster, tmp_path: Path):
    one, other = shared.edges
    with Broker(tmp_path / "far") as far:
        values = {"url": f"stomp://{HOST}:{far.port}", "source": "/queue/bridged", "retry_min_s": 0.1, "window": 50}
        done(one, "PATCH", "/config/bridges/orders", {"values": values})
        await eventually(lambda: runs(one) or runs(other))
        holder, heir = (one, other) if runs(one) else (other, one)
        assert not runs(heir)
        async with connect(f"stomp://{HOST}:{heir.port}", receipt_timeout=60) as client:
            for number in range(MANY):
                await client.send("/queue/bridged", f"{number}", {"persistent": "true"}, receipt=not number % 50)
                if number == MANY // 2:
                    holder.kill()
            await client.send("/queue/bridged", "last", {"persistent": "true"}, receipt=True)
        await eventually(lambda: runs(heir))
        with Client(far.port) as there:
            there.connect()
            there.subscribe("/queue/bridged")
            found = [frame.body.decode() for frame in there.messages(MANY + 1, timeout=60)]
            assert sorted(found) == sorted(["last", *map(str, range(MANY))])
            holder.start()
            holder.wait_ready()
            await eventually(lambda: runs(heir) != runs(holder))  # one of them, and no more
            done(holder, "DELETE", "/config/bridges/orders")
            await eventually(lambda: not runs(heir) and not runs(holder))
            await asyncio.sleep(0.3)
            there.nothing()
