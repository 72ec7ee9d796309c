"""Why pods that should run do not: the image, the disk, the node, or what they do themselves.

Rule: what does not change is said in words that do not change, or a status would be written with each try of the
kubelet. Says what to look at; what is missing by name (Secrets) the caller knows better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..kube.kube import Kube
from ..spec.model import Table

LOOK_AGAIN_S = 20.0
"""While pods are not ready: why they wait has no event that reaches us."""
LONGEST = 300
_BEGINNING = ("ContainerCreating", "PodInitializing")
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")


class Waits(NamedTuple):
    """reason: for a condition."""

    reason: str
    message: str


async def why(kube: Kube, namespace: str, labels: dict[str, str]) -> Waits | None:
    """Of the pods with these labels; None: nothing is wrong that could be said. Raises KubeError."""
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    pods = (await kube.read_list("v1", "Pod", namespace, selector))["items"]
    found = of_pods(pods)
    if found is None or found.reason != "Unschedulable":
        return found
    claims = (await kube.read_list("v1", "PersistentVolumeClaim", namespace, selector))["items"]
    return of_claims(claims) or found


def of_pods(pods: Sequence[Table]) -> Waits | None:
    """Of the first pod, by name, of which there is something to say."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        status, name = pod.get("status") or {}, pod["metadata"]["name"]
        for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
            if found := _of_container(name, one):
                return found
        for one in status.get("conditions") or ():
            if one["type"] == "PodScheduled" and one["status"] == "False":
                return Waits("Unschedulable", f"{name} has no node: {_short(one.get('message', ''))}")
    return None


def of_claims(claims: Iterable[Table]) -> Waits | None:
    """Of the first claim, by name, that has no volume."""
    for claim in sorted(claims, key=lambda claim: str(claim["metadata"]["name"])):
        if claim.get("status", {}).get("phase") != "Pending":
            continue
        name, storage = claim["metadata"]["name"], claim["spec"].get("storageClassName", "")
        if not storage:
            why = "it names no StorageClass, and this cluster has no default one: set owners.storage.storageClassName"
        else:
            why = f"StorageClass {storage} has given none: is there such a one (kubectl get storageclass), has it room?"
        return Waits("NoVolume", f"claim {name} has no volume: {why}")
    return None


def _of_container(pod: str, status: Table) -> Waits | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    reason, image = waiting.get("reason"), status.get("image", "")
    if reason is None or reason in _BEGINNING:
        return None
    if reason in _NO_IMAGE:
        why = "its name, the registry, or imagePullSecrets (kubectl describe pod says which)"
        return Waits("ImageMissing", f"{pod} has not got the image {image}: {why}")
    if reason == "CrashLoopBackOff":
        ended = (status.get("lastState") or {}).get("terminated") or {}
        how = ended.get("reason") or "Error"
        if how in ("Error", "Completed"):
            how = f"exit {ended.get('exitCode', '?')}"
        told = _short(ended.get("message") or "")
        where = f"kubectl logs --previous {pod}"
        return Waits("Crashing", f"{pod} ends by itself ({how}); {where}" + (f": {told}" if told else ""))
    return Waits(str(reason), f"{pod}: {_short(waiting.get('message', ''))}")


def _short(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
