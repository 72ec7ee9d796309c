"""What the tests of the operator share: one broker's resources in a real API server, and its pods, which are played:
members that apply what etcd says.

Rule: waits for what is promised; the limits only bound a failure."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from broker_operator.kube.bundles import DIGEST, digest
from broker_operator.kube.kube import Kube, login, path_of
from broker_operator.process import Operator, Options
from broker_operator.spec import names
from broker_operator.spec.model import version_of
from broker_operator.spec.names import API_VERSION, BROKER, Id

from broker.cluster.applied import EVERY_S, Applied
from broker.cluster.keys import Keys
from broker.cluster.watched import Watched
from broker.config.settings import EtcdSettings
from broker.core.slots import Member, SlotRecord
from broker.metadata.etcd import EtcdMetadata
from broker.seams.entropy import token

Table = dict[str, Any]
NAMESPACE = f"t-{token(4)}"
"""Of this run, so that runs do not meet."""
PATIENCE_S = 100.0
FEW = 200


class Pods:
    """Members of one broker: they register, and say that they have applied whatever there is."""

    def __init__(self, etcd: str, prefix: str) -> None:
        self.keys = Keys(prefix)
        self.metadata = EtcdMetadata(EtcdSettings(endpoints=etcd, prefix=prefix))
        self.members: list[str] = []
        self._changed = asyncio.Event()
        self._config = Watched(self.metadata, self.keys.config, lambda changes: self._changed.set())
        self._task: asyncio.Task[None] | None = None

    async def start(self, *members: str) -> None:
        self.members = list(members)
        await self._config.start()
        for id in members:
            kind = "owner" if "owner" in id else "edge"
            await self.metadata.put(self.keys.member(kind, id), Member(id, kind, "a:1", "boot").encode())
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            revision = max((item.revision for item in self._config.items.values()), default=0)
            note = json.dumps({"revision": Applied(revision).revision}).encode()
            for id in self.members:
                await self.metadata.put(self.keys.applied_by(id), note)
            if len(self._config.items) > FEW:
                await asyncio.sleep(EVERY_S)  # as members do; below that a test would wait for nothing

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        await self._config.stop()
        await self.metadata.close()

    async def config(self) -> dict[str, Any]:
        items, _ = await self.metadata.range(self.keys.config)
        return {item.key.removeprefix(self.keys.config): json.loads(item.value) for item in items}

    async def slots(self, owners: list[str]) -> None:
        for slot in range(256):
            record = SlotRecord(slot, 1, owners[0], tuple(owners), tuple(owners))
            await self.metadata.put(self.keys.slot(slot), record.encode())


class World:
    """What the tests do to one broker."""

    def __init__(self, kube: Kube, etcd: str) -> None:
        self.kube = kube
        self.broker = f"b-{token(3)}"
        self.etcd = etcd
        self.pods = Pods(etcd, names.etcd_prefix(NAMESPACE, self.broker))
        self.made: list[Table] = []

    async def make(self, kind: str, name: str, annotations: Table | None = None, /, **spec: Any) -> Table:
        if kind == BROKER:
            spec = {"image": "stampede:1", "etcd": {"endpoints": [self.etcd]}, **spec}
        else:
            spec = {"brokerRef": {"name": self.broker}, **spec}
        meta: Table = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
        made = await self.kube.create({"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec})
        self.made.append(made)
        return made

    async def get(self, kind: str, name: str, api_version: str = API_VERSION) -> Table | None:
        return await self.kube.get(api_version, kind, NAMESPACE, name)

    async def until(self, check: Callable[[], Any], timeout_s: float = PATIENCE_S) -> Any:
        """Waits for a true answer, and returns it. The limit only bounds a failure."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = check()
            found = await found if asyncio.iscoroutine(found) else found
            if found or asyncio.get_running_loop().time() > deadline:
                assert found, "it did not come true in time"
                return found
            await asyncio.sleep(0.05)

    async def condition(self, kind: str, name: str, type: str) -> tuple[str, str]:
        """(status, reason)"""
        found = await self.get(kind, name) or {}
        for one in found.get("status", {}).get("conditions", []):
            if one["type"] == type and one["observedGeneration"] == found["metadata"]["generation"]:
                return one["status"], one["reason"]
        return "", ""

    async def becomes(self, kind: str, name: str, type: str, reason: str) -> None:
        async def check() -> bool:
            return (await self.condition(kind, name, type))[1] == reason

        await self.until(check)

    async def close(self) -> None:
        for one in reversed(self.made):
            await self.kube.delete(one)
        await self.pods.stop()


@asynccontextmanager
async def operating(world: World, options: Options | None = None) -> AsyncIterator[Operator]:
    kube = Kube(login())
    operator = Operator(kube, options or Options((NAMESPACE,), "stampede:1"))
    await operator.start()
    try:
        yield operator
        assert not [task for task in operator._loops if task.done()]
    finally:
        await operator.stop()
        await kube.close()


async def empty(world: World) -> bool:
    return not await world.pods.config()


async def events_of(world: World, name: str, reason: str = "") -> list[Table]:
    """Events about the objects of this name, the oldest first, whose reason begins so."""
    answer = await world.kube._ask("GET", path_of("v1", "Event", NAMESPACE))
    found = [
        one for one in answer["items"] if one["involvedObject"]["name"] == name and one["reason"].startswith(reason)
    ]
    return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))


async def all_told(world: World, name: str, reason: str, number: int) -> list[Table]:
    found = await events_of(world, name, reason)
    return found if len(found) >= number else []


async def settled(world: World, operator: Operator) -> None:
    """It has heard of everything, nothing is done, and nothing is about to be done."""
    queue, loop = operator.queue, asyncio.get_running_loop()

    async def quiet() -> bool:
        before = operator.kube.writes.total(), sum(queue.done.values())
        await asyncio.sleep(0.8)
        if (operator.kube.writes.total(), sum(queue.done.values())) != before or queue.depth or queue._running:
            return False
        if any(timer.when() < loop.time() + 5 for timer in queue._timers.values()):
            return False
        return all([await heard(one["kind"], one["metadata"]["name"]) for one in world.made])

    async def heard(kind: str, name: str) -> bool:
        known, found = operator.cache.resources.get(Id(kind, NAMESPACE, name)), await world.get(kind, name)
        return found is None or (known is not None and version_of(known.raw) == version_of(found))

    await world.until(quiet)


async def writes_in(operator: Operator, seconds: float) -> dict[str, int]:
    before = operator.kube.writes.copy()
    await asyncio.sleep(seconds)
    return dict(operator.kube.writes - before)


async def vouch(world: World, name: str) -> None:
    """As the chart does: the digest of a ConfigMap as it is now into the Secret of its name."""
    there = await world.kube.get("v1", "ConfigMap", NAMESPACE, name)
    sum = b64encode(digest(there.get("data") or {}).encode()).decode()
    if await world.kube.get("v1", "Secret", NAMESPACE, name):
        await world.kube.merge("v1", "Secret", NAMESPACE, name, {"data": {DIGEST: sum}})
        return
    body: Table = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
    world.made.append(await world.kube.create({**body, "data": {DIGEST: sum}}))
