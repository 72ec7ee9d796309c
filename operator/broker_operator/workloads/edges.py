"""StompAcceptor → the objects of a pool of edges.

Rule: pure. With autoscaling the number of pods is not ours, and so it is not said here. Names and selectors never
change.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from broker.core.errors import ConfigError

from ..spec import names
from ..spec.model import AcceptorSpec, BrokerSpec, Resource, Table, Tls
from ..spec.schema import entry_settings, group_settings
from .owners import Versions
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
    secret_volume,
    secured,
    spread,
    volumes,
    zone_volume,
    zone_wait,
)  # fmt: skip

SPARE_S = 15
"""Between the end of the drain and SIGKILL."""
DEFAULT_REPLICAS = 2

Metadata = Callable[[str], Table]
"""Name of an object → its metadata."""


def objects(
    acceptor: Resource, spec: AcceptorSpec, broker: str, shared: BrokerSpec, image: str, api: Versions
) -> list[Table]:
    """broker, shared: name and spec of the StompBroker. Raises ConfigError for settings that edges would refuse."""
    name, namespace = acceptor.id.name, acceptor.id.namespace
    selector, labels = names.selector(broker, "edge", name), names.labels(broker, "edge", name)
    workload = names.edge_name(name)

    def metadata(object_name: str, annotations: dict[str, str] | None = None) -> Table:
        found: Table = {"name": object_name, "namespace": namespace, "labels": labels}
        found["ownerReferences"] = [acceptor.reference()]
        return {**found, "annotations": annotations} if annotations else found

    where = f"in the listeners or settings of StompAcceptor {name}, or the settings of StompBroker {broker}"
    config, config_hash = config_map(metadata(workload), settings(namespace, broker, spec, shared), where)
    made = [
        config,
        _service(metadata(name, spec.service.annotations), spec, selector),
        admin_service(metadata(names.admin_service(workload)), selector, spec.admin_tls is not None),
        disruption_budget(api.policy, metadata(workload), selector, spec.max_unavailable, api.unready_go),
        _deployment(metadata(workload), acceptor, spec, broker, shared, image, config_hash),
    ]
    if spec.autoscaling:
        made.append(_autoscaler(metadata(workload), spec, workload, api))
    if spec.network_policy:
        made.append(_network_policy(metadata(workload), broker, shared, spec, selector))
    return made + _routes(metadata, name, spec, api)


def settings(namespace: str, broker: str, spec: AcceptorSpec, shared: BrokerSpec) -> Table:
    """The configuration file of these edges."""
    tree = common_settings(namespace, broker, shared, "edges")
    edge = group_settings("edge", spec.settings.get("edge", {}))
    # Every port is an acceptor; those of [edge] are off. An edge without users lets nobody in.
    tree["edge"] = {
        "host": "0.0.0.0", "port": -1, "ws_port": -1, "drain_timeout_s": spec.drain.timeout_seconds, **edge,
    }  # fmt: skip
    if shared.permissions_required:
        tree["edge"]["permissions_required"] = True
    if shared.audit:
        tree["edge"]["audit"] = shared.audit
    if shared.client_ids:
        tree["edge"]["client_ids"] = ",".join(shared.client_ids)
    for table, entries in (("virtual_hosts", shared.virtual_hosts), ("exchanges", shared.exchanges)):
        if entries:
            tree["edge"][table] = {one["name"]: entry_settings(f"edge.{table}", one) for one in entries}
    if wire := group_settings("wire", spec.settings.get("wire", {})):
        tree["wire"] = {**tree.get("wire", {}), **wire}
    if spec.admin_tls is not None:
        tree["admin"] |= {
            "tls_port": names.ADMIN_TLS_PORT, "tls_cert_file": f"{names.ADMIN_TLS_DIR}/tls.crt",
            "tls_key_file": f"{names.ADMIN_TLS_DIR}/tls.key", "hosts": ",".join(spec.admin_tls.hosts),
        }  # fmt: skip
    tree["acceptors"] = {listener["name"]: _acceptor(listener) for listener in spec.listeners}
    return tree


def tls_of(listener: Table) -> Tls | None:
    return msgspec.convert(listener["tls"], Tls) if listener.get("tls") else None


def _acceptor(listener: Table) -> Table:
    name = listener["name"]
    found = {
        **entry_settings("acceptors", {key: value for key, value in listener.items() if key != "tls"}),
        "host": "0.0.0.0",
        "port": listener["port"],
        "transport": listener.get("transport", "both"),
    }
    tls = tls_of(listener)
    if tls is None:
        return found
    found |= {
        "tls": True,
        "tls_cert_file": f"{names.TLS_DIR}/{name}/tls.crt",
        "tls_key_file": f"{names.TLS_DIR}/{name}/tls.key",
    }
    if tls.client_ca_secret_name:
        found["tls_client_ca_file"] = f"{names.CA_DIR}/{name}/ca.crt"
    if tls.crl_secret_name:
        found["tls_crl_file"] = f"{names.CA_DIR}/{name}-crl/ca.crl"
    said = {
        "tls_client_auth": tls.client_auth,
        "tls_min_version": tls.min_version,
        "tls_ciphers": ":".join(tls.ciphers),
        "tls_sni_host": tls.sni_host,
    }
    return found | {key: value for key, value in said.items() if value}


def _tls_volumes(spec: AcceptorSpec) -> list[tuple[Table, Table]]:
    """(volume, mount) of every Secret that listeners and the admin port name."""
    found = []
    if spec.admin_tls is not None:
        mount = {"name": "tls-of-admin", "mountPath": names.ADMIN_TLS_DIR, "readOnly": True}
        found.append((secret_volume("tls-of-admin", spec.admin_tls.secret_name), mount))
    for listener in spec.listeners:
        name, tls = listener["name"], tls_of(listener)
        if tls is None:
            continue
        for volume, secret, place in (
            (f"tls-{name}", tls.secret_name, f"{names.TLS_DIR}/{name}"),
            (f"ca-{name}", tls.client_ca_secret_name, f"{names.CA_DIR}/{name}"),
            (f"crl-{name}", tls.crl_secret_name, f"{names.CA_DIR}/{name}-crl"),
        ):
            if secret:
                mount = {"name": volume, "mountPath": place, "readOnly": True}
                found.append((secret_volume(volume, secret), mount))
    return found


def _bridges_volume(shared: BrokerSpec) -> list[tuple[Table, Table]]:
    """(volume, mount) of the Secret of bridges. A pod starts without it: clients need none of them."""
    if not shared.bridges_secret_name:
        return []
    volume = secret_volume("bridges", shared.bridges_secret_name)
    volume["secret"]["optional"] = True
    return [(volume, {"name": "bridges", "mountPath": names.BRIDGES_DIR, "readOnly": True})]


def _admin_ports(spec: AcceptorSpec) -> dict[str, int]:
    return {"admin": names.ADMIN_PORT} | ({"admin-tls": names.ADMIN_TLS_PORT} if spec.admin_tls is not None else {})


def _deployment(
    metadata: Table,
    acceptor: Resource,
    spec: AcceptorSpec,
    broker: str,
    shared: BrokerSpec,
    image: str,
    config_hash: str,
) -> Table:
    name = acceptor.id.name
    found, mounts = volumes(broker, shared, names.edge_name(name), "edges")
    more = _tls_volumes(spec) + _bridges_volume(shared)
    container: Table = {
        "name": "edge",
        "image": image,
        "imagePullPolicy": shared.image_pull_policy,
        "command": ["stampede", "edge"],
        "env": [*environment(), *etcd_user(shared, "edges")],
        "ports": [
            *({"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _admin_ports(spec).items()),
            *({"name": one["name"], "containerPort": one["port"], "protocol": "TCP"} for one in spec.listeners),
        ],
        "volumeMounts": [*mounts, {"name": "data", "mountPath": names.DATA_DIR}, *(mount for _, mount in more)],
        "securityContext": secured(),
        "resources": _resources(spec),
        **probes(),
    }
    if spec.drain.delay_seconds:
        # The Service needs a moment to stop sending to this pod; meanwhile it still accepts.
        container["lifecycle"] = {"preStop": {"exec": {"command": ["sleep", str(spec.drain.delay_seconds)]}}}
    pod = {
        "serviceAccountName": broker,
        "terminationGracePeriodSeconds": spec.drain.delay_seconds + spec.drain.timeout_seconds + SPARE_S,
        "topologySpreadConstraints": spread(names.selector(broker, "edge", name)),
        **zone_wait(shared, image, container["resources"]),
        "containers": [container],
        "volumes": [*found, {"name": "data", "emptyDir": {}}, *(volume for volume, _ in more), *zone_volume(shared)],
        **({"imagePullSecrets": shared.image_pull_secrets} if shared.image_pull_secrets else {}),
    }
    deployment: Table = {
        "selector": {"matchLabels": names.selector(broker, "edge", name)},
        # A new edge first, then an old one goes: clients always find one.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": pod_template(names.labels(broker, "edge", name), config_hash, pod, spec.template),
    }
    if spec.autoscaling is None:
        deployment["replicas"] = DEFAULT_REPLICAS if spec.replicas is None else spec.replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment}


def _resources(spec: AcceptorSpec) -> Table:
    """Raises ConfigError for an autoscaler that would wait for ever."""
    found = resources(spec.resources)
    if spec.autoscaling and not any("cpu" in (found.get(one) or {}) for one in ("requests", "limits")):
        raise ConfigError(
            "spec.autoscaling counts the CPU in per cent of what pods ask for, and spec.resources asks for none; give "
            "spec.resources.requests.cpu"
        )
    return found


def _service(metadata: Table, spec: AcceptorSpec, selector: dict[str, str]) -> Table:
    wanted = spec.service
    ports = []
    for one in spec.listeners:
        port = {"name": one["name"], "port": one.get("servicePort", one["port"]), "targetPort": one["name"]}
        port["protocol"] = "TCP"
        ports.append({**port, "nodePort": one["nodePort"]} if "nodePort" in one else port)
    service: Table = {"type": wanted.type, "selector": selector, "ports": ports, "sessionAffinity": "None"}
    if wanted.type != "ClusterIP":
        service["externalTrafficPolicy"] = wanted.external_traffic_policy or "Local"
    if wanted.load_balancer_class:
        service["loadBalancerClass"] = wanted.load_balancer_class
    if wanted.load_balancer_source_ranges:
        service["loadBalancerSourceRanges"] = wanted.load_balancer_source_ranges
    if wanted.ip_family_policy:
        service["ipFamilyPolicy"] = wanted.ip_family_policy
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service}


def _autoscaler(metadata: Table, spec: AcceptorSpec, workload: str, api: Versions) -> Table:
    wanted = spec.autoscaling
    assert wanted is not None
    cpu = {"type": "Utilization", "averageUtilization": wanted.target_cpu_percent}
    metrics: list[Table] = [{"type": "Resource", "resource": {"name": "cpu", "target": cpu}}]
    if wanted.target_connections_per_pod:
        target = {"type": "AverageValue", "averageValue": str(wanted.target_connections_per_pod)}
        metrics.append({"type": "Pods", "pods": {"metric": {"name": "stomp_connections"}, "target": target}})
    # Up at once and fast; down one pod at a time, because its clients have to connect again.
    behavior = {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 30}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": wanted.scale_down_stabilization_seconds,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }
    body = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload},
        "minReplicas": wanted.min_replicas,
        "maxReplicas": wanted.max_replicas,
        "metrics": metrics,
        "behavior": wanted.behavior or behavior,
    }
    return {"apiVersion": api.autoscaling, "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": body}


def _network_policy(
    metadata: Table, broker: str, shared: BrokerSpec, spec: AcceptorSpec, selector: dict[str, str]
) -> Table:
    """Listeners are for everybody, and so is the admin port with TLS: a client without login or token gets nothing
    there. The one without is for pods of the broker and for who reads metrics."""
    ports = [one["port"] for one in spec.listeners] + ([names.ADMIN_TLS_PORT] if spec.admin_tls is not None else [])
    ingress: list[Table] = [
        {"ports": [{"port": port, "protocol": "TCP"} for port in ports]},
        {"from": admin_from(broker, shared), "ports": [{"port": names.ADMIN_PORT, "protocol": "TCP"}]},
    ]
    body = {"podSelector": {"matchLabels": selector}, "policyTypes": ["Ingress"], "ingress": ingress}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": body}


def _routes(metadata: Metadata, name: str, spec: AcceptorSpec, api: Versions) -> list[Table]:
    """One route per listener. Without the Gateway API in the cluster there are none; the status says so."""
    gateway = spec.gateway
    if gateway is None:
        return []
    version = api.tcp_routes if gateway.kind == "TCPRoute" else api.tls_routes
    if not version:
        return []
    made = []
    for listener in spec.listeners:
        backend = {"name": name, "port": listener.get("servicePort", listener["port"])}
        route: Table = {"parentRefs": gateway.parent_refs, "rules": [{"backendRefs": [backend]}]}
        if gateway.hostnames:
            route["hostnames"] = gateway.hostnames
        found = metadata(names.route_name(name, listener["name"]))
        made.append({"apiVersion": version, "kind": gateway.kind, "metadata": found, "spec": route})
    return made
