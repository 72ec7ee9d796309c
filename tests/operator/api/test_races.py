"""People change their minds while answers, events and commits are on their way: in the end all is as it is wanted.

The operator has real servers, but hears of everything late, and never looks at everything anew: that would find what it
had lost. What is done depends on the seed (TEST_RACES="5 6 7" for others), its order in time on the machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from broker_operator import process
from broker_operator.etcd.etcd_reconciler import ROTATION
from broker_operator.kube.applying import controller_of
from broker_operator.kube.kube import Kube, KubeError, login
from broker_operator.process import Operator, Options
from broker_operator.spec import names
from broker_operator.spec.names import ACCEPTOR, ADDRESS, API_VERSION, BROKER, PAUSED, USER
from broker_operator.world import cluster

from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import Delete, Put
from broker.seams.entropy import token
from broker.seams.passcodes import verify

from .world import NAMESPACE, World

Table = dict[str, Any]
SEEDS = [int(seed) for seed in os.environ.get("TEST_RACES", "0 1").split()]
ROUNDS = 10
LATE_S = 0.15

pytestmark = pytest.mark.timeout(400)


class LateKube(Kube):
    """Answers and events arrive when other things have happened."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(login())
        self._chance = chance

    async def _ask(self, *args: Any, **options: Any) -> Table:
        answer = await super()._ask(*args, **options)
        await asyncio.sleep(self._chance.random() * LATE_S)
        return answer

    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[Table]:
        async for event in super().watch(*args, **options):
            await asyncio.sleep(self._chance.random() * LATE_S)
            yield event


@asynccontextmanager
async def late(monkeypatch: pytest.MonkeyPatch, seed: int) -> AsyncIterator[None]:
    """An operator that hears of everything late."""
    chance = random.Random(seed)

    class LateMetadata(EtcdMetadata):
        async def commit(self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete]) -> int:
            revision = await super().commit(compare, then)
            await asyncio.sleep(chance.random() * LATE_S)
            return revision

    monkeypatch.setattr(cluster, "EtcdMetadata", LateMetadata)
    monkeypatch.setattr(process, "RESYNC_S", 1e6)
    kube = LateKube(chance)
    operator = Operator(kube, Options((NAMESPACE,), "stampede:1"))
    await operator.start()
    try:
        yield
    finally:
        await operator.stop()
        await kube.close()


