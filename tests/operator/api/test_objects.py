"""What the operator makes of a broker and its acceptors: workloads, services, and when owners may go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_operator.process import Operator
from broker_operator.spec import names
from broker_operator.spec.names import ACCEPTOR, API_VERSION, BROKER, USER

from broker.seams.entropy import token

from .world import NAMESPACE, Table, World, all_told, events_of, operating, settled, writes_in

pytestmark = pytest.mark.timeout(400)


async def test_objects_are_made_repaired_and_not_written_without_need(world):
    await world.make(BROKER, world.broker)
    edge, user = f"e-{token(3)}", f"u-{token(3)}"
    async with operating(world) as operator:
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], autoscaling={})
        await world.make(USER, user)
        await world.until(lambda: world.get("HorizontalPodAutoscaler", f"{edge}-edge", operator_api(operator)))
        await world.until(lambda: world.get("StatefulSet", f"{world.broker}-owner", "apps/v1"))
        await settled(world, operator)
        assert operator.kube.writes and not await writes_in(operator, 2)
        await world.kube.merge(
            "v1", "Service", NAMESPACE, edge, {"spec": {"selector": {"x": "y", names.ACCEPTOR_LABEL: "z"}}}
        )
        deployment = await world.get("Deployment", f"{edge}-edge", "apps/v1")
        await world.kube.delete(deployment)

        async def repaired() -> bool:
            service = await world.get("Service", edge, "v1")
            made = await world.get("Deployment", f"{edge}-edge", "apps/v1")
            selector = service["spec"]["selector"]
            right = selector[names.ACCEPTOR_LABEL] == edge and "x" not in selector
            return right and made is not None and made["metadata"]["uid"] != deployment["metadata"]["uid"]

        await world.until(repaired)
        await world.until(lambda: operator.applier.drifts >= 2)
        told = await world.until(lambda: all_told(world, edge, "DriftRepaired", 2))
        messages = sorted(one["message"] for one in told)
        assert f"{edge}-edge was changed by somebody else and is repaired: it was deleted" in messages[0]
        assert 'spec.selector.stampede.dev/acceptor was "z"' in messages[1]
        # What is not wanted any more goes.
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": {"autoscaling": None}})

        async def gone() -> bool:
            return await world.get("HorizontalPodAutoscaler", f"{edge}-edge", operator_api(operator)) is None

        await world.until(gone)
    async with operating(world) as operator:
        await settled(world, operator)
        # A new operator knows nothing of what the server makes of an object, so it applies some once; then no more.
        assert not await writes_in(operator, 2)


async def test_a_configuration_that_somebody_makes_immutable_is_made_anew(world):
    """Who may write ConfigMaps had had the broker's settings for good: nothing of such a one can be put right."""
    await world.make(BROKER, world.broker)
    name = names.owner_name(world.broker)
    async with operating(world) as operator:
        ours = await world.until(lambda: world.get("ConfigMap", name, "v1"))
        await settled(world, operator)
        theirs = {"data": {names.CONFIG_FILE: "admin: {port: 1}"}, "immutable": True}
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, theirs)

        async def repaired() -> bool:
            found = await world.get("ConfigMap", name, "v1")
            return found is not None and found["data"] == ours["data"] and "immutable" not in found

        await world.until(repaired)
        (told,) = await world.until(lambda: all_told(world, world.broker, "DriftRepaired", 1))
        assert "immutable was true" in told["message"]
        await settled(world, operator)
        assert not await writes_in(operator, 1)


async def test_what_leaves_a_spec_leaves_the_object_and_an_autoscaler_takes_the_pool_as_it_is(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    spec = {"replicas": 5, "service": {"type": "ClusterIP", "annotations": {"a": "b"}}}
    spec |= {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}
    async with operating(world):
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], **spec)

        async def pool() -> tuple[Any, Any, Any]:
            service, pods = (
                await world.get("Service", edge, "v1"),
                await world.get("Deployment", f"{edge}-edge", "apps/v1"),
            )
            if service is None or pods is None:
                return None, None, None
            selector = pods["spec"]["template"]["spec"].get("nodeSelector")
            return pods["spec"]["replicas"], selector, service["metadata"]["annotations"].get("a")

        async def becomes(*wanted: Any) -> None:
            async def check() -> bool:
                return await pool() == wanted

            await world.until(check)

        async def change(**spec: Any) -> None:
            await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": spec})

        await becomes(5, {"disk": "fast"}, "b")
        await change(service={"annotations": None})
        await becomes(5, {"disk": "fast"}, None)
        await change(replicas=None, autoscaling={})
        await world.until(lambda: world.get("HorizontalPodAutoscaler", f"{edge}-edge", "autoscaling/v1"))
        await change(template=None)
        await becomes(5, None, None)


async def test_what_the_api_server_refuses_is_said(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    async with operating(world):
        template = {"spec": {"dnsPolicy": "Sometimes"}}
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], template=template)
        await world.becomes(ACCEPTOR, edge, "Accepted", "Refused")
        (told,) = await world.until(lambda: events_of(world, edge, "Refused"))
        assert "dnsPolicy" in told["message"]
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": {"template": None}})
        await world.becomes(ACCEPTOR, edge, "Accepted", "Accepted")


