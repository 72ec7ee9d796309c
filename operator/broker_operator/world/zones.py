"""Tells pods the zone of their node, which Kubernetes does by itself from 1.35 on: as the label it uses then.

Rule: a label that is there is never changed. A pod that has gone, or a node without a zone, is no error; rights that
are missing are said in the log and asked for again, since pods wait for it a while only (workloads/pods.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..kube.kube import Kube, KubeError
from ..spec.model import Table
from ..spec.names import ZONE_LABEL, Id

log = logging.getLogger("stampede.operator")

ZONE = "Zone"
"""Kind of the work queue's ids that name a pod which has a node and no zone."""
AGAIN_S = 60.0


def on_node(pod: Table) -> Table:
    """What is kept of a pod."""
    meta = pod["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "uid") if key in meta}
    labels = {ZONE_LABEL: zone} if (zone := (meta.get("labels") or {}).get(ZONE_LABEL)) else {}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {**kept, "labels": labels},
        "spec": {"nodeName": (pod.get("spec") or {}).get("nodeName", "")},
    }  # fmt: skip


class Zones:
    """queue: takes ids to be worked on, in which tell() is called."""

    def __init__(self, kube: Kube, queue: Callable[[Id], None]) -> None:
        self._kube = kube
        self._queue = queue
        self._waiting: dict[Id, tuple[str, str]] = {}
        """Pod → its node, and its uid: the next one of its name may be on another node."""
        self._zones: dict[str, str] = {}
        """Node → its zone; a machine does not move."""

    def on_pod(self, id: Id, pod: Table) -> None:
        """It has come, changed or gone; the one that is gone is not found later."""
        key, node = id._replace(kind=ZONE), pod["spec"]["nodeName"]
        if not node or pod["metadata"]["labels"].get(ZONE_LABEL):
            self._waiting.pop(key, None)
            return
        self._waiting[key] = node, pod["metadata"].get("uid", "")
        self._queue(key)

    async def tell(self, id: Id) -> float | None:
        """Seconds until it wants to be called again. Raises KubeError."""
        pod = self._waiting.pop(id, None)
        if pod is None:
            return None
        node, uid = pod
        try:
            zone = await self._zone_of(node)
        except KubeError as error:
            self._waiting.setdefault(id, pod)
            if not error.refused:
                raise
            log.warning("the zone of %s/%s is not known, we may not read nodes: %s", id.namespace, id.name, error)
            return AGAIN_S
        if not zone:
            return None
        try:
            patch = {"metadata": {"uid": uid, "labels": {ZONE_LABEL: zone}}}
            await self._kube.merge("v1", "Pod", id.namespace, id.name, patch)
        except KubeError as error:
            if error.status not in (404, 409):  # gone, or another one of its name, which is told of as well
                self._waiting.setdefault(id, pod)
                raise
        return None

    async def _zone_of(self, node: str) -> str:
        """ "": it has none. Raises KubeError."""
        known = self._zones.get(node)
        if known is None:
            found = await self._kube.get("v1", "Node", "", node)
            known = str(((found or {}).get("metadata", {}).get("labels") or {}).get(ZONE_LABEL, ""))
            if known:
                self._zones[node] = known
        return known
