"""StompBroker → the objects of its owners, and how many owners there may be while slots are moved away.

Rule: pure. An owner that keeps anything is never taken away; names and selectors never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from broker.core.errors import ConfigError

from ..spec import names
from ..spec.model import BrokerSpec, Resource, Table, mark_of
from .pods import (
    admin_from,
    admin_service,
    common_settings,
    config_map,
    disruption_budget,
    environment,
    etcd_user,
    pod_template,
    probes,
    resources,
    secured,
    spread,
    volumes,
    zone_volume,
    zone_wait,
)  # fmt: skip


class Versions(NamedTuple):
    """API versions of this cluster, by group. gateway: of its routes, "" = there are none. unready_go: a
    PodDisruptionBudget knows unhealthyPodEvictionPolicy."""

    policy: str = "policy/v1"
    autoscaling: str = "autoscaling/v2"
    tcp_routes: str = ""
    tls_routes: str = ""
    unready_go: bool = False


class Scaling(NamedTuple):
    """replicas: of the StatefulSet now. cordon, uncordon: owners' ids. holding: copies on those that are to go.
    reason: "" = nobody is being removed."""

    replicas: int
    cordon: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()
    holding: int = 0
    reason: str = ""


def scaling(
    broker: str,
    wanted: int,
    current: int,
    there: int,
    holding: Mapping[str, int],
    cordoned: frozenset[str],
    known: bool,
) -> Scaling:
    """The next step from `current` owners to `wanted`.

    current   of the StatefulSet's spec.      there   pods that live, those that are ending among them.
    holding   owner's id → copies of slots on it.      known   the cluster's state could be read; else nobody goes."""
    if not known:
        return Scaling(max(wanted, current), reason="Unreachable" if wanted < current else "")
    going = [names.owner_pod(broker, ordinal) for ordinal in range(wanted, current)]
    # A pod above all of the numbers is gone: its cordon would keep a later one of its name empty. One that is still
    # ending keeps its cordon, or slots would be moved onto it.
    stale = tuple(
        owner
        for owner in sorted(cordoned)
        if (ordinal := names.ordinal_of(broker, owner)) is not None and ordinal >= max(wanted, current, there)
    )
    if not going:
        # Cordons of ordinals below are an administrator's: a drain by hand stays.
        return Scaling(wanted, uncordon=stale)
    keeping = sum(holding.get(owner, 0) for owner in going)
    last = max((ordinal for ordinal, owner in enumerate(going, wanted) if holding.get(owner)), default=wanted - 1)
    cordon = tuple(owner for owner in going if owner not in cordoned)
    if cordon:
        return Scaling(current, cordon, stale, keeping, "Cordoned")
    return Scaling(last + 1, (), stale, keeping, "Moving" if keeping else "Removing")


def at_least(broker: str, wanted: int, holding: Mapping[str, int]) -> int:
    """Owners to begin with where there is no StatefulSet: those that keep something among them, whatever deleted it.
    Who is not wanted goes as ever, emptied before."""
    ordinals = [names.ordinal_of(broker, owner) for owner, copies in holding.items() if copies]
    return max(wanted, *(ordinal + 1 for ordinal in ordinals if ordinal is not None), 0)


_POWERS: dict[str, int] = {"": 1, **{unit: 1000**power for power, unit in enumerate("kMGTPE", 1)},
           **{f"{unit}i": 1024**power for power, unit in enumerate("KMGTPE", 1)}}  # fmt: skip


def quantity(text: str) -> Decimal:
    """Bytes of a size as Kubernetes writes it: 1Gi, 1024Mi and 1073741824 are one. Raises ConfigError."""
    number = text.rstrip("kKMGTPEi")
    try:
        return Decimal(number) * _POWERS[text.removeprefix(number)]
    except (InvalidOperation, KeyError):
        raise ConfigError(f"{text!r} is not a size; write it like 10Gi.") from None


def objects(
    broker: Resource,
    spec: BrokerSpec,
    image: str,
    replicas: int,
    live: Table | None,
    api: Versions,
    rolled: int | None = None,
) -> list[Table]:
    """live: the StatefulSet as it is, None = not there yet. rolled: the partition down to which its template may have
    come (rolling.py), None = nobody is replaced. Raises ConfigError for settings that owners would refuse."""
    name, namespace = broker.id.name, broker.id.namespace
    selector, labels = names.selector(name, "owner"), names.labels(name, "owner")
    workload = names.owner_name(name)

    def metadata(object_name: str) -> Table:
        return {
            "name": object_name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [broker.reference()],
        }

    settings = common_settings(namespace, name, spec, "owners")
    config, config_hash = config_map(metadata(workload), settings, "in spec.settings")
    account = {
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name), "automountServiceAccountToken": False,
    }  # fmt: skip
    made = [
        config,
        account,
        _headless(metadata(workload), selector),
        admin_service(metadata(names.admin_service(workload)), selector),
        disruption_budget(api.policy, metadata(workload), selector, spec.owners.max_unavailable),
        _stateful_set(metadata(workload), broker, spec, image, replicas, config_hash, live, rolled),
    ]
    return [*made, _network_policy(metadata(workload), name, spec, reads_port(spec))] if spec.network_policy else made


def _headless(metadata: Table, selector: dict[str, str]) -> Table:
    """Names of the pods. Owners must find each other before they are ready."""
    ports = [
        {"name": "grpc", "port": names.GRPC_PORT, "targetPort": "grpc", "protocol": "TCP"},
        {"name": "admin", "port": names.ADMIN_PORT, "targetPort": "admin", "protocol": "TCP"},
    ]
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def reads_port(spec: BrokerSpec) -> int:
    """Of the read API of the log; 0: there is none."""
    return max(int(spec.settings.get("logReads", {}).get("port", 0)), 0)


def _network_policy(metadata: Table, broker: str, spec: BrokerSpec, reads: int) -> Table:
    """The ports of components and of readers of the log are for pods of this broker only, the admin port for them and
    for who reads metrics."""
    selector = names.selector(broker, "owner")
    friends = {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": broker}}}
    ingress = [
        {"from": [friends], "ports": [{"port": port, "protocol": "TCP"} for port in (names.GRPC_PORT, reads) if port]},
        {"from": admin_from(broker, spec), "ports": [{"port": names.ADMIN_PORT, "protocol": "TCP"}]},
    ]
    body = {"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": ingress}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": body}


def _container(broker: Resource, spec: BrokerSpec, image: str, mounts: list[Table]) -> Table:
    host = f"$(POD_NAME).{names.owner_name(broker.id.name)}.{broker.id.namespace}.svc"
    advertise = {"name": "STAMPEDE_CLUSTER__ADVERTISE", "value": f"{host}:{names.GRPC_PORT}"}
    container: Table = {
        "name": "owner",
        "image": image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": ["stampede", "owner"],
        "env": [*environment(), advertise, *etcd_user(spec, "owners")],
        "ports": [
            {"name": "grpc", "containerPort": names.GRPC_PORT, "protocol": "TCP"},
            {"name": "admin", "containerPort": names.ADMIN_PORT, "protocol": "TCP"},
        ],
        "volumeMounts": [*mounts, {"name": names.DATA_CLAIM, "mountPath": names.DATA_DIR}],
        "securityContext": secured(),
        **probes(),
    }
    return {**container, "resources": resources(spec.owners.resources)}


def _stateful_set(
    metadata: Table,
    broker: Resource,
    spec: BrokerSpec,
    image: str,
    replicas: int,
    config_hash: str,
    live: Table | None,
    rolled: int | None,
) -> Table:
    name, owners = broker.id.name, spec.owners
    found, mounts = volumes(name, spec, names.owner_name(name), "owners")
    pod = {
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": owners.termination_grace_period_seconds,
        "topologySpreadConstraints": spread(names.selector(name, "owner")),
        **zone_wait(spec, image, resources(owners.resources)),
        "containers": [_container(broker, spec, image, mounts)],
        "volumes": [*found, *zone_volume(spec)],
        **({"imagePullSecrets": spec.image_pull_secrets} if spec.image_pull_secrets else {}),
    }
    template = pod_template(names.labels(name, "owner"), config_hash, pod, owners.template)
    mark = mark_of(template)
    # A template that is new here comes with a partition above all pods: how far it goes is said when it is seen.
    if rolled is None or live is None or live["metadata"].get("annotations", {}).get(names.TEMPLATE_HASH) != mark:
        rolled = replicas
    metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), names.TEMPLATE_HASH: mark}}
    set_spec: Table = {
        "replicas": replicas,
        "serviceName": names.owner_name(name),
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": rolled}},
        "selector": {"matchLabels": names.selector(name, "owner")},
        "template": template,
        "volumeClaimTemplates": [claim_spec(spec)],
    }
    if live is not None:
        # Immutable: the live ones stay, whatever a later release would make. Claims grow by themselves (claims()).
        for field in ("serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates"):
            if field in live["spec"]:
                set_spec[field] = _without_status(live["spec"][field])
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": set_spec}


def claim_spec(spec: BrokerSpec) -> Table:
    """The template of the owners' claims."""
    storage = spec.owners.storage
    claim: Table = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage.size}}}
    if storage.storage_class_name:
        claim["storageClassName"] = storage.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": names.DATA_CLAIM},
        "spec": claim,
    }


def _without_status(value: object) -> object:
    if isinstance(value, list):
        return [_without_status(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_status(one) for key, one in value.items() if key not in ("status", "creationTimestamp")}
    return value
