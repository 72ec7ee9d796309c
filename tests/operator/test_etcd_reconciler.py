"""What an operator writes to etcd is decided from what it then replaces: nothing foreign goes unseen."""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import b64encode

from broker_operator.etcd import passcodes
from broker_operator.etcd.etcd_reconciler import EtcdReconciler, Raced
from broker_operator.spec.model import Resource
from broker_operator.spec.names import BROKER, USER
from broker_operator.world.cluster import Cluster
from broker_operator.world.resource_cache import ResourceCache

from broker.config.settings import EtcdSettings
from broker.seams.clock import SystemClock
from broker.seams.passcodes import hash_passcode
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

from .bench import Refusing, Statuses
from .builders import raw


class Telling:
    def __init__(self) -> None:
        self.told: list[str] = []

    async def tell(self, about: object, what: object, subject: str = "") -> None:
        self.told.append(what.reason)


async def test_a_passcode_that_somebody_sets_while_ours_is_looked_at_is_a_drift(monkeypatch):
    """A hash takes 40 ms in a thread of its own. What was set in them had been replaced without a word."""
    server, world, events = Refusing(), ResourceCache(lambda id: None), Telling()
    server.secrets["ada"] = {
        "metadata": {"uid": "1", "resourceVersion": "1"}, "data": {"password": b64encode(b"ours").decode()}
    }  # fmt: skip
    broker = world.put(raw(BROKER))
    user = world.put(raw(USER, "ada", brokerRef={"name": "stomp"}, passwordSecretRef={"name": "ada"}))
    assert isinstance(broker, Resource) and isinstance(user, Resource)
    cluster = Cluster(
        EtcdSettings(endpoints="127.0.0.1:1", prefix="/x"), lambda *_: None, MemoryMetadata(MemoryStore())
    )
    world.clusters[broker.id] = cluster
    cluster.start()
    keyed = EtcdReconciler(world, server, Statuses(), events, SystemClock())
    try:
        await eventually(lambda: cluster.known)
        await keyed.user(user)
        key, decide = cluster.keys.user("ada"), passcodes.decide
        looking, go_on = threading.Event(), threading.Event()

        def slow(*given):
            looking.set()
            assert go_on.wait(30)
            return decide(*given)

        monkeypatch.setattr(passcodes, "decide", slow)
        again = asyncio.create_task(keyed.user(user))
        await eventually(looking.is_set)
        await cluster.metadata.put(key, json.dumps({"hash": hash_passcode("foreign"), "groups": []}).encode())
        await eventually(lambda: b'groups": []' in cluster.config[key].value)
        go_on.set()
        (found,) = await asyncio.gather(again, return_exceptions=True)
        assert isinstance(found, Raced) and events.told == [], found
        await keyed.user(user)
        assert events.told == ["DriftRepaired"]
        assert passcodes.verify(json.loads(cluster.config[key].value)["hash"], "ours")
    finally:
        await cluster.stop()
