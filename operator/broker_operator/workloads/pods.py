"""What pods of owners and edges have in common: security, probes, mounts, the configuration file.

Rule: restricted pod security, always. The pod template depends on the resource alone, never on the operator's release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from broker.config.load import from_tree

from ..crds.crds import as_yaml
from ..spec import names
from ..spec.difference import merged
from ..spec.model import BrokerSpec, Table
from ..spec.schema import group_settings

UID = 10001


def secured() -> Table:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def pod_security() -> Table:
    return {
        "runAsNonRoot": True,
        "runAsUser": UID,
        "runAsGroup": UID,
        "fsGroup": UID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def probe(path: str, period: int, failures: int) -> Table:
    return {
        "httpGet": {"path": path, "port": "admin"},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def probes() -> Table:
    """Start-up may take long: an owner reads its journal back."""
    return {
        "startupProbe": probe("/healthz", 1, 600),
        "livenessProbe": probe("/healthz", 10, 6),
        "readinessProbe": probe("/readyz", 2, 2),
    }


def environment() -> list[Table]:
    def field(path: str) -> Table:
        return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}

    return [
        {"name": "POD_NAME", "valueFrom": field("metadata.name")},
        {"name": "STAMPEDE_CONFIG", "value": f"{names.CONFIG_DIR}/{names.CONFIG_FILE}"},
        {"name": "STAMPEDE_CLUSTER__ID", "value": "$(POD_NAME)"},
        {"name": "STAMPEDE_CLUSTER__ZONE", "valueFrom": field(f"metadata.labels['{names.ZONE_LABEL}']")},
    ]


ZONE_WAIT_S = 20
"""So long a pod waits for its zone; without one it starts all the same."""


def zone_wait(spec: BrokerSpec, image: str, asked: Table) -> Table:
    """What lets a pod start when it knows its zone: {} where nobody has to be waited for. The label comes when the pod
    has a node (world/zones.py); variables are read when a container is made, so the one that uses it comes second.
    asked: `resources` of that one."""
    if not spec.zones_from_nodes:
        return {}
    script = f"n=0; until [ -s {names.POD_DIR}/zone ] || [ $n -ge {ZONE_WAIT_S * 5} ]; do n=$((n+1)); sleep 0.2; done"
    wait = {
        "name": "zone",
        "image": image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "pod", "mountPath": names.POD_DIR, "readOnly": True}],
        "securityContext": secured(),
        "resources": asked,
    }
    return {"initContainers": [wait]}


def zone_volume(spec: BrokerSpec) -> list[Table]:
    """The label as a file, which changes when it does."""
    if not spec.zones_from_nodes:
        return []
    reference = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{names.ZONE_LABEL}']"}
    return [{"name": "pod", "downwardAPI": {"defaultMode": 0o444, "items": [{"path": "zone", "fieldRef": reference}]}}]


def secret_volume(name: str, secret: str) -> Table:
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}


def volumes(broker: str, spec: BrokerSpec, config: str, role: str) -> tuple[list[Table], list[Table]]:
    """(volumes, mounts) that owners and edges have both. config: name of the ConfigMap. role: see Etcd.login()."""
    login = spec.etcd.login(role)
    found = [
        {"name": "config", "configMap": {"name": config, "defaultMode": 0o444}},
        {"name": "tmp", "emptyDir": {}},
        secret_volume("components", spec.tls.secret(role) or names.components_secret(broker)),
    ]
    places = {"config": names.CONFIG_DIR, "tmp": "/tmp", "components": names.COMPONENTS_DIR}  # noqa: S108 (of the pod alone)
    for name, secret, place in (
        ("etcd", login.tls_secret_name, names.ETCD_DIR),
        ("etcd-user", login.user_secret_name, names.ETCD_USER_DIR),
        ("redis", spec.redis.password_secret_name if spec.redis else "", names.REDIS_DIR),
        ("metrics-token", spec.scrapers.token_secret_name, names.METRICS_TOKEN_DIR),
    ):
        if secret:
            found.append(secret_volume(name, secret))
            places[name] = place
    mounts: list[Table] = [
        {"name": name, "mountPath": place, **({} if name == "tmp" else {"readOnly": True})}
        for name, place in places.items()
    ]
    return found, mounts


def common_settings(namespace: str, broker: str, spec: BrokerSpec, role: str) -> Table:
    """The configuration file, as far as owners and edges share it. role: `owners` or `edges`."""
    login = spec.etcd.login(role)
    etcd: Table = {
        "endpoints": ",".join(spec.etcd.endpoints),
        "prefix": spec.etcd.prefix or names.etcd_prefix(namespace, broker),
    }
    if login.tls_secret_name:
        etcd |= {"ca_file": f"{names.ETCD_DIR}/ca.crt"}
        etcd |= {"cert_file": f"{names.ETCD_DIR}/tls.crt", "key_file": f"{names.ETCD_DIR}/tls.key"}
    if login.user_secret_name:
        etcd |= {"password_file": f"{names.ETCD_USER_DIR}/password"}
    cluster = {
        **group_settings("cluster", spec.settings.get("cluster", {})),
        "host": "0.0.0.0",
        "port": names.GRPC_PORT,
        "replicas": spec.replication.factor,
        "min_in_sync": spec.replication.min_in_sync,
        "ca_file": f"{names.COMPONENTS_DIR}/ca.crt",
        "cert_file": f"{names.COMPONENTS_DIR}/tls.crt",
        "key_file": f"{names.COMPONENTS_DIR}/tls.key",
    }
    tree: Table = {
        "data": names.DATA_DIR,
        "admin": {"host": "0.0.0.0", "port": names.ADMIN_PORT},
        "etcd": etcd,
        "cluster": cluster,
        "log": {"format": "json", **group_settings("log", spec.settings.get("log", {}))},
    }
    if spec.scrapers.token_secret_name:
        tree["admin"]["token_file"] = f"{names.METRICS_TOKEN_DIR}/{names.METRICS_TOKEN}"
    if spec.redis:
        password = {"password_file": f"{names.REDIS_DIR}/password"} if spec.redis.password_secret_name else {}
        tree["redis"] = {"url": spec.redis.url, "prefix": f"stampede:{namespace}:{broker}:", **password}
    for group in ("engine", "journal", "wire", "tracing"):
        if found := group_settings(group, spec.settings.get(group, {})):
            tree[group] = found
    if found := group_settings("log_reads", spec.settings.get("logReads", {})):
        pair = {"cert_file": cluster["cert_file"], "key_file": cluster["key_file"]}
        tree["log_reads"] = {"host": "0.0.0.0", **pair, **found}
    return tree


def etcd_user(spec: BrokerSpec, role: str) -> list[Table]:
    """The name of etcd's user comes from the Secret, too. role: see Etcd.login()."""
    secret = spec.etcd.login(role).user_secret_name
    if not secret:
        return []
    source = {"secretKeyRef": {"name": secret, "key": "username"}}
    return [{"name": "STAMPEDE_ETCD__USER", "valueFrom": source}]


