"""What a resource may say about its pods: where they run, nothing that lends them rights."""

from __future__ import annotations

import pytest
from broker_operator.world.templates import forbidden, foreign_image

FINE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"}, "tolerations": [], "affinity": {}, "priorityClassName": "high",
        "securityContext": {"fsGroup": 10001},
        "containers": [{
            "name": "edge", "resources": {"limits": {"memory": "1Gi"}}, "env": [{"name": "STAMPEDE_X", "value": "1"}],
            "livenessProbe": {"periodSeconds": 20},
        }],
    },
}  # fmt: skip


def test_placing_and_labelling_is_fine():
    assert forbidden(FINE, "edge") == [] == forbidden({}, "edge")


def ours(**more: object) -> dict:
    return {"spec": {"containers": [{"name": "edge", **more}]}}


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ({"spec": {"serviceAccountName": "mq-operator"}}, "spec.serviceAccountName"),
        ({"spec": {"serviceAccount": "x"}}, "spec.serviceAccount"),
        ({"spec": {"automountServiceAccountToken": True}}, "spec.automountServiceAccountToken"),
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
        ({"spec": {"volumes": [{"name": "s", "secret": {"secretName": "x"}}]}}, "spec.volumes"),
        ({"spec": {"initContainers": [{"name": "x"}]}}, "spec.initContainers"),
        ({"spec": {"ephemeralContainers": []}}, "spec.ephemeralContainers"),
        ({"spec": {"containers": [{"name": "thief", "image": "busybox"}]}}, "spec.containers[thief]"),
        ({"spec": {"containers": ["x"]}}, "spec.containers[None]"),
        ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext.runAsUser"),
        (ours(command=["sh"]), "spec.containers[edge].command"),
        (ours(args=["x"]), "spec.containers[edge].args"),
        (ours(image="busybox"), "spec.containers[edge].image"),
        (ours(securityContext={"privileged": True}), "spec.containers[edge].securityContext"),
        (ours(lifecycle={"postStart": {}}), "spec.containers[edge].lifecycle"),
        (ours(volumeMounts=[]), "spec.containers[edge].volumeMounts"),
        (ours(envFrom=[{"secretRef": {"name": "x"}}]), "spec.containers[edge].envFrom"),
        (ours(env=[{"name": "PYTHONPATH", "value": "/x"}]), "spec.containers[edge].env[PYTHONPATH]"),
        (ours(env=[{"name": "STAMPEDE_X", "valueFrom": {}}]), "spec.containers[edge].env[STAMPEDE_X]"),
        (
            ours(env=[{"name": "STAMPEDE_ACCEPTORS__A__PORT", "value": "1"}]),
            "spec.containers[edge].env[STAMPEDE_ACCEPTORS__A__PORT]",
        ),
        (
            ours(env=[{"name": "STAMPEDE_acceptors.a__url", "value": "x"}]),
            "spec.containers[edge].env[STAMPEDE_acceptors.a__url]",
        ),
        (ours(livenessProbe={"exec": {"command": ["x"]}}), "spec.containers[edge].livenessProbe.exec"),
        ({"metadata": {"ownerReferences": []}}, "metadata.ownerReferences"),
        ({"other": {}}, "other"),
    ],
)
def test_what_lends_rights_is_named(template, path):
    assert forbidden(template, "edge") == [path]


@pytest.mark.parametrize(
    ("image", "foreign"),
    [
        ("", False), ("r.io:5000/stampede:2", False), ("r.io:5000/stampede@sha256:ab", False),
        ("r.io:5000/stampede", False), ("r.io:5000/other:1", True), ("stampede:1", True), ("busybox", True),
    ],
)  # fmt: skip
def test_an_image_of_another_repository(image, foreign):
    assert foreign_image(image, "r.io:5000/stampede:1") is foreign
    assert not foreign_image(image, "")
