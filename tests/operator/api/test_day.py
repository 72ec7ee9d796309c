"""docs/day-on-kubernetes.md, typed: every block of commands in its order, at a real API server with the real operator.

Rule: the commands are those of the page, in another namespace. What pods and Kubernetes' own controllers would say is
played."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from broker_operator.kube.kube import KubeError, path_of
from broker_operator.spec import names
from broker_operator.spec.names import ACCEPTOR, BROKER

from .conftest import KUBECONFIG
from .world import NAMESPACE, Pods, World, operating

pytestmark = pytest.mark.timeout(600)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "day-on-kubernetes.md"
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
OWNERS = [f"stomp-owner-{n}" for n in range(3)]
TYPED_S = 240.0


def typed(block: str) -> str:
    """Its output. A command that fails ends it; one before `&& exit 1` has to fail."""
    script = "set -eo pipefail\n" + block.replace("-n mq ", f"-n {NAMESPACE} ")
    env = {**os.environ, "KUBECONFIG": KUBECONFIG}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=TYPED_S, check=False)
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


async def played(world: World) -> None:
    """What controllers and the kubelet would write, again and again: each write of the operator may take it back."""
    sets = {
        ("StatefulSet", "stomp-owner"): {"replicas": 3, "readyReplicas": 3},
        ("Deployment", "stomp-stomp-edge"): {"replicas": 2, "readyReplicas": 2},
    }
    while True:
        for (kind, name), status in sets.items():
            found = await world.get(kind, name, "apps/v1")
            if found is None or status.items() <= found.get("status", {}).items():
                continue
            path = path_of("apps/v1", kind, NAMESPACE, name) + "/status"
            try:
                await world.kube._write("PATCH", path, {"status": status}, "application/merge-patch+json")
            except KubeError as error:
                assert error.status in (404, 409), error
        await asyncio.sleep(0.1)


async def test_the_page_as_it_stands(world):
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: the page is not typed (Debian: apt install kubernetes-client)")
    world.broker = "stomp"
    world.pods = Pods(world.etcd, names.etcd_prefix(NAMESPACE, "stomp"))
    await world.make(BROKER, "stomp", zonesFromNodes=False)
    await world.pods.start(*OWNERS, "stomp-stomp-edge-a", "stomp-stomp-edge-b")
    await world.pods.slots(OWNERS)
    playing = asyncio.create_task(played(world))
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 9
    try:
        async with operating(world):
            await world.make(ACCEPTOR, "stomp-stomp", listeners=[{"name": "stomp", "port": 61613}], replicas=2)
            for block in blocks:
                told = await asyncio.to_thread(typed, block)
                assert "&& exit 1" not in block or "deadLetterAddress is the address itself" in told
            assert not playing.done()

            async def left() -> bool:
                return [key for key in await world.pods.config() if "checkout" in key] == ["quotas/user:checkout"]

            await world.until(left)
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
