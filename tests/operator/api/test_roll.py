"""Another image, with Kubernetes 1.37's StatefulSet controller: it takes pods of the old template at once that are not
ready, and owners are not ready while another one is replaced.

Rule: the API server and the operator are real, the controller, the kubelet and the owners are played.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker_operator.kube.bundles import LABEL
from broker_operator.kube.kube import KubeError, path_of
from broker_operator.process import Options
from broker_operator.spec import names
from broker_operator.spec.conditions import rfc3339
from broker_operator.spec.names import API_VERSION, BROKER

from broker.seams.entropy import token

from .conftest import KUBECONFIG
from .world import NAMESPACE, Table, World, events_of, operating, vouch

pytestmark = pytest.mark.timeout(300)
STARTS_S = 0.4
"""Until an owner that is made is ready, or lacks nothing any more."""


class Played:
    """The controller of the owners' StatefulSet, its pods, and whether they are ready.

    fewest   ready at a time, since all were.    order   ordinals as they were taken.    templates   → revision."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._name = names.owner_name(world.broker)
        self._made_at: dict[int, float] = {}
        self.templates: dict[str, str] = {}
        self._current = ""
        self.fewest = 3
        self.order: list[int] = []

    async def play(self) -> None:
        while True:
            found = await self._world.get("StatefulSet", self._name, "apps/v1")
            if found is not None:
                await self._turn(found)
            await asyncio.sleep(0.05)

    async def _turn(self, live: dict[str, Any]) -> None:
        template = live["spec"]["template"]
        new = self.templates.setdefault(json.dumps(template, sort_keys=True), f"r{len(self.templates) + 1}")
        self._current = self._current or new
        strategy = live["spec"]["updateStrategy"].get("rollingUpdate") or {}
        selector = ",".join(f"{key}={value}" for key, value in live["spec"]["selector"]["matchLabels"].items())
        there = {
            int(pod["metadata"]["name"].rpartition("-")[2]): pod
            for pod in (await self._world.kube.read_list("v1", "Pod", NAMESPACE, selector))["items"]
        }
        now = time.monotonic()
        lacking = [n for n in range(3) if n not in there or now - self._made_at[n] < STARTS_S]
        # Who leads slots of which a copy is away is not ready, and neither is who has just come.
        ready = [] if lacking else list(there)
        whole = [n for n in there if n not in lacking]
        if len(self._made_at) == 3 and self.templates:
            self.fewest = min(self.fewest, len(whole))
        for ordinal in range(3):
            if ordinal not in there:
                revision = new if ordinal >= strategy.get("partition", 0) else self._current
                await self._create(ordinal, template, revision)
                self._made_at[ordinal] = now
            else:
                await self._told(there[ordinal], ordinal in ready)
        old = [n for n in there if there[n]["metadata"]["labels"]["controller-revision-hash"] != new]
        taken = [n for n in sorted(old, reverse=True) if n >= strategy.get("partition", 0)]
        # The first of them, and each that is not ready.
        for ordinal in taken if lacking else taken[:1]:
            self.order.append(ordinal)
            await self._delete(there[ordinal])
        if not old and len(ready) == 3:
            self._current = new
        path = path_of("apps/v1", "StatefulSet", NAMESPACE, self._name) + "/status"
        status = {
            "observedGeneration": live["metadata"]["generation"], "replicas": len(there), "readyReplicas": len(ready),
            "currentRevision": self._current, "updateRevision": new,
        }  # fmt: skip
        with contextlib.suppress(KubeError):  # somebody was faster; the next turn
            await self._world.kube._write("PATCH", path, {"status": status}, "application/merge-patch+json")

    async def _create(self, ordinal: int, template: dict[str, Any], revision: str) -> None:
        labels = {**template["metadata"]["labels"], "controller-revision-hash": revision}
        name = f"{self._name}-{ordinal}"
        meta = {"name": name, "namespace": NAMESPACE, "labels": labels}
        spec = {
            "containers": [{"name": "owner", "image": template["spec"]["containers"][0]["image"]}],
            "nodeName": "nowhere",
            "serviceAccountName": template["spec"]["serviceAccountName"],
            "automountServiceAccountToken": False,
        }
        await self._world.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def _told(self, pod: dict[str, Any], ready: bool) -> None:
        said = next((one for one in pod.get("status", {}).get("conditions") or () if one["type"] == "Ready"), {})
        if said.get("status") == str(ready):
            return
        status = {
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": rfc3339(time.time())}],
            "containerStatuses": [
                {"name": "owner", "image": "i", "imageID": "i", "ready": ready, "restartCount": 0,
                 "state": {"running": {"startedAt": rfc3339(time.time())}}}
            ],
        }  # fmt: skip
        path = path_of("v1", "Pod", NAMESPACE, pod["metadata"]["name"]) + "/status"
        with contextlib.suppress(KubeError):
            await self._world.kube._write("PATCH", path, {"status": status}, "application/merge-patch+json")

    async def _delete(self, pod: dict[str, Any]) -> None:
        path = path_of("v1", "Pod", NAMESPACE, pod["metadata"]["name"])
        with contextlib.suppress(KubeError):
            await self._world.kube._write("DELETE", path, {"gracePeriodSeconds": 0}, "application/json")


