"""Bundles: ConfigMaps with manifests, for which a Secret vouches."""

from __future__ import annotations

import json
import shutil

import pytest
from broker_operator.kube.bundles import DONE, LABEL, REFUSED, digest
from broker_operator.process import Options
from broker_operator.spec.names import ADDRESS, API_VERSION, BROKER, USER, Id

from broker.seams.entropy import token

from .test_waits import kubectl
from .world import NAMESPACE, Table, empty, events_of, operating, vouch

pytestmark = pytest.mark.timeout(400)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl (Debian: apt install kubernetes-client)")
async def test_a_bundle_becomes_resources_that_a_person_may_change(world):
    name = f"bundle-{token(3)}"
    spec = {"image": "stampede:1", "etcd": {"endpoints": [world.etcd]}}
    manifest = {"apiVersion": API_VERSION, "kind": BROKER, "metadata": {"name": world.broker}, "spec": spec}
    bad = {"apiVersion": API_VERSION, "kind": ADDRESS, "metadata": {"name": "bad"}, "spec": {}}
    body: Table = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"broker.yaml": json.dumps(manifest)}}
    body["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}}
    async with operating(world):
        bundle = await world.kube.create(body)
        world.made.append(bundle)

        async def refused() -> bool:
            return any("nobody vouches" in one["message"] for one in await events_of(world, name))

        await world.until(refused)
        assert await world.get(BROKER, world.broker) is None
        await vouch(world, name)
        # As a pipeline waits behind `helm upgrade`.
        annotation = "jsonpath={.metadata.annotations.stampede\\.dev/resources-applied}"
        done = await kubectl("wait", f"configmap/{name}", f"--for={annotation}={digest(body['data'])}", "--timeout=60s")
        assert done.returncode == 0, done.stderr
        found = await world.until(lambda: world.get(BROKER, world.broker))
        assert found["metadata"]["ownerReferences"][0]["name"] == name
        patch = {"spec": {"owners": {"replicas": 5}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        data = {"broker.yaml": json.dumps(manifest), "bad.yaml": json.dumps(bad)}
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": data})
        await vouch(world, name)

        async def told() -> bool:
            return any("spec.name" in one["message"] for one in await events_of(world, name))

        await world.until(told)

        async def noted() -> bool:
            notes = (await world.get("ConfigMap", name, "v1"))["metadata"]["annotations"]
            return DONE not in notes and "spec.name" in notes.get(REFUSED, "")

        await world.until(noted)
        assert (await world.get(BROKER, world.broker))["spec"]["owners"]["replicas"] == 5
        manifest["spec"]["owners"] = {"replicas": 4}
        data = {"broker.yaml": json.dumps(manifest), "bad.yaml": None}
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": data})
        await vouch(world, name)

        async def upgraded() -> bool:
            return (await world.get(BROKER, world.broker))["spec"]["owners"]["replicas"] == 4

        await world.until(upgraded)
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": {"broker.yaml": None}})
        await vouch(world, name)

        async def gone() -> bool:
            return await world.get(BROKER, world.broker) is None

        await world.until(gone)


async def test_a_user_that_goes_while_an_operator_starts_is_gone_soon(world):
    """What was taken out of a bundle while no operator ran is deleted by the next one at once: before it has a watch of
    users that would tell it."""
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    name, user = f"bundle-{token(3)}", f"u-{token(3)}"
    manifest = {"apiVersion": API_VERSION, "kind": USER, "metadata": {"name": user}}
    manifest["spec"] = {"brokerRef": {"name": world.broker}}
    body: Table = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"user.yaml": json.dumps(manifest)}}
    body["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}}
    world.made.append(await world.kube.create(body))
    await vouch(world, name)
    async with operating(world):
        await world.becomes(USER, user, "Ready", "Ready")
        assert set(await world.pods.config()) == {f"users/{user}"}
    await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": {"user.yaml": None}})
    await vouch(world, name)
    async with operating(world) as operator:
        await world.until(lambda: empty(world))
        assert Id(USER, NAMESPACE, user) not in operator.cache.resources


async def test_a_bundle_counts_only_where_the_operator_was_told(world):
    name = f"bundle-{token(3)}"
    manifest = {"apiVersion": API_VERSION, "kind": USER, "metadata": {"name": name}, "spec": {}}
    body: Table = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"user.yaml": json.dumps(manifest)}}
    body["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}}
    world.made.append(await world.kube.create(body))
    await vouch(world, name)

    async def told() -> bool:
        return any("--bundle-namespaces" in one["message"] for one in await events_of(world, name))

    async with operating(world, Options((NAMESPACE,), "stampede:1", bundles=("elsewhere",))):
        await world.until(told)
        assert await world.get(USER, name) is None
    async with operating(world, Options((NAMESPACE,), "stampede:1", bundles=(NAMESPACE,))):
        world.made.append(await world.until(lambda: world.get(USER, name)))
