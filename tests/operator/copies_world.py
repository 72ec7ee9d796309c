"""What tests of backups and restores share: an API server in memory, Jobs that end as a test says, a clock."""

from __future__ import annotations

import json
from typing import Any

from broker_operator.kube.events import Events
from broker_operator.kube.kube import KubeError
from broker_operator.spec import names
from broker_operator.spec.names import BROKER, Id
from broker_operator.world.resource_cache import ResourceCache
from broker_operator.world.statuses import Statuses

from .builders import raw

NOW_S = 1_795_780_800.0
"""2026-11-27T12:00:00Z"""


class Clock:
    def __init__(self) -> None:
        self.now = NOW_S

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


class Server:
    """Objects by id. `pods`: name of a Job → its pods."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[Id, dict[str, Any]]] = {"Job": {}, "StatefulSet": {}, "Other": {}}
        self.pods: dict[str, list[dict[str, Any]]] = {}
        self.made: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.refusal: KubeError | None = None
        self.held: dict[str, Any] = {}

    def put(self, kind: str, name: str, **parts: Any) -> None:
        where = kind if kind in self.objects else "Other"
        self.objects[where][Id(kind, "shop", name)] = {
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            **parts,
        }

    async def get(self, _: str, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects[kind if kind in self.objects else "Other"].get(Id(kind, namespace, name))

    async def read_list(self, _: str, kind: str, namespace: str, selector: str) -> dict[str, Any]:
        assert (kind, namespace) == ("Pod", "shop")
        return {"items": self.pods.get(selector.removeprefix("job-name="), [])}

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "Event":
            self.events.append(body)
            return body
        if self.refusal is not None:
            raise self.refusal
        id = Id(body["kind"], "shop", body["metadata"]["name"])
        where = self.objects[id.kind if id.kind in self.objects else "Other"]
        if id in where:
            raise KubeError(409, "there")
        where[id] = body
        self.made.append(body)
        return body

    async def delete(self, body: dict[str, Any]) -> None:
        self.deleted.append(body["metadata"]["name"])
        self.objects["Job"].pop(Id("Job", "shop", body["metadata"]["name"]), None)

    async def merge(self, *_: Any) -> dict[str, Any]:
        return {}

    async def set_status(self, resource: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        meta = resource["metadata"]
        self.held = {**resource, "status": status,
                     "metadata": {**meta, "resourceVersion": str(int(meta["resourceVersion"]) + 1000)}}  # fmt: skip
        return self.held


class Site:
    """One resource of `kind` and its broker."""

    def __init__(self, kind: str, reconciler: type, broker: dict[str, Any] | None = None, **spec: Any) -> None:
        self.server, self.clock = Server(), Clock()
        self.cache = ResourceCache(lambda id: None)
        self.statuses = Statuses(self.server, self.cache, Events(self.server, self.clock))  # type: ignore[arg-type]
        args = self.cache, self.server, self.statuses, self.server.objects, "stampede:1", self.clock
        self.reconciler = reconciler(*args)
        self.broker = self.cache.put(raw(BROKER, **(broker or {})))
        made = self.cache.put(raw(kind, created="2026-11-27T10:30:00Z", **spec))
        assert made is not None
        self.id = made.id
        self.server.put("PersistentVolumeClaim", "backups")

    @property
    def status(self) -> dict[str, Any]:
        return self.cache.resources[self.id].status

    def condition(self, type: str) -> tuple[str, str, str]:
        (found,) = [one for one in self.status["conditions"] if one["type"] == type]
        return found["status"], found["reason"], found["message"]

    async def look(self) -> float | None:
        found: float | None = await self.reconciler.reconcile(self.cache.resources[self.id])
        return found

    def end(self, words: dict[str, Any] | None, type: str = "Complete") -> None:
        """The Job that was made last ends so."""
        job = self.server.made[-1]
        assert job["kind"] == "Job"
        ended = {"type": type, "status": "True", "reason": "BackoffLimitExceeded", "message": "m",
                 "lastTransitionTime": "2026-11-27T12:00:00Z"}  # fmt: skip
        self.server.objects["Job"][Id("Job", "shop", job["metadata"]["name"])] = {
            **job,
            "status": {"conditions": [ended]},
        }
        message = "" if words is None else json.dumps(words)
        state = {"terminated": {"message": message, "finishedAt": "1"}}
        self.server.pods[job["metadata"]["name"]] = [{"status": {"containerStatuses": [{"state": state}]}}]

    def command(self) -> list[str]:
        """Of the Job that was made last."""
        found: list[str] = self.server.made[-1]["spec"]["template"]["spec"]["containers"][0]["command"]
        assert found[-2:] == ["--report", names.LAST_WORDS]
        return found[:-2]
