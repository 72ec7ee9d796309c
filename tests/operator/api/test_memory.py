"""What the operator costs: its process, a real API server, a real etcd, a thousand addresses.

`pytest -s tests/operator/api/test_memory.py` prints the figures; TEST_ADDRESSES=10000 for more of them (wanted:
Programmed within five minutes, 200 MB, and a restart of the operator that writes 50 times at most)."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from broker_operator.kube.kube import KubeError, path_of
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER

from broker.seams.entropy import token
from tests.harness import free_ports

from .conftest import KUBECONFIG
from .world import NAMESPACE, World

ADDRESSES = int(os.environ.get("TEST_ADDRESSES", "1000"))
MOST_MB = 80 if ADDRESSES <= 1000 else 200
RESTART_WRITES = 50
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
    lease = f"lease-{token(3)}"
    try:
        began = time.monotonic()
        async with running(lease) as (pid, _):
            await all_programmed(world)
            took = time.monotonic() - began
            deadline = asyncio.get_running_loop().time() + CALM_S
            while (found := resident(pid)) and found["VmRSS"] > MOST_MB:
                if asyncio.get_running_loop().time() > deadline:
                    break
                await asyncio.sleep(1)
            print(f"\noperator with {ADDRESSES} addresses: {found}, all Programmed {took:.1f} s after it began")
            assert found["VmRSS"] <= MOST_MB
        async with running(lease) as (pid, port):
            written = await at_rest(port)
            print(f"another one in its place: {written} writes")
            assert written <= RESTART_WRITES
    finally:
        await nobody_left(world)
        world.made = [one for one in world.made if one["kind"] != ADDRESS]


@asynccontextmanager
async def running(lease: str) -> AsyncIterator[tuple[int, int]]:
    """An operator as its pod runs it: its process and its port."""
    (port,) = free_ports(1)
    more = {"KUBECONFIG": KUBECONFIG, "STAMPEDE_OPERATOR_LEASE": lease, "STAMPEDE_OPERATOR_PORT": str(port)}
    operator = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("stampede-operator")), "run", "--namespaces", NAMESPACE,
        "--image", "stampede:1", "--lease-namespace", NAMESPACE, env={**os.environ, **more},
    )  # fmt: skip
    try:
        yield operator.pid, port
    finally:
        operator.terminate()
        await operator.wait()


async def at_rest(port: int) -> int:
    """Every resource was looked at and nothing is about to be done; what was written by then, but for the lease."""
    before, since = "", time.monotonic()
    async with aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    text = await answer.text()
            except aiohttp.ClientError:
                text = ""  # it has not begun to listen
            looked = sum(int(n) for n in re.findall(r'reconcile_total\{kind="Address".*\} (\d+)', text))
            writes = {kind: int(n) for kind, n in re.findall(r'api_writes_total\{kind="(\S+)"\} (\d+)', text)}
            writes.pop("Lease", None)
            now = f"{looked} {writes}"
            if now != before or looked < ADDRESSES:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > 5:
                return sum(writes.values())
            await asyncio.sleep(0.5)


async def all_programmed(world: World) -> None:
    """Every status says so. The test's own limit of time ends it if that never happens."""
    while True:
        found = (await world.kube.read_list(API_VERSION, ADDRESS, NAMESPACE))["items"]
        reasons = [one["reason"] for each in found for one in each.get("status", {}).get("conditions", [])]
        if reasons.count("Applied") == ADDRESSES:
            return
        await asyncio.sleep(ADDRESSES / 1000)  # 10,000 of them are 30 MB: read each second they were much of the load


async def nobody_left(world: World) -> None:
    """On a busy machine thousands take longer than a question may: asked again, those that are left go."""
    while True:
        try:
            await world.kube._write("DELETE", path_of(API_VERSION, ADDRESS, NAMESPACE), {}, "application/json")
            return
        except KubeError as error:
            if error.status:
                raise


def resident(pid: int) -> dict[str, float]:
    """MB in memory: all, and of that anonymous (its own) and of files (shared with whoever runs the same)."""
    with open(f"/proc/{pid}/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return {name: round(int(lines[name].split()[0]) / 1024, 1) for name in ("VmRSS", "RssAnon", "RssFile")}
