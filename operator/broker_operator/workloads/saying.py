"""What statuses of StompBrokers and StompAcceptors say of their objects, in words.

Rule: pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.errors import ConfigError

from ..kube.applying import Taken
from ..kube.kube import KubeError
from ..spec.conditions import Condition
from ..spec.model import AcceptorSpec, Table
from ..world.cluster import Cluster
from .owners import Scaling
from .rolling import Roll

ROLLING = "RollingOut"


def refusal(error: Taken | ConfigError | KubeError) -> Condition:
    """What is wrong with a resource whose objects cannot be made. Raises `error` if trying again may help."""
    if isinstance(error, Taken):
        return Condition("Accepted", False, "NameTaken", str(error))
    if isinstance(error, ConfigError):
        return Condition("Accepted", False, "Invalid", str(error))
    if error.failed:
        why = f"the API server failed (HTTP 500), it is tried again: {error}"
        return Condition("Accepted", None, "ServerFailed", why)
    if not error.refused:
        raise error
    return Condition("Accepted", False, "Refused", str(error))


def seen(cluster: Cluster | None, otherwise: str) -> tuple[Condition, Condition]:
    """EtcdReachable, and FullyReplicated while nothing else is known of it. otherwise: why there is no cluster."""
    if cluster is not None and cluster.known:
        return Condition("EtcdReachable", True, "Reachable"), Condition("FullyReplicated", None, "Unknown")
    why = cluster.why if cluster is not None else otherwise
    unknown = Condition("FullyReplicated", None, "EtcdUnreachable", "what is not known cannot be said")
    return Condition("EtcdReachable", False, "Unreachable", why), unknown


def replicated(slots: Mapping[str, int]) -> Condition:
    if not slots["total"]:
        return Condition("FullyReplicated", False, "NoSlots", "no owner has begun the cluster yet")
    for word, reason in (("offline", "Offline"), ("stalled", "Stalled"), ("underReplicated", "UnderReplicated")):
        if slots[word]:
            return Condition("FullyReplicated", False, reason, f"{slots[word]} of {slots['total']} slots")
    return Condition("FullyReplicated", True, "InSync")


def rolling(rolled: Roll | None) -> Condition:
    if rolled is None:
        return Condition(ROLLING, False, "Idle")
    if rolled.waits:
        return Condition(ROLLING, True, "Waiting", rolled.waits)
    return Condition(ROLLING, True, "Replacing", f"owners from ordinal {rolled.partition} on get the new template")


def progress(step: Scaling) -> str:
    if not step.reason:
        return ""
    if step.reason == "Unreachable":
        return "the state of the cluster is not known, so nobody is removed"
    return f"{step.holding} copies of slots have to move before owners are removed" if step.holding else "empty"


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def addresses(service: Table, spec: AcceptorSpec) -> list[str]:
    """Where clients connect: of the load balancer, else within the cluster."""
    balancer = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    hosts = [one.get("hostname") or one.get("ip") for one in balancer]
    meta = service.get("metadata", {})
    if not hosts and meta:
        hosts = [f"{meta['name']}.{meta['namespace']}.svc"]
    ports = [one.get("servicePort", one["port"]) for one in spec.listeners]
    return [f"{host}:{port}" for host in hosts if host for port in ports]


def balanced(service: Table, spec: AcceptorSpec) -> Condition:
    if spec.service.type != "LoadBalancer":
        return Condition("LoadBalancerReady", True, "NotWanted")
    if service.get("status", {}).get("loadBalancer", {}).get("ingress"):
        return Condition("LoadBalancerReady", True, "Ready")
    return Condition("LoadBalancerReady", False, "Pending", "the load balancer has no address yet")
