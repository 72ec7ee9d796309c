"""`kubectl wait` straight behind a change: no condition that was said before it may end the wait.

Rule: kubectl, API server and operator are real. kubectl compares a condition's `observedGeneration`, else that of the
status, with the resource's generation."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from typing import Any

import pytest
from broker_operator.spec import names
from broker_operator.spec.names import ACCEPTOR, ADDRESS, BACKUP, BROKER, RESTORE, USER

from .conftest import KUBECONFIG
from .world import NAMESPACE, World, operating

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl (Debian: apt install kubernetes-client)"),
]

SPECS: dict[str, dict[str, Any]] = {
    BROKER: {},
    ACCEPTOR: {"listeners": [{"name": "stomp", "port": 61613}], "replicas": 2},
    ADDRESS: {"name": "orders"},
    USER: {},
    BACKUP: {"store": {"volume": {"claimName": "nowhere"}}, "schedule": "0 2 * * *"},
    RESTORE: {"source": {"backupRef": {"name": "nowhere"}}},
}
CHANGES: dict[str, dict[str, Any]] = {
    BROKER: {"quotas": [{"who": "user:a", "maxConnections": 5}]},
    ACCEPTOR: {"replicas": 3},
    ADDRESS: {"settings": {"maxDeliveryAttempts": 7}},
    USER: {"groups": ["shop"]},
    BACKUP: {"schedule": "0 3 * * *"},
    RESTORE: {"deadlineSeconds": 7200},
}


async def kubectl(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "KUBECONFIG": KUBECONFIG}
    return await asyncio.to_thread(
        subprocess.run, ["kubectl", "-n", NAMESPACE, *words], env=env, capture_output=True, text=True, check=False
    )


def place(world: World, kind: str) -> str:
    return f"{names.PLURALS[kind]}.{names.GROUP}/{world.broker if kind == BROKER else f'w-{world.broker}'}"


async def said(world: World, kind: str) -> list[str]:
    """Its conditions as `kubectl wait` is given them, once there are any."""

    async def there() -> list[str]:
        found = await world.get(kind, place(world, kind).partition("/")[2]) or {}
        return [f"{one['type']}={one['status']}" for one in found.get("status", {}).get("conditions", [])]

    return list(await world.until(there))


async def test_what_was_said_before_a_change_ends_no_wait(world):
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world):
        for kind in SPECS:
            await world.make(kind, place(world, kind).partition("/")[2], **SPECS[kind])
        before = {kind: await said(world, kind) for kind in SPECS}
        await world.becomes(ADDRESS, f"w-{world.broker}", "Ready", "Ready")
        await world.becomes(USER, f"w-{world.broker}", "Ready", "Ready")
        before |= {kind: await said(world, kind) for kind in (ADDRESS, USER)}
    for kind, change in CHANGES.items():
        patch = json.dumps({"spec": change})
        done = await kubectl("patch", place(world, kind), "--type=merge", "-p", patch)
        assert done.returncode == 0, done.stderr
    waits = [
        (kind, one, kubectl("wait", place(world, kind), f"--for=condition={one}", "--timeout=10s"))
        for kind, conditions in before.items()
        for one in conditions
    ]
    ended = await asyncio.gather(*(wait for _, _, wait in waits))
    early = [
        (kind, one, done.returncode, done.stderr)
        for (kind, one, _), done in zip(waits, ended, strict=True)
        if done.returncode == 0 or "timed out waiting for the condition" not in done.stderr
    ]
    assert len(waits) > 15 and early == [], "they end the wait before the operator has seen the change"
    async with operating(world):
        for kind, condition in ((BROKER, "Accepted"), (ACCEPTOR, "Accepted"), (ADDRESS, "Programmed"), (USER, "Ready")):
            done = await kubectl("wait", place(world, kind), f"--for=condition={condition}", "--timeout=60s")
            assert done.returncode == 0, done.stderr
        key = f"addresses/{SPECS[ADDRESS]['name']}"
        config = await world.pods.config()
        assert config[key]["max_delivery_attempts"] == 7 and "quotas/user:a" in config
