"""One StompBroker's workloads and keys before a Kubernetes that refuses what a test says.

Rule: everything of the operator is real; only the server, statuses and the clock are doubles.
"""

from __future__ import annotations

from typing import Any

from broker_operator.etcd.etcd_reconciler import EtcdReconciler
from broker_operator.kube.applying import Applier
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import Resource
from broker_operator.workloads.owners import Versions
from broker_operator.workloads.workloads import Workloads
from broker_operator.world.resource_cache import ResourceCache

from broker.seams.clock import SystemClock

from .builders import raw
from .test_applying import Server

Table = dict[str, Any]
KINDS = (
    "StatefulSet", "Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy",
    "HorizontalPodAutoscaler",
)  # fmt: skip


class Refusing(Server):
    """refuses: kind → HTTP status of an answer to its apply. claims: sizes of the owners' claims; classes, phases:
    theirs, where they are not none and Bound; owners: their owner references. pods: as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.live = {kind: {} for kind in KINDS}
        self.refuses: dict[str, int] = {}
        self.claims: list[str] = []
        self.classes: list[str] = []
        self.phases: list[str] = []
        self.owners: dict[str, list[Table]] = {}
        self.pods: list[Table] = []
        self.secrets: dict[str, Table] = {}

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Table | None:
        if kind == "Namespace":
            return {"metadata": {"uid": f"uid of {name}"}}
        return self.secrets.get(name) if kind == "Secret" else await super().get(api_version, kind, namespace, name)

    async def apply(self, body: Table) -> Table:
        if status := self.refuses.get(body["kind"]):
            raise KubeError(status, f"{body['kind']} is forbidden: exceeded quota")
        return await super().apply(body) if body["kind"] in self.live else body

    async def read_list(self, api_version: str, kind: str, namespace: str, selector: str) -> Table:
        if kind == "Pod":
            return {"items": self.pods}
        items: list[Table] = []
        for n, size in enumerate(self.claims):
            spec: Table = {"resources": {"requests": {"storage": size}}}
            if self.classes:
                spec["storageClassName"] = self.classes[n]
            status = {"phase": self.phases[n] if self.phases else "Bound"}
            name = f"data-stomp-owner-{n}"
            meta = {"name": name, "namespace": namespace, "ownerReferences": self.owners.get(name, [])}
            items.append({"metadata": meta, "spec": spec, "status": status})
        return {"items": items}

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        if status := self.refuses.get(kind):
            raise KubeError(status, "the storageclass that provisions the pvc must support resize")
        if "spec" in patch:
            self.writes.append(f"{name} {patch['spec']['resources']['requests']['storage']}")
        else:
            self.owners[name] = patch["metadata"]["ownerReferences"]
            self.writes.append(f"{name} goes with {[one['kind'] for one in self.owners[name]]}")
        return {}


class Statuses:
    """What was last said."""

    def __init__(self) -> None:
        self.said: Table = {}

    async def write(self, resource: Resource, status: Table | None) -> None:
        self.said = status or self.said

    def condition(self, type: str) -> tuple[str, str, str]:
        (found,) = [one for one in self.said["conditions"] if one["type"] == type]
        return found["status"], found["reason"], found["message"]


class Later(SystemClock):
    """A clock that is ahead."""

    by_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.by_ms


class Bench:
    """server, statuses: what a test says and reads."""

    def __init__(self) -> None:
        self.server = Refusing()
        self.statuses = Statuses()
        self.cache = ResourceCache(lambda id: None)
        clock = self.clock = Later()
        self.workloads = Workloads(
            self.cache, self.server, self.statuses, None, Applier(self.server), self.server.live, Versions(), "", clock
        )
        self.etcd_reconciler = EtcdReconciler(self.cache, self.server, self.statuses, None, clock)

    def put(self, kind: str, **spec: Any) -> Resource:
        """The resource of this kind, there or changed."""
        one = raw(kind, **spec)
        one["metadata"]["uid"] = f"uid of the {kind}"
        found = self.cache.put(one)
        assert found is not None
        return found
