"""What a custom resource may say about the pods that are made for it.

Whoever may write a StompAcceptor is not whoever may run pods: a `template` that names another service account, mounts a
Secret or brings a container of its own would make the operator's rights theirs (all Secrets of the namespace, by one
ConfigMap). So a template is an allow list of what places and labels pods; the rest is refused by its path.

Rule: pure; deny what is not listed. The chart's owner lifts it for a whole operator (`operator.podTemplates: any`).

    {"spec": {"nodeSelector": {"disk": "ssd"}}}                        fine
    {"spec": {"containers": [{"name": "edge", "env": [...]}]}}         fine when each env has a `value` and our prefix
    {"spec": {"serviceAccountName": "mq-operator"}}                    spec.serviceAccountName
    {"spec": {"containers": [{"name": "sidecar", "image": "busybox"}]}}  spec.containers[sidecar]
"""

from __future__ import annotations

from collections.abc import Iterator

from ..spec.model import Table

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
ENVIRONMENT = ("STAMPEDE_", "GRPC_")
"""Beginnings of variables. Any other one may make Python or the linker load something else."""
LISTENERS = f"{ENVIRONMENT[0]}ACCEPTORS."
"""… but these, however they are written: ports are listeners of the resource, and not all of an acceptor is theirs to
say (crd_acceptor.OPENING)."""
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
                if set(each) - {"name", "value"} or not _ours_to_set(str(each.get("name", ""))):
                    yield f"{where}.env[{each.get('name')}]"
        elif field not in CONTAINER:
            yield f"{where}.{field}"
        elif field.endswith("Probe") and isinstance(value, dict):
            yield from (f"{where}.{field}.{part}" for part in value if part not in PROBE)


def _ours_to_set(variable: str) -> bool:
    return variable.startswith(ENVIRONMENT) and not variable.upper().replace("__", ".").startswith(LISTENERS)
