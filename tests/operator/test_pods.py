"""Pods: restricted, named, and laid over by templates but for what selects them."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from broker_operator.process import versions
from broker_operator.spec import names
from broker_operator.spec.model import AcceptorSpec, BrokerSpec
from broker_operator.spec.names import ACCEPTOR, BROKER
from broker_operator.workloads import edges, owners
from broker_operator.workloads.owners import Versions

from .builders import resource


def made(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def broker_objects(
    live: dict | None = None, replicas: int = 3, api: Versions | None = None, **spec: Any
) -> list[dict[str, Any]]:
    broker = resource(BROKER, **spec)
    return owners.objects(broker, broker.spec(BrokerSpec), "stampede:1", replicas, live, api or Versions())


def edge_objects(shared: dict | None = None, api: Versions | None = None, **spec: Any) -> list[dict[str, Any]]:
    acceptor, broker = resource(ACCEPTOR, **spec), resource(BROKER, **(shared or {}))
    return edges.objects(
        acceptor, acceptor.spec(AcceptorSpec), "stomp", broker.spec(BrokerSpec), "stampede:1", api or Versions()
    )


@pytest.mark.parametrize("objects", [broker_objects(), edge_objects()], ids=["owners", "edges"])
def test_pods_are_restricted_and_named_as_the_decision_record_says(objects):
    workload = next(one for one in objects if one["kind"] in ("StatefulSet", "Deployment"))
    template = workload["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert (
        pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert not pod["automountServiceAccountToken"]
    assert container["startupProbe"]["httpGet"] == {"path": "/healthz", "port": "admin"}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert workload["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert {one["topologyKey"] for one in pod["topologySpreadConstraints"]} == {
        "topology.kubernetes.io/zone", "kubernetes.io/hostname",
    }  # fmt: skip
    for one in objects:
        assert one["metadata"]["ownerReferences"][0]["controller"]
        assert not one["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
        assert one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "stampede-operator"


def test_a_template_is_laid_over_ours_but_never_over_the_labels_that_select():
    patch = {
        "metadata": {"labels": {"team": "x", "app.kubernetes.io/component": "y"}, "annotations": {"a": "b"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "containers": [{"name": "owner", "env": [{"name": "X", "value": "1"}]}, {"name": "side", "image": "s"}],
        },
    }
    template = made("StatefulSet", broker_objects(owners={"template": patch}))["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "x"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "owner"
    assert template["metadata"]["annotations"].keys() == {"a", names.CONFIG_HASH}
    assert template["spec"]["nodeSelector"] == {"disk": "fast"}
    owner, side = template["spec"]["containers"]
    assert side["name"] == "side" and owner["image"] == "stampede:1"
    assert {one["name"] for one in owner["env"]} > {"POD_NAME", "X"}


def test_the_configuration_file_is_one_that_people_can_read():
    text = made("ConfigMap", edge_objects())["data"][names.CONFIG_FILE]
    assert yaml.safe_load(text)["acceptors"]["stomp"]["port"] == 61613


@pytest.mark.parametrize("role", ["owner", "edge"])
def test_pods_that_learn_their_zone_from_their_node_wait_for_it(role):
    def pod(**spec: Any) -> dict[str, Any]:
        objects = broker_objects(**spec) if role == "owner" else edge_objects(spec)
        found: dict[str, Any] = made("StatefulSet" if role == "owner" else "Deployment", objects)["spec"]["template"]
        return found["spec"]

    plain, waiting = pod(), pod(zonesFromNodes=True)
    assert "initContainers" not in plain and "pod" not in [volume["name"] for volume in plain["volumes"]]
    (wait,) = waiting["initContainers"]
    (container,) = waiting["containers"]
    assert wait["securityContext"] == container["securityContext"] and wait["image"] == container["image"]
    assert wait["resources"] == container["resources"], "a quota may want them of every container"
    (volume,) = [volume for volume in waiting["volumes"] if volume["name"] == "pod"]
    (item,) = volume["downwardAPI"]["items"]
    assert item["fieldRef"]["fieldPath"] == "metadata.labels['topology.kubernetes.io/zone']"
    assert f"{names.POD_DIR}/{item['path']}" in wait["command"][2]
    read = {one["name"]: one for one in container["env"]}["STAMPEDE_CLUSTER__ZONE"]["valueFrom"]["fieldRef"]
    assert read["fieldPath"] == item["fieldRef"]["fieldPath"]


@pytest.mark.parametrize(("text", "seconds"), [("eu-1a", 5), ("", 0)])
def test_the_wait_ends_when_there_is_a_zone_and_otherwise_by_itself(tmp_path, text, seconds, monkeypatch):
    monkeypatch.setattr("broker_operator.workloads.pods.ZONE_WAIT_S", seconds)
    monkeypatch.setattr(names, "POD_DIR", str(tmp_path))
    (tmp_path / "zone").write_text(text)
    (wait,) = made("StatefulSet", broker_objects(zonesFromNodes=True))["spec"]["template"]["spec"]["initContainers"]
    subprocess.run(wait["command"], check=True, timeout=60)


@pytest.mark.parametrize(
    ("made_by", "more"), [(broker_objects, {}), (edge_objects, {"unhealthyPodEvictionPolicy": "AlwaysAllow"})],
    ids=["owners", "edges"],
)  # fmt: skip
def test_a_pod_that_is_never_ready_keeps_no_node_from_being_drained(made_by, more):
    """Where the API server knows the field; an older one would leave it out, and be asked for it for ever. Of owners as
    long as the others are ready, which is what the API server does by itself."""
    old = made("PodDisruptionBudget", made_by())["spec"]
    assert old["maxUnavailable"] == 1 and "unhealthyPodEvictionPolicy" not in old
    assert "minAvailable" not in old, "with one pod alone that would block for ever"
    new = made("PodDisruptionBudget", made_by(api=Versions(unready_go=True)))["spec"]
    assert new == {**old, **more}


@pytest.mark.parametrize(("group", "known"), [({}, False), ({"flowcontrol.apiserver.k8s.io": ["v1beta3", "v1"]}, True)])
async def test_what_the_api_server_knows_is_asked_of_it(group, known):
    class Server:
        async def served(self) -> dict[str, list[str]]:
            return {"policy": ["v1"], "autoscaling": ["v2"], **group}

    assert (await versions(Server())).unready_go is known  # type: ignore[arg-type]
