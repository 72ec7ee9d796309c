"""Another StorageClass: the StatefulSet is made anew around its pods, and the claims of the old one are named."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.spec import names
from broker_operator.spec.names import API_VERSION, BROKER

from .world import NAMESPACE, Table, World, events_of, operating, settled, writes_in

pytestmark = pytest.mark.timeout(400)


async def claim(world: World, ordinal: int, storage: str) -> Table:
    """As the StatefulSet's controller would have made it."""
    body: Table = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.data_claim(world.broker, ordinal), "namespace": NAMESPACE,
            "labels": names.selector(world.broker, "owner"),
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": storage,
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }  # fmt: skip
    return await world.kube.create(body)


async def freed(world: World, kind: str, api_version: str, name: str) -> Table | None:
    """The object; one that is being deleted is let go, as controllers do that an API server alone does not have."""
    found = await world.get(kind, name, api_version)
    if found is not None and found["metadata"].get("deletionTimestamp"):
        with contextlib.suppress(KubeError):  # there are controllers, and they were first
            await world.kube.merge(api_version, kind, NAMESPACE, name, {"metadata": {"finalizers": None}})
        return None
    return found


async def message(world: World, type: str) -> str:
    found: list[Table] = (await world.get(BROKER, world.broker))["status"]["conditions"]
    return str(next(one["message"] for one in found if one["type"] == type))


async def test_another_storage_class_is_for_disks_that_are_made_from_then_on(world):
    await world.make(BROKER, world.broker)
    workload = names.owner_name(world.broker)
    old = await claim(world, 0, "slow")
    async with operating(world) as operator:
        first = await world.until(lambda: world.get("StatefulSet", workload, "apps/v1"))
        await settled(world, operator)
        patch = {"spec": {"owners": {"storage": {"storageClassName": "fast"}}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)

        async def anew() -> Any:
            found = await freed(world, "StatefulSet", "apps/v1", workload)
            return found if found is not None and found["metadata"]["uid"] != first["metadata"]["uid"] else None

        second = await world.until(anew)
        assert second["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
        assert second["spec"]["template"] == first["spec"]["template"], "no pod is replaced"
        assert second["spec"]["replicas"] == first["spec"]["replicas"]
        await world.becomes(BROKER, world.broker, "DisksPlaced", "OtherStorageClass")
        assert f"{names.data_claim(world.broker, 0)} (slow)" in await message(world, "DisksPlaced")
        await settled(world, operator)
        assert not await events_of(world, world.broker, "DriftRepaired"), "nobody else has deleted it"
        assert not await writes_in(operator, 1)
        # The page's next step: this claim goes, and its owner gets another one.
        await world.kube.delete(old)
        await world.until(lambda: is_gone(world, old["metadata"]["name"]))
        new = await claim(world, 0, "fast")
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, {"metadata": {"annotations": {"a": "b"}}})
        await world.becomes(BROKER, world.broker, "DisksPlaced", "Placed")
        await world.kube.delete(new)


async def is_gone(world: World, name: str) -> bool:
    await freed(world, "PersistentVolumeClaim", "v1", name)
    return await world.get("PersistentVolumeClaim", name, "v1") is None