def operator_api(operator: Operator) -> str:
    return operator.workloads._api.autoscaling


async def test_an_object_of_somebody_else_is_not_taken_over(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    service: Table = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": edge, "namespace": NAMESPACE}}
    service |= {"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}}
    world.made.append(await world.kube.create(service))
    async with operating(world):
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}])
        await world.becomes(ACCEPTOR, edge, "Accepted", "NameTaken")
    assert (await world.get("Service", edge, "v1"))["spec"]["selector"] == {"a": "b"}


async def test_owners_go_only_when_they_keep_nothing(world):
    await world.make(BROKER, world.broker, owners={"replicas": 4})
    ids = [f"{world.broker}-owner-{n}" for n in range(4)]
    await world.pods.start(*ids)
    await world.pods.slots(ids)
    async with operating(world):
        await world.becomes(BROKER, world.broker, "FullyReplicated", "InSync")
        patch = {"spec": {"owners": {"replicas": 3}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        await world.becomes(BROKER, world.broker, "ScalingDown", "Moving")
        assert await replicas(world) == 4
        assert await world.pods.metadata.get(world.pods.keys.cordon(ids[3])) is not None
        assert (await world.get(BROKER, world.broker))["status"]["owners"]["holding"] == 256
        await world.pods.slots(ids[:3])

        async def shrunk() -> bool:
            return await replicas(world) == 3

        await world.until(shrunk)
        await world.becomes(BROKER, world.broker, "ScalingDown", "Idle")

        async def free() -> bool:
            return await world.pods.metadata.get(world.pods.keys.cordon(ids[3])) is None

        await world.until(free)
        told = await world.until(lambda: all_told(world, world.broker, "Owners", 4))
        assert [one["reason"] for one in told] == ["OwnersCordoned", "OwnersMoving", "OwnersRemoving", "OwnersRemoved"]


async def test_connections_are_told_in_steps(world):
    """From `load/<edge>` to `kubectl get`; numbers that stay are not written."""
    await world.make(BROKER, world.broker)
    edge, other = f"e-{token(3)}", f"e-{token(3)}"
    pods = [f"{edge}-edge-6c5d7f-{name}" for name in ("aaaaa", "bbbbb")]
    for pod, count in ((pods[0], 100), (pods[1], 50), (f"{other}-edge-6c5d7f-ccccc", 7)):
        await world.pods.metadata.put(world.pods.keys.load_of(pod), json.dumps({"connections": count}).encode())
    async with operating(world) as operator:
        for name in (edge, other):
            await world.make(ACCEPTOR, name, listeners=[{"name": "stomp", "port": 61613}])

        async def shown(name: str) -> Table:
            status = ((await world.get(ACCEPTOR, name)) or {}).get("status", {})
            return {key: status.get(key) for key in ("connections", "connectionsPerPod")}

        async def becomes(name: str, total: int, least: int, most: int) -> None:
            wanted = {"connections": total, "connectionsPerPod": {"least": least, "most": most}}

            async def check() -> bool:
                return await shown(name) == wanted

            await world.until(check)

        await becomes(edge, 150, 50, 100)
        await becomes(other, 7, 7, 7)
        await settled(world, operator)
        assert not await writes_in(operator, 2)
        await world.pods.metadata.put(world.pods.keys.load_of(pods[1]), b'{"connections": 300}')
        await becomes(edge, 400, 100, 300)
        await world.pods.metadata.delete(world.pods.keys.load_of(pods[0]))
        await becomes(edge, 300, 300, 300)


async def replicas(world: World) -> int:
    found = await world.get("StatefulSet", f"{world.broker}-owner", "apps/v1")
    return int(found["spec"]["replicas"])


async def test_a_template_says_where_pods_run_and_no_more(world):
    """A writer of StompAcceptors is no writer of pods: with another service account they would read every Secret."""
    await world.make(BROKER, world.broker)
    sidecar = {"containers": [{"name": "thief", "image": "busybox"}], "serviceAccountName": "mq-operator"}
    listeners = [{"name": "stomp", "port": 61613}]
    async with operating(world):
        await world.make(ACCEPTOR, "edge", listeners=listeners, template={"spec": sidecar})

        async def refused() -> bool:
            return (await world.condition(ACCEPTOR, "edge", "Accepted"))[1] == "TemplateRefused"

        await world.until(refused)
        found = await world.get(ACCEPTOR, "edge")
        (why,) = [one["message"] for one in found["status"]["conditions"] if one["type"] == "Accepted"]
        assert "spec.serviceAccountName" in why and "spec.containers[thief]" in why
        assert await world.get("Deployment", names.edge_name("edge"), "apps/v1") is None
        fine = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}, "serviceAccountName": None}}}}
        fine["spec"]["template"]["spec"]["containers"] = None
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, "edge", fine)
        made = await world.until(lambda: world.get("Deployment", names.edge_name("edge"), "apps/v1"))
        assert made["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}