def config_map(metadata: Table, settings: Table, where: str) -> tuple[Table, str]:
    """(ConfigMap, hash of it). Text first, so that equal settings make equal files. Raises ConfigError for settings
    that the pods would refuse to start with. where: they stand, for people."""
    from_tree(settings, where)
    text = as_yaml(settings)
    return (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {names.CONFIG_FILE: text}},
        hashlib.sha256(text.encode()).hexdigest()[:16],
    )


def pod_template(labels: dict[str, str], config_hash: str, spec: Table, patch: Table) -> Table:
    """patch: the user's `template`, laid over ours. Labels that select pods win."""
    template = {
        "metadata": {"labels": labels, "annotations": {names.CONFIG_HASH: config_hash}},
        "spec": {
            "securityContext": pod_security(),
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            **spec,
        },
    }
    laid: Table = merged(template, patch)
    return merged(laid, {"metadata": {"labels": labels}})  # type: ignore[no-any-return]  # a table stays one


REQUESTS: Mapping[str, str] = {"cpu": "250m", "memory": "256Mi"}
"""Of a container of which nothing is said: what an idle broker and some hundred clients need. Without requests pods are
the first to be evicted, and an autoscaler by CPU has nothing that it could count per cent of. No limits: those are a
decision about one's machines."""


def resources(given: Table) -> Table:
    """`resources` of a container. given: those of the spec; {}: nothing is said."""
    return given or {"requests": dict(REQUESTS)}


def spread(selector: dict[str, str]) -> list[Table]:
    """Over zones and machines, where there are several."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector},
        }
        for key in (names.ZONE_LABEL, "kubernetes.io/hostname")
    ]


def disruption_budget(
    api_version: str, metadata: Table, selector: dict[str, str], most: int, unready_go: bool = False
) -> Table:
    """unready_go: a pod that is not ready may be evicted whatever the rest are. Not of owners: one that lacks one
    replica is not ready, and may have the last copy of another slot; none is when etcd has lost what it knew. Without
    it the API server lets one that is never ready go as long as the rest are."""
    spec: dict[str, Any] = {"maxUnavailable": most, "selector": {"matchLabels": selector}}
    if unready_go:
        spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    return {"apiVersion": api_version, "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def admin_from(broker: str, spec: BrokerSpec) -> list[Table]:
    """Who reaches admin ports in a NetworkPolicy: pods of this broker, ours elsewhere (the operator), and who reads
    metrics. The kubelet is let in always."""
    scrapers = {
        "namespaceSelector": {"matchLabels": spec.scrapers.namespace_labels} if spec.scrapers.namespace_labels else {},
        "podSelector": {"matchLabels": spec.scrapers.pod_labels},
    }
    ours = {"app.kubernetes.io/name": "stampede", "app.kubernetes.io/component": "operator"}
    return [
        {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": broker}}},
        {"namespaceSelector": {}, "podSelector": {"matchLabels": ours}},
        scrapers,
    ]


def admin_service(metadata: Table, selector: dict[str, str], tls: bool = False) -> Table:
    wanted = {"admin": names.ADMIN_PORT} | ({"admin-tls": names.ADMIN_TLS_PORT} if tls else {})
    ports = [{"name": name, "port": port, "targetPort": name, "protocol": "TCP"} for name, port in wanted.items()]
    spec = {"type": "ClusterIP", "selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
