"""What the operator costs: its process, a real API server, a real etcd, a thousand addresses.

`pytest -s tests/operator/api/test_memory.py` prints the figure."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from broker_operator.kube.kube import path_of
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER

from broker.seams.entropy import token

from .conftest import KUBECONFIG
from .world import NAMESPACE, World

ADDRESSES = 1000
MOST_MB = 80
CALM_S = 60.0
"""It hands memory back every 15 s; figures from before are those of the burst."""

pytestmark = pytest.mark.timeout(1200)  # on a busy machine; else a minute


async def test_a_thousand_addresses_fit_into_eighty_megabytes(world: World):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0", "edge-1")
    some = asyncio.Semaphore(16)

    async def one(number: int) -> None:
        async with some:
            settings = {"maxDeliveryAttempts": 5, "deadLetterAddress": f"failed.{number}", "maxSizeBytes": "10MiB"}
            queues = [{"name": f"q.{number}"}] if number % 10 == 0 else []
            await world.make(ADDRESS, f"a-{number}", name=f"shop.{number}", settings=settings, queues=queues)

    await asyncio.gather(*(one(number) for number in range(ADDRESSES)))
    more = {"KUBECONFIG": KUBECONFIG, "STAMPEDE_OPERATOR_LEASE": f"lease-{token(3)}", "STAMPEDE_OPERATOR_PORT": "0"}
    operator = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("stampede-operator")), "run", "--namespaces", NAMESPACE,
        "--image", "stampede:1", "--lease-namespace", NAMESPACE, env={**os.environ, **more},
    )  # fmt: skip
    try:
        await all_programmed(world)
        deadline = asyncio.get_running_loop().time() + CALM_S
        while (found := resident(operator.pid)) and found["VmRSS"] > MOST_MB:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(1)
        print(f"\noperator with {ADDRESSES} addresses: {found}")
        assert found["VmRSS"] <= MOST_MB
    finally:
        operator.terminate()
        await operator.wait()
        await world.kube._write("DELETE", path_of(API_VERSION, ADDRESS, NAMESPACE), {}, "application/json")
        world.made = [one for one in world.made if one["kind"] != ADDRESS]


async def all_programmed(world: World) -> None:
    """Every status says so. The test's own limit of time ends it if that never happens."""
    while True:
        found = (await world.kube.read_list(API_VERSION, ADDRESS, NAMESPACE))["items"]
        reasons = [one["reason"] for each in found for one in each.get("status", {}).get("conditions", [])]
        if reasons.count("Applied") == ADDRESSES:
            return
        await asyncio.sleep(1)


def resident(pid: int) -> dict[str, float]:
    """MB in memory: all, and of that anonymous (its own) and of files (shared with whoever runs the same)."""
    with open(f"/proc/{pid}/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {name: round(int(lines[name].split()[0]) / 1024, 1) for name in ("VmRSS", "RssAnon", "RssFile")}