class People:
    """Do things to some resources, each of which is wanted in one of several ways, or not at all."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.mark = token(3)
        self.users = [f"u{n}-{self.mark}" for n in range(3)]
        self.addresses = [f"a{n}-{self.mark}" for n in range(4)]
        self.edge = f"e-{self.mark}"
        self.wanted: dict[tuple[str, str], Table] = {}
        self._gone: set[str] = set()
        """uids"""

    async def round(self) -> None:
        """Everything is changed some times, all at once. The last change of each is the one that may be lost."""
        names = [(USER, name) for name in self.users] + [(ADDRESS, name) for name in self.addresses]
        changes = [self._changes(kind, name) for kind, name in (*names, (ACCEPTOR, self.edge))]
        meddling = [self._meddle() for _ in range(self.chance.randrange(2))]
        meddling += [self._meddle_with_objects() for _ in range(self.chance.randrange(2))]
        await asyncio.gather(*changes, *meddling)

    async def _changes(self, kind: str, name: str) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(self.chance.random() * 3 * LATE_S)
            await self._change(kind, name)

    async def _change(self, kind: str, name: str) -> None:
        there = self.wanted.get((kind, name))
        if there is None:
            spec = self._spec(kind, name)
            self.wanted[kind, name] = await self.world.make(kind, name, **spec)
        elif self.chance.random() < 0.3:
            await self.world.kube.delete(there)
            del self.wanted[kind, name]
            self._gone.add(there["metadata"]["uid"])
            if self.chance.random() < 0.5:
                await self._change(kind, name)
        elif self.chance.random() < 0.2:
            for value in ("true", None):
                patch = {"metadata": {"annotations": {PAUSED: value}}}
                await self.world.kube.merge(API_VERSION, kind, NAMESPACE, name, patch)
                await asyncio.sleep(self.chance.random() * LATE_S)
        else:
            patch = {"spec": self._spec(kind, name)}
            self.wanted[kind, name] = await self.world.kube.merge(API_VERSION, kind, NAMESPACE, name, patch)

    def _spec(self, kind: str, name: str) -> Table:
        number = self.chance.randrange(1, 9)
        if kind == ACCEPTOR:
            return {"listeners": [{"name": "stomp", "port": 61613}], "replicas": number}
        if kind == ADDRESS:  # two of them want the same
            place = f"shop{int(name[1]) // 2}.{self.mark}"
            queues = [{"name": f"{place}.q{n}"} for n in range(self.chance.randrange(3))]
            return {"name": place, "settings": {"maxDeliveryAttempts": number}, "queues": queues}
        rotation = {"rotation": str(number)}
        return {"groups": [f"g{number}"], "suspended": self.chance.random() < 0.3, "generate": rotation}

    async def _meddle(self) -> None:
        """Somebody else in etcd."""
        keys = self.world.pods.keys
        key = self.chance.choice([keys.user(self.chance.choice(self.users)), keys.address(f"shop0.{self.mark}")])
        item = await self.world.pods.metadata.get(key)
        if item is not None:  # what nobody wants any more is nobody's to give back, unless a marker says whose it was
            what = self.chance.choice([Delete(key), Put(key, b'{"hash": "", "groups": []}')])
            await self.world.pods.metadata.commit([(key, item.revision)], [what])

    async def _meddle_with_objects(self) -> None:
        api_version, kind = "apps/v1", "Deployment"
        found = await self.world.get(kind, f"{self.edge}-edge", api_version)
        if found is None:
            return
        if self.chance.random() < 0.5:
            await self.world.kube.delete(found)
            return
        patch = {"spec": {"replicas": 20}}
        try:
            await self.world.kube.merge(api_version, kind, NAMESPACE, f"{self.edge}-edge", patch)
        except KubeError as error:
            assert error.status == 404, error

    async def collect(self) -> None:
        """What Kubernetes does with objects whose owner is gone; an API server alone does not. For ever."""
        kube = self.world.kube
        kinds = [("v1", "Secret"), *process.managed(await process.versions(kube))]
        while True:
            for api_version, kind in kinds:
                answer = await kube.read_list(api_version, kind, NAMESPACE)
                for item in answer["items"]:
                    if controller_of(item) in self._gone:
                        await kube.delete(item | {"apiVersion": api_version, "kind": kind})
            await asyncio.sleep(self.chance.random())

    # ── what is to come of it ────────────────────────────────────────────────────────────────────

    async def wrong(self) -> list[str]:
        config = await self.world.pods.config()
        found = await self._wrong_users(config) + await self._wrong_addresses(config)
        found += [
            f"{kind} {name}: {why}" for kind, name in self.wanted if (why := await self._wrong_status(kind, name))
        ]
        if (edge := self.wanted.get((ACCEPTOR, self.edge))) is not None:
            made = await self.world.get("Deployment", f"{self.edge}-edge", "apps/v1")
            if made is None or made["spec"]["replicas"] != edge["spec"]["replicas"]:
                found.append(f"{made and made['spec']['replicas']} edges instead of {edge['spec']['replicas']}")
        return found

    async def _wrong_users(self, config: Table) -> list[str]:
        found = []
        for name in self.users:
            wanted, there = self.wanted.get((USER, name)), config.get(f"users/{name}")
            if wanted is None or wanted["spec"].get("suspended"):
                if there is not None:
                    found.append(f"{name} can log in")
                continue
            secret = await self.world.get("Secret", names.user_secret(name), "v1")
            if secret is None or there is None or there["groups"] != wanted["spec"]["groups"]:
                found.append(f"{name}: {there} instead of {wanted['spec']}")
            elif not verify(there["hash"], b64decode(secret["data"]["password"]).decode()):
                found.append(f"the passcode of {name}")
            elif secret["metadata"]["annotations"][ROTATION] != wanted["spec"]["generate"]["rotation"]:
                found.append(f"the rotation of {name}")
        return found

    async def _wrong_addresses(self, config: Table) -> list[str]:
        wanted: Table = {}
        losers: set[str] = set()
        for place in (0, 1):
            rivals = [self.wanted.get((ADDRESS, name)) for name in self.addresses if int(name[1]) // 2 == place]
            ages = [(one["metadata"]["creationTimestamp"], one["metadata"]["uid"], one) for one in rivals if one]
            if ages:
                ages.sort(key=lambda one: one[:2])
                losers |= {uid for _, uid, _ in ages[1:]}
                spec = ages[0][2]["spec"]
                wanted[f"addresses/{spec['name']}"] = {"max_delivery_attempts": spec["settings"]["maxDeliveryAttempts"]}
                wanted |= {f"queues/{queue['name']}": {"address": spec["name"]} for queue in spec.get("queues", [])}
        # Whoever lost a key to an older one keeps what it has besides until that is settled.
        items, _ = await self.world.pods.metadata.range(self.world.pods.keys.managed)
        kept = {
            item.key.removeprefix(self.world.pods.keys.managed)
            for item in items
            if json.loads(item.value)["uid"] in losers
        }
        there = {
            key: value
            for key, value in config.items()
            if not key.startswith("users/") and (key in wanted or key not in kept)
        }
        return [] if there == wanted else [f"{there} instead of {wanted}"]

    async def _wrong_status(self, kind: str, name: str) -> str:
        found = await self.world.get(kind, name)
        if found is None:
            return "it is not there"
        status = found.get("status", {})
        conditions = {one["type"]: one["reason"] for one in status.get("conditions", [])}
        if status.get("observedGeneration") != found["metadata"]["generation"] or "Paused" in conditions:
            return f"{status} of generation {found['metadata']['generation']}"
        reason = conditions.get("Accepted")
        return "" if reason in ("Accepted", "Suspended") or (kind, reason) == (ADDRESS, "Conflict") else f"{reason}"


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_people_want_in_the_end_is_there(world, monkeypatch, seed):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0", "edge-1")
    wrong: list[str] = []
    async with late(monkeypatch, seed):
        people = People(world, seed)
        collecting = asyncio.create_task(people.collect())

        async def right() -> bool:
            wrong[:] = await people.wrong()
            return not wrong

        try:
            for _ in range(ROUNDS):
                await people.round()
                await world.until(right)
        except AssertionError:
            pytest.fail("; ".join(wrong))
        finally:
            collecting.cancel()
