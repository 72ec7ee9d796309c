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
            "name": "edge", "resources": {"limits": {"memory": "1Gi"}},
            "env": [{"name": "STAMPEDE_EDGE__MAX_OUTBOX_BYTES", "value": "1MiB"}],
            "livenessProbe": {"periodSeconds": 20},
        }],
    },
}  # fmt: skip


def test_placing_and_labelling_is_fine():
    assert forbidden(FINE, "edge") == [] == forbidden({}, "edge")


def test_variables_of_owners_are_those_of_their_settings():
    said = {"spec": {"containers": [{"name": "owner", "env": [{"name": name, "value": "1"} for name in (
        "STAMPEDE_JOURNAL__SYNC", "STAMPEDE_MEMORY__LIMIT_BYTES", "STAMPEDE_CLUSTER__LEASE_S", "STAMPEDE_EDGE__DIALECT",
        "STAMPEDE_CLUSTER__ADVERTISE", "STAMPEDE_LOG__AUDIT_FILE")]}]}}  # fmt: skip
    refused = ["STAMPEDE_CLUSTER__ADVERTISE", "STAMPEDE_EDGE__DIALECT", "STAMPEDE_LOG__AUDIT_FILE"]
    assert forbidden(said, "owner") == [f"spec.containers[owner].env[{name}]" for name in refused]


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
        (
            ours(env=[{"name": "STAMPEDE_LOG__LEVEL", "valueFrom": {}}]),
            "spec.containers[edge].env[STAMPEDE_LOG__LEVEL]",
        ),
        (
            ours(env=[{"name": "STAMPEDE_ACCEPTORS__A__PORT", "value": "1"}]),
            "spec.containers[edge].env[STAMPEDE_ACCEPTORS__A__PORT]",
        ),
        (
            ours(env=[{"name": "STAMPEDE_acceptors.a__url", "value": "x"}]),
            "spec.containers[edge].env[STAMPEDE_acceptors.a__url]",
        ),
        *(
            (ours(env=[{"name": name, "value": "x"}]), f"spec.containers[edge].env[{name}]")
            for name in (
                "STAMPEDE_ETCD__ENDPOINTS",
                "STAMPEDE_CONFIG",
                "STAMPEDE_CLUSTER__ID",
                "STAMPEDE_ADMIN__ADMINISTRATORS",
                "STAMPEDE_EDGE__LOGIN_BY",
                "STAMPEDE_EDGE__ISSUERS.X.URL",
                "STAMPEDE_EDGE__CLIENT_IDS",
                "STAMPEDE_EDGE__PERMISSIONS_REQUIRED",
                "STAMPEDE_edge.users_file",
                "STAMPEDE_BRIDGES.X.URL",
                "STAMPEDE_JOURNAL__SYNC",
                "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
            )
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
