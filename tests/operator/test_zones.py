"""Pods hear the zone of their node, once, whatever else happens to them."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.kube.kube import KubeError
from broker_operator.spec.names import ZONE_LABEL, Id
from broker_operator.world.zones import AGAIN_S, ZONE, Zones, on_node

POD, KEY = Id("Pod", "mq", "stomp-owner-0"), Id(ZONE, "mq", "stomp-owner-0")


def pod(node: str = "n1", zone: str = "") -> dict[str, Any]:
    labels = {"app": "x", **({ZONE_LABEL: zone} if zone else {})}
    meta = {"name": POD.name, "namespace": "mq", "uid": "u", "labels": labels, "annotations": {"a": "b"}}
    return on_node({"metadata": meta, "spec": {"nodeName": node, "containers": [{}]}, "status": {"x": 1}})


class Server:
    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, str]] = {"n1": {ZONE_LABEL: "eu-1a"}, "bare": {}}
        self.reads: list[str] = []
        self.writes: list[tuple[str, str, dict[str, Any]]] = []
        self.read_error = self.write_error = 0

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (api_version, kind, namespace) == ("v1", "Node", "")
        self.reads.append(name)
        if self.read_error:
            raise KubeError(self.read_error, "no")
        return {"metadata": {"labels": self.nodes[name]}} if name in self.nodes else None

    async def merge(self, _: str, kind: str, namespace: str, name: str, patch: dict[str, Any]) -> None:
        if self.write_error:
            raise KubeError(self.write_error, "no")
        assert patch["metadata"]["uid"] == "u", "the next pod of its name may be on another node"
        self.writes.append((kind, f"{namespace}/{name}", patch["metadata"]["labels"]))


class World:
    def __init__(self) -> None:
        self.server, self.queued = Server(), []
        self.zones = Zones(self.server, self.queued.append)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def test_little_is_kept_of_a_pod():
    assert pod(zone="z") == {
        "apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": "n1"},
        "metadata": {"name": POD.name, "namespace": "mq", "uid": "u", "labels": {ZONE_LABEL: "z"}},
    }  # fmt: skip


async def test_a_pod_that_has_a_node_gets_its_zone(world):
    world.zones.on_pod(POD, pod(node=""))
    assert world.queued == [], "it has no node yet"
    world.zones.on_pod(POD, pod())
    assert world.queued == [KEY] and await world.zones.tell(KEY) is None
    assert world.server.writes == [("Pod", "mq/stomp-owner-0", {ZONE_LABEL: "eu-1a"})]
    world.zones.on_pod(POD, pod(zone="eu-1a"))
    assert await world.zones.tell(KEY) is None and len(world.server.writes) == 1


async def test_what_kubernetes_says_itself_stays(world):
    world.zones.on_pod(POD, pod(zone="by-kubernetes"))
    assert world.queued == [] and not world.server.reads


async def test_a_node_is_read_once_and_one_without_a_zone_again(world):
    for _ in range(2):
        world.zones.on_pod(POD, pod())
        await world.zones.tell(KEY)
    assert world.server.reads == ["n1"]
    for node in ("bare", "bare", "gone"):
        world.zones.on_pod(POD, pod(node))
        assert await world.zones.tell(KEY) is None
    assert world.server.reads == ["n1", "bare", "bare", "gone"] and len(world.server.writes) == 2


async def test_without_the_right_to_read_nodes_it_says_so_and_asks_again(world, caplog):
    world.server.read_error = 403
    world.zones.on_pod(POD, pod())
    assert await world.zones.tell(KEY) == AGAIN_S and "may not read nodes" in caplog.text
    world.server.read_error = 0
    assert await world.zones.tell(KEY) is None and len(world.server.writes) == 1


@pytest.mark.parametrize("step", ["read_error", "write_error"])
async def test_an_api_server_that_is_away_is_asked_again(world, step):
    setattr(world.server, step, 503)
    world.zones.on_pod(POD, pod())
    with pytest.raises(KubeError):
        await world.zones.tell(KEY)
    setattr(world.server, step, 0)
    assert await world.zones.tell(KEY) is None and len(world.server.writes) == 1


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_has_gone_meanwhile_is_no_error(world, status):
    """409: there is another one of its name."""
    world.server.write_error = status
    world.zones.on_pod(POD, pod())
    assert await world.zones.tell(KEY) is None
