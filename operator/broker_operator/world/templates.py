"""What a custom resource may say about the pods that are made for it.

A user who may write a StompAcceptor need not be one who may run pods: a `template` that names another service account,
mounts a Secret or brings a container of its own would make the operator's rights theirs (all Secrets of the namespace,
by one ConfigMap). So a template is an allow list of what places and labels pods; the rest is refused by its path.

Rule: pure; deny what is not listed. The chart's owner lifts it for a whole operator (`operator.podTemplates: any`).

    {"spec": {"nodeSelector": {"disk": "ssd"}}}                        fine
    {"spec": {"containers": [{"name": "edge", "env": [...]}]}}         fine for what `settings` can say as well
    {"spec": {"serviceAccountName": "mq-operator"}}                    spec.serviceAccountName
    {"spec": {"containers": [{"name": "sidecar", "image": "busybox"}]}}  spec.containers[sidecar]
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from broker.config.catalogue import groups
from broker.config.describe import variable

from ..crds import crd_acceptor, crd_broker
from ..spec.model import Table
from ..spec.schema import camel

RESTRICTED, ANY = "restricted", "any"
METADATA = {"labels", "annotations"}
POD = {
    "affinity", "dnsConfig", "dnsPolicy", "imagePullSecrets", "nodeSelector", "preemptionPolicy", "priorityClassName",
    "runtimeClassName", "schedulerName", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints",
}  # fmt: skip
"""Fields of a pod's spec that say where it runs and how it ends, not what."""
CONTAINER = {"name", "resources", "livenessProbe", "readinessProbe", "startupProbe", "terminationMessagePolicy"}
PROBE = {"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"}
"""Times of a probe; what it asks stays ours (an `exec` is a command)."""
VARIABLES = {"GRPC_VERBOSITY", "GRPC_TRACE", "GRPC_DNS_RESOLVER", "STAMPEDE_MEMORY__LIMIT_BYTES", "STAMPEDE_LOG__LEVEL"}
"""Variables beside those of the resource's own settings. With any other one of ours (another etcd, another config file,
another way to log in) the pod would be another user's broker, with our certificates; one that is not ours may make
Python or the linker load something else."""
SECURITY = {"fsGroup", "fsGroupChangePolicy", "supplementalGroups"}


def forbidden(template: Table, ours: str) -> list[str]:
    """Paths of what a template may not say, in order. `ours`: the name of our container in these pods."""
    return sorted(_forbidden(template, ours))


def foreign_image(image: str, allowed: str) -> bool:
    """Is an image of another repository than the operator's own. A tag or digest may differ: that is an upgrade."""
    return bool(image and allowed) and _repository(image) != _repository(allowed)


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    return head if colon and "/" not in tag else name


def _forbidden(template: Table, ours: str) -> Iterator[str]:
    yield from (name for name in template if name not in ("metadata", "spec"))
    yield from (f"metadata.{name}" for name in template.get("metadata") or {} if name not in METADATA)
    for name, value in (template.get("spec") or {}).items():
        if name == "containers" and isinstance(value, list):
            for each in value:
                yield from _container(each, ours)
        elif name == "securityContext" and isinstance(value, dict):
            yield from (f"spec.securityContext.{field}" for field in value if field not in SECURITY)
        elif name not in POD:
            yield f"spec.{name}"


def _container(container: object, ours: str) -> Iterator[str]:
    name = container.get("name") if isinstance(container, dict) else None
    where = f"spec.containers[{name}]"
    if not isinstance(container, dict) or name != ours:
        yield where
        return
    for field, value in container.items():
        if field == "env" and isinstance(value, list):
            for each in value:
                if set(each) - {"name", "value"} or each.get("name") not in _variables(ours):
                    yield f"{where}.env[{each.get('name')}]"
        elif field not in CONTAINER:
            yield f"{where}.{field}"
        elif field.endswith("Probe") and isinstance(value, dict):
            yield from (f"{where}.{field}.{part}" for part in value if part not in PROBE)


@cache
def _variables(ours: str) -> frozenset[str]:
    """What a container may be told by variables: what `settings` of its resource can say."""
    spec = (crd_acceptor if ours == "edge" else crd_broker).spec()
    said = spec["properties"]["settings"]["properties"]
    return frozenset(VARIABLES) | {
        variable(leaf)
        for group in groups()
        for leaf in group.leaves
        if camel(leaf.name.rpartition(".")[2]) in said.get(camel(group.name), {}).get("properties", {})
        and leaf.name not in (*crd_acceptor.OF_BROKER, *crd_broker.PATHS)
    }