@contextlib.asynccontextmanager
async def playing(world: World) -> AsyncIterator[Played]:
    found = Played(world)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.play())
        yield found
        task.cancel()


@contextlib.asynccontextmanager
async def three_owners(world: World) -> AsyncIterator[Played]:
    """A broker at rest with an operator."""
    await world.make(BROKER, world.broker)
    ids = [f"{world.broker}-owner-{n}" for n in range(3)]
    await world.pods.start(*ids)
    await world.pods.slots(ids)
    async with operating(world), playing(world) as owners:
        await at_rest(world)
        owners.fewest = 3
        yield owners


async def at_rest(world: World) -> None:
    await world.becomes(BROKER, world.broker, "OwnersReady", "Ready")
    await world.becomes(BROKER, world.broker, "RollingOut", "Idle")


async def replaced(world: World, owners: Played) -> None:
    """Each once, one after the other."""
    await world.until(lambda: len(owners.order) >= 3)
    await at_rest(world)
    assert owners.order == [2, 1, 0] and owners.fewest == 2, "two were away at a time"
    live = await world.get("StatefulSet", names.owner_name(world.broker), "apps/v1")
    assert live["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 3


async def test_another_image_takes_one_owner_at_a_time(world):
    async with three_owners(world) as owners:
        patch = {"spec": {"image": "stampede:2"}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        await replaced(world, owners)


async def test_who_waits_for_the_end_of_a_roll_waits_from_its_first_moment(world):
    """All owners are ready when the image has just changed: Ready says nothing of it."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl (Debian: apt install kubernetes-client)")
    broker, env = f"stompbroker/{world.broker}", {**os.environ, "KUBECONFIG": KUBECONFIG}

    def typed(*words: str) -> None:
        subprocess.run(["kubectl", "-n", NAMESPACE, *words], env=env, check=True, capture_output=True)

    async with three_owners(world) as owners:
        await asyncio.to_thread(typed, "patch", broker, "--type=merge", "-p", '{"spec": {"image": "stampede:3"}}')
        await asyncio.to_thread(typed, "wait", broker, "--for=condition=RollingOut=False", "--timeout=100s")
        assert owners.order == [2, 1, 0]


async def test_a_restart_that_kubectl_asks_for_goes_the_same_way(world):
    """`kubectl rollout restart` writes the time into the template: an annotation, so it is nobody's drift."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl (Debian: apt install kubernetes-client)")
    async with three_owners(world) as owners:
        name = names.owner_name(world.broker)
        command = ["kubectl", "-n", NAMESPACE, "rollout", "restart", f"statefulset/{name}"]
        env = {**os.environ, "KUBECONFIG": KUBECONFIG}
        await asyncio.to_thread(subprocess.run, command, env=env, check=True, capture_output=True)
        await replaced(world, owners)
        template = (await world.get("StatefulSet", name, "apps/v1"))["spec"]["template"]
        assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
        assert not await events_of(world, world.broker, "DriftRepaired")


def release(world: World, image: str, grace_s: int) -> Table:
    """What the chart brings of its StompBroker, which names no image: another `grace_s` is another template."""
    spec = {"etcd": {"endpoints": [world.etcd]}, "owners": {"terminationGracePeriodSeconds": grace_s}}
    manifest = {"apiVersion": API_VERSION, "kind": BROKER, "metadata": {"name": world.broker}, "spec": spec}
    return {
        "metadata": {"annotations": {names.OPERATOR: Options().lease, names.OPERATOR_IMAGE: image}},
        "data": {"broker.yaml": json.dumps(manifest)},
    }


async def test_an_upgrade_of_the_release_replaces_each_owner_once(world):
    """The old operator sees the new resources first. It began to replace owners by its own template, and the new one
    replaced them again by another."""
    name = f"bundle-{token(3)}"
    body = release(world, "stampede:1", 120)
    meta = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}, **body["metadata"]}
    world.made.append(await world.kube.create({"apiVersion": "v1", "kind": "ConfigMap", **body, "metadata": meta}))
    await vouch(world, name)
    ids = [f"{world.broker}-owner-{n}" for n in range(3)]
    await world.pods.start(*ids)
    await world.pods.slots(ids)
    async with playing(world) as owners:
        async with operating(world, Options((NAMESPACE,), "stampede:1", bundles=None)):
            await at_rest(world)
            owners.fewest = 3
            await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, release(world, "stampede:2", 180))
            await vouch(world, name)

            async def awaited() -> bool:
                return bool(await events_of(world, name, "OperatorAwaited"))

            await world.until(awaited)
            assert not owners.order and (await world.condition(BROKER, world.broker, "RollingOut"))[1] == "Idle"
        async with operating(world, Options((NAMESPACE,), "stampede:2", bundles=None)):
            await replaced(world, owners)
            assert len(owners.templates) == 2, "each new template is a roll"
            live = await world.get("StatefulSet", names.owner_name(world.broker), "apps/v1")
            pod = live["spec"]["template"]["spec"]
            assert pod["containers"][0]["image"] == "stampede:2" and pod["terminationGracePeriodSeconds"] == 180
