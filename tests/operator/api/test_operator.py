"""The operator with a real API server and a real etcd. Pods are played: members that apply what etcd says."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from broker_operator import names, ownership, process
from broker_operator.bundles import DIGEST, LABEL, digest
from broker_operator.kube import Kube, KubeError, login, path_of
from broker_operator.lease import Lease
from broker_operator.model import version_of
from broker_operator.names import ACCEPTOR, ADDRESS, API_VERSION, BROKER, USER, Id
from broker_operator.process import Operator, Options

from broker.cluster.applied import Applied
from broker.cluster.keys import Keys
from broker.cluster.watched import Watched
from broker.config.settings import EtcdSettings
from broker.core.slots import Member, SlotRecord
from broker.metadata.etcd import EtcdMetadata
from broker.seams.clock import SystemClock
from broker.seams.entropy import token
from broker.seams.passcodes import hash_passcode, verify

from .conftest import NAMESPACE

Table = dict[str, Any]
PATIENCE_S = 100.0

pytestmark = pytest.mark.timeout(400)


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


@pytest.fixture
async def world(kube, etcd) -> AsyncIterator[World]:
    found = World(kube, etcd.address)
    yield found
    await found.close()


@asynccontextmanager
async def operating(world: World, options: Options | None = None) -> AsyncIterator[Operator]:
    kube = Kube(login())
    operator = Operator(kube, options or Options((NAMESPACE,), "stampede:1"))
    await operator.start()
    try:
        yield operator
        assert operator._kopf is not None and not operator._kopf.done(), operator._kopf
    finally:
        await operator.stop()
        await kube.close()


async def test_an_address_is_programmed_repaired_and_given_back(world):
    await world.make(BROKER, world.broker)
    async with operating(world) as operator:
        await world.make(ADDRESS, "orders", name="orders", settings={"maxSizeBytes": "1MiB"}, queues=[{"name": "big"}])
        await world.becomes(ADDRESS, "orders", "Programmed", "NoMembers")
        await world.pods.start(f"{world.broker}-owner-0", "edge-1")
        await world.becomes(ADDRESS, "orders", "Programmed", "Applied")
        wanted = {"addresses/orders": {"max_size_bytes": 1048576}, "queues/big": {"address": "orders"}}
        assert await world.pods.config() == wanted
        found = await world.get(ADDRESS, "orders")
        assert found["status"]["etcdRevision"] > 1 and "finalizers" not in found["metadata"]
        # Somebody else's edits are undone.
        await world.pods.metadata.put(world.pods.keys.address("orders"), b'{"partitions": 3}')
        await world.pods.metadata.delete(world.pods.keys.queue("big"))

        async def repaired() -> bool:
            return await world.pods.config() == wanted

        await world.until(repaired)
        assert operator.keyed.drifts >= 1
        (told,) = await world.until(lambda: events_of(world, "orders", "DriftRepaired"))
        assert '{"partitions": 3}' in told["message"] or "queues/big was deleted" in told["message"]
        # A queue less is a key less, and it counts as programmed only when that is in use.
        found = await world.get(ADDRESS, "orders")
        await world.kube.merge(API_VERSION, ADDRESS, NAMESPACE, "orders", {"spec": {"queues": []}})
        await world.becomes(ADDRESS, "orders", "Programmed", "Applied")
        assert await world.pods.config() == {"addresses/orders": {"max_size_bytes": 1048576}}
        await world.kube.delete(found)
        await world.until(lambda: _empty(world))


async def _empty(world: World) -> bool:
    return not await world.pods.config()


async def test_two_for_one_address_do_not_fight(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    first = await world.make(ADDRESS, "first", name="orders", settings={"maxDeliveryAttempts": 3})
    await asyncio.sleep(1.1)  # ages are whole seconds
    async with operating(world) as operator:
        await world.becomes(ADDRESS, "first", "Ready", "Ready")
        await world.make(ADDRESS, "second", name="orders", settings={"maxDeliveryAttempts": 5})
        await world.becomes(ADDRESS, "second", "Accepted", "Conflict")
        assert await world.pods.config() == {"addresses/orders": {"max_delivery_attempts": 3}}
        assert "Address/status" not in await writes_in(operator, 1)
        (told,) = await world.until(lambda: events_of(world, "second", "Conflict"))
        assert told["type"] == "Warning" and f"{ADDRESS} {NAMESPACE}/first is older" in told["message"]
        await world.kube.delete(first)
        await world.becomes(ADDRESS, "second", "Ready", "Ready")
        assert len(await world.until(lambda: events_of(world, "second", "Accepted"))) == 1
        assert not await events_of(world, "first")
        assert await world.pods.config() == {"addresses/orders": {"max_delivery_attempts": 5}}


async def test_two_releases_in_one_namespace_do_not_fight(world, monkeypatch):
    """Each operator has an image of its own, and both see all resources: a StompBroker is one operator's, and so is
    whatever names it. The other one takes over when the lease of that one is not renewed any more."""
    monkeypatch.setattr(process, "LOOK_S", 0.2)
    first, second = (
        Options((NAMESPACE,), f"stampede:{tag}", lease=f"{NAMESPACE}/{world.broker}-{tag}") for tag in ("1", "2")
    )
    leases = [Lease(world.kube, NAMESPACE, f"{world.broker}-{tag}", "pod", SystemClock()) for tag in ("1", "2")]
    for lease in leases:
        await lease.acquire()
    owners = names.owner_name(world.broker)

    async def stateful() -> Table:
        return await world.get("StatefulSet", owners, "apps/v1") or {}

    async def runs(image: str) -> bool:
        found = await stateful()
        return bool(found) and found["spec"]["template"]["spec"]["containers"][0]["image"] == image

    async def looks(operator: Operator) -> None:
        """It has looked at the StompBroker once more."""
        before = sum(operator.queue.done.values())
        labels = {"metadata": {"labels": {"a": token(4)}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, labels)
        await world.until(lambda: sum(operator.queue.done.values()) > before)

    await world.make(BROKER, world.broker, {names.OPERATOR: second.lease}, image=None)
    async with operating(world, second):
        await world.until(lambda: runs("stampede:2"))
        async with operating(world, first) as idle:
            await world.make(ADDRESS, "orders", name="orders")
            await world.becomes(ADDRESS, "orders", "Programmed", "NoMembers")
            generation = (await stateful())["metadata"]["generation"]
            await looks(idle)
            assert not +idle.kube.writes, "what is another operator's is not written"
            assert not idle.world.clusters
            assert (await stateful())["metadata"]["generation"] == generation
    # One that nobody looks after any more: its operator's lease stands still.
    monkeypatch.setattr(ownership, "GONE_S", 0.5)
    async with operating(world, first):
        await world.until(lambda: runs("stampede:1"))
        assert (await world.get(BROKER, world.broker))["metadata"]["annotations"][names.OPERATOR] == first.lease
        (told,) = await world.until(lambda: events_of(world, world.broker, "OperatorChanged"))
        assert second.lease in told["message"]
    monkeypatch.setattr(ownership, "GONE_S", 3600.0)
    async with operating(world, second) as idle:
        await looks(idle)
        assert not +idle.kube.writes and await runs("stampede:1")


async def test_a_broker_that_names_no_operator_gets_one_before_anything_is_made(world):
    await world.make(BROKER, world.broker)
    async with operating(world) as operator:
        await world.until(lambda: world.get("StatefulSet", names.owner_name(world.broker), "apps/v1"))
        found = await world.get(BROKER, world.broker)
        assert found["metadata"]["annotations"][names.OPERATOR] == operator.options.lease


async def test_what_went_while_nobody_looked_is_swept(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    gone = await world.make(ADDRESS, "gone", name="gone")
    kept = await world.make(ADDRESS, "kept", name="kept", deletionPolicy="Retain")
    async with operating(world):
        for name in ("gone", "kept"):
            await world.becomes(ADDRESS, name, "Ready", "Ready")
    for one in (gone, kept):
        await world.kube.delete(one)
        assert await world.get(ADDRESS, one["metadata"]["name"]) is None, "deleting never waits"
    async with operating(world):

        async def swept() -> bool:
            return set(await world.pods.config()) == {"addresses/kept"}

        await world.until(swept)
    # What was left without a marker is adopted by the next one of its name.
    await world.make(ADDRESS, "again", name="kept", settings={"paused": True})
    async with operating(world):
        await world.becomes(ADDRESS, "again", "Ready", "Ready")
        assert (await world.get(ADDRESS, "again"))["status"]["adopted"]


async def test_a_paused_resource_is_left_alone(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world):
        await world.make(ADDRESS, "paused", {names.PAUSED: "true"}, name="paused")
        await world.becomes(ADDRESS, "paused", "Paused", "Annotation")
        assert await world.pods.config() == {}
        await world.kube.merge(
            API_VERSION, ADDRESS, NAMESPACE, "paused", {"metadata": {"annotations": {names.PAUSED: None}}}
        )
        await world.becomes(ADDRESS, "paused", "Programmed", "Applied")
        assert await world.condition(ADDRESS, "paused", "Paused") == ("", "")


GRACE_S = 3600


class Ahead(SystemClock):
    """A wall clock that can be put forward."""

    by_s = 0.0

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self.by_s * 1000)


async def test_a_user_gets_a_passcode_and_its_rotation_has_a_grace(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    async with operating(world) as operator:
        operator.keyed._clock = clock = Ahead()
        await world.make(USER, "ada", groups=["admins"], rotationGraceSeconds=GRACE_S)
        await world.becomes(USER, "ada", "Ready", "Ready")
        first = await passcode(world)
        entry = (await world.pods.config())["users/ada"]
        assert verify(entry["hash"], first) and entry["groups"] == ["admins"] and "previous" not in entry
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"spec": {"generate": {"rotation": "2"}}})

        async def rotated() -> bool:
            return "previous" in (await world.pods.config())["users/ada"]

        await world.until(rotated)
        entry, second = (await world.pods.config())["users/ada"], await passcode(world)
        assert first != second and verify(entry["hash"], second)
        (told,) = await world.until(lambda: events_of(world, "ada", "PasscodeRotated"))
        assert "the one before works until 20" in told["message"]
        assert verify(entry["previous"][0], first)

        async def over() -> bool:
            return not await rotated()

        # Nobody can be quick enough to see a short grace for certain, so time is; then it ends without an event.
        clock.by_s = GRACE_S - 5.0
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"metadata": {"annotations": {"look": "again"}}})
        await world.until(over)
        # A passcode that somebody set past the operator does not last.
        foreign = {"hash": hash_passcode("guessed"), "groups": []}
        await world.pods.metadata.put(world.pods.keys.user("ada"), json.dumps(foreign).encode())

        async def repaired() -> bool:
            found = (await world.pods.config())["users/ada"]
            return verify(found["hash"], second) and "previous" not in found

        await world.until(repaired)
        (told,) = await world.until(lambda: events_of(world, "ada", "DriftRepaired"))
        assert "the passcode of ada" in told["message"] and foreign["hash"] not in told["message"]
        await world.kube.merge(API_VERSION, USER, NAMESPACE, "ada", {"spec": {"suspended": True}})
        await world.until(lambda: _empty(world))
        # Nor does one that somebody sets for a user that is suspended, without a marker of ours.
        await world.pods.metadata.put(world.pods.keys.user("ada"), json.dumps(foreign).encode())
        await world.until(lambda: _empty(world))


async def passcode(world: World) -> str:
    secret = await world.get("Secret", "ada-stomp", "v1")
    assert b64decode(secret["data"]["username"]) == b"ada"
    return b64decode(secret["data"]["password"]).decode()


async def test_a_secret_of_somebody_else_is_a_condition_and_its_change_a_rotation(world):
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    name = f"s-{token(3)}"
    async with operating(world):
        await world.make(USER, "bob", passwordSecretRef={"name": name, "key": "pw"})
        await world.becomes(USER, "bob", "Accepted", "NoPasscode")
        secret: Table = {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {"pw": "one"},
        }  # fmt: skip
        secret = await world.kube.create(secret)
        world.made.append(secret)
        await world.becomes(USER, "bob", "Ready", "Ready")
        await world.kube.merge("v1", "Secret", NAMESPACE, name, {"stringData": {"pw": "two"}})

        async def rotated() -> bool:
            return verify((await world.pods.config())["users/bob"]["hash"], "two")

        await world.until(rotated)


async def test_objects_are_made_repaired_and_not_written_without_need(world):
    await world.make(BROKER, world.broker)
    edge, user = f"e-{token(3)}", f"u-{token(3)}"
    async with operating(world) as operator:
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], autoscaling={})
        await world.make(USER, user)
        await world.until(lambda: world.get("HorizontalPodAutoscaler", f"{edge}-edge", operator_api(operator)))
        await world.until(lambda: world.get("StatefulSet", f"{world.broker}-owner", "apps/v1"))
        await settled(world, operator)
        assert operator.kube.writes and not await writes_in(operator, 2)
        await world.kube.merge(
            "v1", "Service", NAMESPACE, edge, {"spec": {"selector": {"x": "y", names.ACCEPTOR_LABEL: "z"}}}
        )
        deployment = await world.get("Deployment", f"{edge}-edge", "apps/v1")
        await world.kube.delete(deployment)

        async def repaired() -> bool:
            service = await world.get("Service", edge, "v1")
            made = await world.get("Deployment", f"{edge}-edge", "apps/v1")
            selector = service["spec"]["selector"]
            right = selector[names.ACCEPTOR_LABEL] == edge and "x" not in selector
            return right and made is not None and made["metadata"]["uid"] != deployment["metadata"]["uid"]

        await world.until(repaired)
        await world.until(lambda: operator.applier.drifts >= 2)
        told = await world.until(lambda: all_told(world, edge, "DriftRepaired", 2))
        messages = sorted(one["message"] for one in told)
        assert f"{edge}-edge was changed by somebody else and is repaired: it was deleted" in messages[0]
        assert 'spec.selector.stampede.dev/acceptor was "z"' in messages[1]
        # What is not wanted any more goes.
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": {"autoscaling": None}})

        async def gone() -> bool:
            return await world.get("HorizontalPodAutoscaler", f"{edge}-edge", operator_api(operator)) is None

        await world.until(gone)
    async with operating(world) as operator:
        await settled(world, operator)
        # A new operator knows nothing of what the server makes of an object, so it applies some once; then no more.
        assert not await writes_in(operator, 2)


async def test_what_leaves_a_spec_leaves_the_object_and_an_autoscaler_takes_the_pool_as_it_is(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    spec = {"replicas": 5, "service": {"type": "ClusterIP", "annotations": {"a": "b"}}}
    spec |= {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}
    async with operating(world):
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], **spec)

        async def pool() -> tuple[Any, Any, Any]:
            service, pods = (
                await world.get("Service", edge, "v1"),
                await world.get("Deployment", f"{edge}-edge", "apps/v1"),
            )
            if service is None or pods is None:
                return None, None, None
            selector = pods["spec"]["template"]["spec"].get("nodeSelector")
            return pods["spec"]["replicas"], selector, service["metadata"]["annotations"].get("a")

        async def becomes(*wanted: Any) -> None:
            async def check() -> bool:
                return await pool() == wanted

            await world.until(check)

        async def change(**spec: Any) -> None:
            await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": spec})

        await becomes(5, {"disk": "fast"}, "b")
        await change(service={"annotations": None})
        await becomes(5, {"disk": "fast"}, None)
        await change(replicas=None, autoscaling={})
        await world.until(lambda: world.get("HorizontalPodAutoscaler", f"{edge}-edge", "autoscaling/v1"))
        await change(template=None)
        await becomes(5, None, None)


async def test_what_the_api_server_refuses_is_said(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    async with operating(world):
        template = {"spec": {"dnsPolicy": "Sometimes"}}
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}], template=template)
        await world.becomes(ACCEPTOR, edge, "Accepted", "Refused")
        (told,) = await world.until(lambda: events_of(world, edge, "Refused"))
        assert "dnsPolicy" in told["message"]
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, edge, {"spec": {"template": None}})
        await world.becomes(ACCEPTOR, edge, "Accepted", "Accepted")


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


def operator_api(operator: Operator) -> str:
    return operator.workloads._api.autoscaling


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
        known, found = operator.world.resources.get(Id(kind, NAMESPACE, name)), await world.get(kind, name)
        return found is None or (known is not None and version_of(known.raw) == version_of(found))

    await world.until(quiet)


async def writes_in(operator: Operator, seconds: float) -> dict[str, int]:
    before = operator.kube.writes.copy()
    await asyncio.sleep(seconds)
    return dict(operator.kube.writes - before)


async def test_an_object_of_somebody_else_is_not_taken_over(world):
    await world.make(BROKER, world.broker)
    edge = f"e-{token(3)}"
    service: Table = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": edge, "namespace": NAMESPACE}}
    service |= {"spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}}
    world.made.append(await world.kube.create(service))
    async with operating(world):
        await world.make(ACCEPTOR, edge, listeners=[{"name": "stomp", "port": 61613}])
        await world.becomes(ACCEPTOR, edge, "Accepted", "NameTaken")
    assert (await world.get("Service", edge, "v1"))["spec"]["selector"] == {"a": "b"}


async def test_owners_go_only_when_they_keep_nothing(world):
    await world.make(BROKER, world.broker, owners={"replicas": 4})
    ids = [f"{world.broker}-owner-{n}" for n in range(4)]
    await world.pods.start(*ids)
    await world.pods.slots(ids)
    async with operating(world):
        await world.becomes(BROKER, world.broker, "FullyReplicated", "InSync")
        patch = {"spec": {"owners": {"replicas": 3}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        await world.becomes(BROKER, world.broker, "ScalingDown", "Moving")
        assert await replicas(world) == 4
        assert await world.pods.metadata.get(world.pods.keys.cordon(ids[3])) is not None
        assert (await world.get(BROKER, world.broker))["status"]["owners"]["holding"] == 256
        await world.pods.slots(ids[:3])

        async def shrunk() -> bool:
            return await replicas(world) == 3

        await world.until(shrunk)
        await world.becomes(BROKER, world.broker, "ScalingDown", "Idle")

        async def free() -> bool:
            return await world.pods.metadata.get(world.pods.keys.cordon(ids[3])) is None

        await world.until(free)
        told = await world.until(lambda: all_told(world, world.broker, "Owners", 4))
        assert [one["reason"] for one in told] == ["OwnersCordoned", "OwnersMoving", "OwnersRemoving", "OwnersRemoved"]


async def test_connections_are_told_in_steps(world):
    """From `load/<edge>` to `kubectl get`; numbers that stay are not written."""
    await world.make(BROKER, world.broker)
    edge, other = f"e-{token(3)}", f"e-{token(3)}"
    pods = [f"{edge}-edge-6c5d7f-{name}" for name in ("aaaaa", "bbbbb")]
    for pod, count in ((pods[0], 100), (pods[1], 50), (f"{other}-edge-6c5d7f-ccccc", 7)):
        await world.pods.metadata.put(world.pods.keys.load_of(pod), json.dumps({"connections": count}).encode())
    async with operating(world) as operator:
        for name in (edge, other):
            await world.make(ACCEPTOR, name, listeners=[{"name": "stomp", "port": 61613}])

        async def shown(name: str) -> Table:
            status = ((await world.get(ACCEPTOR, name)) or {}).get("status", {})
            return {key: status.get(key) for key in ("connections", "connectionsPerPod")}

        async def becomes(name: str, total: int, least: int, most: int) -> None:
            wanted = {"connections": total, "connectionsPerPod": {"least": least, "most": most}}

            async def check() -> bool:
                return await shown(name) == wanted

            await world.until(check)

        await becomes(edge, 150, 50, 100)
        await becomes(other, 7, 7, 7)
        await settled(world, operator)
        assert not await writes_in(operator, 2)
        await world.pods.metadata.put(world.pods.keys.load_of(pods[1]), b'{"connections": 300}')
        await becomes(edge, 400, 100, 300)
        await world.pods.metadata.delete(world.pods.keys.load_of(pods[0]))
        await becomes(edge, 300, 300, 300)


async def replicas(world: World) -> int:
    found = await world.get("StatefulSet", f"{world.broker}-owner", "apps/v1")
    return int(found["spec"]["replicas"])


async def vouch(world: World, name: str) -> None:
    """As the chart does: the digest of a ConfigMap as it is now into the Secret of its name."""
    there = await world.kube.get("v1", "ConfigMap", NAMESPACE, name)
    sum = b64encode(digest(there.get("data") or {}).encode()).decode()
    if await world.kube.get("v1", "Secret", NAMESPACE, name):
        await world.kube.merge("v1", "Secret", NAMESPACE, name, {"data": {DIGEST: sum}})
        return
    body: Table = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
    world.made.append(await world.kube.create({**body, "data": {DIGEST: sum}}))


async def test_a_template_says_where_pods_run_and_no_more(world):
    """A writer of StompAcceptors is no writer of pods: with another service account they would read every Secret."""
    await world.make(BROKER, world.broker)
    sidecar = {"containers": [{"name": "thief", "image": "busybox"}], "serviceAccountName": "mq-operator"}
    listeners = [{"name": "stomp", "port": 61613}]
    async with operating(world):
        await world.make(ACCEPTOR, "edge", listeners=listeners, template={"spec": sidecar})

        async def refused() -> bool:
            return (await world.condition(ACCEPTOR, "edge", "Accepted"))[1] == "TemplateRefused"

        await world.until(refused)
        found = await world.get(ACCEPTOR, "edge")
        (why,) = [one["message"] for one in found["status"]["conditions"] if one["type"] == "Accepted"]
        assert "spec.serviceAccountName" in why and "spec.containers[thief]" in why
        assert await world.get("Deployment", names.edge_name("edge"), "apps/v1") is None
        fine = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}, "serviceAccountName": None}}}}
        fine["spec"]["template"]["spec"]["containers"] = None
        await world.kube.merge(API_VERSION, ACCEPTOR, NAMESPACE, "edge", fine)
        made = await world.until(lambda: world.get("Deployment", names.edge_name("edge"), "apps/v1"))
        assert made["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}


async def test_a_bundle_becomes_resources_that_a_person_may_change(world):
    name = f"bundle-{token(3)}"
    spec = {"image": "stampede:1", "etcd": {"endpoints": [world.etcd]}}
    manifest = {"apiVersion": API_VERSION, "kind": BROKER, "metadata": {"name": world.broker}, "spec": spec}
    bad = {"apiVersion": API_VERSION, "kind": ADDRESS, "metadata": {"name": "bad"}, "spec": {}}
    body: Table = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"broker.yaml": json.dumps(manifest)}}
    body["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}}
    async with operating(world):
        bundle = await world.kube.create(body)
        world.made.append(bundle)

        async def refused() -> bool:
            return any("nobody vouches" in one["message"] for one in await events_of(world, name))

        await world.until(refused)
        assert await world.get(BROKER, world.broker) is None
        await vouch(world, name)
        found = await world.until(lambda: world.get(BROKER, world.broker))
        assert found["metadata"]["ownerReferences"][0]["name"] == name
        patch = {"spec": {"owners": {"replicas": 5}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        data = {"broker.yaml": json.dumps(manifest), "bad.yaml": json.dumps(bad)}
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": data})
        await vouch(world, name)

        async def told() -> bool:
            return any("spec.name" in one["message"] for one in await events_of(world, name))

        await world.until(told)
        assert (await world.get(BROKER, world.broker))["spec"]["owners"]["replicas"] == 5
        manifest["spec"]["owners"] = {"replicas": 4}
        data = {"broker.yaml": json.dumps(manifest), "bad.yaml": None}
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": data})
        await vouch(world, name)

        async def upgraded() -> bool:
            return (await world.get(BROKER, world.broker))["spec"]["owners"]["replicas"] == 4

        await world.until(upgraded)
        await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": {"broker.yaml": None}})
        await vouch(world, name)

        async def gone() -> bool:
            return await world.get(BROKER, world.broker) is None

        await world.until(gone)


async def test_a_user_that_goes_while_an_operator_starts_is_gone_soon(world):
    """What was taken out of a bundle while no operator ran is deleted by the next one at once: before kopf, which tells
    of deletions, has its watch."""
    await world.make(BROKER, world.broker)
    await world.pods.start(f"{world.broker}-owner-0")
    name, user = f"bundle-{token(3)}", f"u-{token(3)}"
    manifest = {"apiVersion": API_VERSION, "kind": USER, "metadata": {"name": user}}
    manifest["spec"] = {"brokerRef": {"name": world.broker}}
    body: Table = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"user.yaml": json.dumps(manifest)}}
    body["metadata"] = {"name": name, "namespace": NAMESPACE, "labels": {LABEL: "true"}}
    world.made.append(await world.kube.create(body))
    await vouch(world, name)
    async with operating(world):
        await world.becomes(USER, user, "Ready", "Ready")
        assert set(await world.pods.config()) == {f"users/{user}"}
    await world.kube.merge("v1", "ConfigMap", NAMESPACE, name, {"data": {"user.yaml": None}})
    await vouch(world, name)
    async with operating(world) as operator:
        await world.until(lambda: _empty(world))
        assert Id(USER, NAMESPACE, user) not in operator.world.resources


async def test_one_of_two_operators_works(kube):
    name = f"lease-{token(3)}"
    first, second = (Lease(kube, NAMESPACE, name, me, SystemClock()) for me in ("a", "b"))
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.3)
    assert first.held and not second.held
    await first.release()
    await asyncio.wait_for(waiting, PATIENCE_S)
    assert second.held and not first.held
    with pytest.raises(KubeError):
        await first._kube.replace(first._body(first._lease))
    await second.release()


async def test_etcd_that_does_not_answer_is_said_and_nothing_is_taken_away(world, own_etcd):
    world.etcd = own_etcd.address
    await world.make(BROKER, world.broker)
    await world.make(ADDRESS, "orders", name="orders")
    pods = world.pods = Pods(own_etcd.address, names.etcd_prefix(NAMESPACE, world.broker))
    await pods.start(f"{world.broker}-owner-0")
    async with operating(world) as operator:
        await world.becomes(ADDRESS, "orders", "Ready", "Ready")
        own_etcd.kill()

        async def said() -> bool:
            return (await world.condition(BROKER, world.broker, "EtcdReachable"))[0] == "False"

        await world.until(said)
        patch = {"spec": {"owners": {"replicas": 3}}}
        await world.kube.merge(API_VERSION, BROKER, NAMESPACE, world.broker, patch)
        assert await world.condition(ADDRESS, "orders", "Ready") == ("True", "Ready")
        await asyncio.to_thread(own_etcd.start)
        await world.becomes(BROKER, world.broker, "EtcdReachable", "Reachable")
        assert operator.world.clusters[Id(BROKER, NAMESPACE, world.broker)].known
