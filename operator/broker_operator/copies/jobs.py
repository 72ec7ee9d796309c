"""A StompBackup or StompRestore → the Job of one step.

Rule: pure. A pod has the disk of one owner, or the way to etcd, never both; it runs our command in the broker's image,
with restricted security and no account. To etcd it is the operator: owners may not read all, nor restore it.
What it did stands in its last words, as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..spec import names
from ..spec.model import BrokerSpec, Resource, Store, Table
from ..workloads.pods import REQUESTS, environment, etcd_user, pod_security, secured, spread, volumes

METADATA, COMPLETE = "metadata", "complete"
"""Steps that are no owner's."""
_ASKED = {**REQUESTS, "cpu": "100m"}
_KEYS = {"AWS_ACCESS_KEY_ID": "accessKeyId", "AWS_SECRET_ACCESS_KEY": "secretAccessKey"}


class Step(NamedTuple):
    """One Job. name: of the step. claim: of the owner's disk, "": it speaks to etcd instead. beside: the owner whose
    node has that disk now, "": nobody's."""

    name: str
    command: list[str]
    claim: str = ""
    beside: str = ""
    tries: int = 0


def root_of(store: Store) -> str:
    return names.COPIES_DIR if store.volume is not None else (store.bucket.url.rstrip("/") if store.bucket else "")


def job_name(resource: Resource, run: str, step: str, ordinal: int) -> str:
    """At most 63 characters: of the run its digits, of an owner its number."""
    parts = resource.id.name, "".join(filter(str.isdigit, run))[2:14], step if ordinal < 0 else ordinal
    return "-".join(str(part) for part in parts if part != "")


def job(
    resource: Resource, broker: str, spec: BrokerSpec, image: str, name: str, step: Step, store: Store, limits: Table,
    deadline_s: int,
) -> Table:  # fmt: skip
    """limits: `resources` of the container, {}: nothing is said."""
    component = "backup" if resource.id.kind == names.BACKUP else "restore"
    labels = {**names.labels(broker, component), names.COPY_LABEL: resource.id.name}
    found, mounts = volumes(broker, spec, names.owner_name(broker), "operator")
    if step.claim:
        keep = ("config", "tmp")
        found = [one for one in found if one["name"] in keep]
        mounts = [one for one in mounts if one["name"] in keep]
        found.append(_claimed(names.DATA_CLAIM, step.claim))
        mounts.append({"name": names.DATA_CLAIM, "mountPath": names.DATA_DIR})
    if store.volume is not None:
        found.append(_claimed("copies", store.volume.claim_name))
        mounts.append({"name": "copies", "mountPath": names.COPIES_DIR})
    container: Table = {
        "name": component,
        "image": image,
        "imagePullPolicy": spec.image_pull_policy,
        "command": [*step.command, "--report", names.LAST_WORDS],
        "env": [*environment(), *([] if step.claim else etcd_user(spec, "operator")), *_access(store)],
        "resources": limits or {"requests": dict(_ASKED)},
        "securityContext": secured(),
        "volumeMounts": mounts,
        "terminationMessagePath": names.LAST_WORDS,
    }
    placed = spec.owners.template.get("spec", {})
    pod: Table = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container],
        "volumes": found,
        **({"imagePullSecrets": spec.image_pull_secrets} if spec.image_pull_secrets else {}),
        **{field: placed[field] for field in ("tolerations", "nodeSelector") if field in placed},
    }
    if step.beside:
        pod["affinity"] = {"podAffinity": _beside(step.beside)}
    elif step.claim:
        pod["topologySpreadConstraints"] = spread({names.COPY_LABEL: resource.id.name})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name, "namespace": resource.id.namespace, "labels": labels,
            "ownerReferences": [resource.reference()],
        },
        "spec": {
            "backoffLimit": step.tries,
            "activeDeadlineSeconds": deadline_s,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }  # fmt: skip


def _claimed(name: str, claim: str) -> Table:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def _access(store: Store) -> list[Table]:
    bucket = store.bucket
    if bucket is None:
        return []
    found: list[Table] = [{"name": "AWS_REGION", "value": bucket.region or "us-east-1"}]
    if bucket.endpoint:
        found.append({"name": "AWS_ENDPOINT_URL", "value": bucket.endpoint.rstrip("/")})
    if bucket.secret_name:
        found += [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": bucket.secret_name, "key": key}}}
            for name, key in _KEYS.items()
        ]
    return found


def _beside(owner: str) -> Table:
    """A volume that one node may have is at the owner's."""
    selector = {"matchLabels": {"statefulset.kubernetes.io/pod-name": owner}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def claim_of(broker: Resource, spec: BrokerSpec, ordinal: int, template: Table) -> Table:
    """The disk of an owner that is to be, as its StatefulSet would make it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.data_claim(broker.id.name, ordinal), "namespace": broker.id.namespace,
            "labels": names.selector(broker.id.name, "owner"),
        },
        "spec": template["spec"],
    }  # fmt: skip


def finished(item: Table) -> bool | None:
    """True: it is complete. False: it failed. None: neither, yet."""
    for one in item.get("status", {}).get("conditions") or ():
        if one["status"] == "True" and one["type"] in ("Complete", "Failed"):
            return bool(one["type"] == "Complete")
    return None


def last_words(pods: Sequence[Table]) -> Table:
    """What the pod that ended last has said; {}: nothing that can be read."""
    ended = [
        state["terminated"]
        for pod in pods
        for one in pod.get("status", {}).get("containerStatuses") or ()
        if "terminated" in (state := one.get("state") or {})
    ]
    for one in sorted(ended, key=lambda one: str(one.get("finishedAt", "")), reverse=True):
        try:
            found: Any = json.loads(one.get("message") or "")
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def why_failed(item: Table, pods: Sequence[Table]) -> str:
    """In one line, what to look at."""
    if said := last_words(pods).get("error"):
        return str(said)
    waits = why_waiting(pods)
    for one in item.get("status", {}).get("conditions") or ():
        if one["type"] == "Failed":
            return f"{one.get('reason', '')}: {one.get('message', '')}" + (f" ({waits})" if waits else "")
    return "the Job failed"


def why_waiting(pods: Sequence[Table]) -> str:
    """Why no pod works; "": one does, or nobody says."""
    for pod in pods:
        status = pod.get("status", {})
        for one in status.get("containerStatuses") or ():
            waiting = (one.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
        for one in status.get("conditions") or ():
            if one["type"] == "PodScheduled" and one["status"] == "False":
                return f"{one.get('reason', 'Unschedulable')}: {one.get('message', '')}".rstrip(": ")
    return ""
