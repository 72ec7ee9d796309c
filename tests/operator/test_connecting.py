"""From a StompBroker to a connection to its etcd: made, made anew, and told of when it cannot be made."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from errno import ENOSPC
from typing import Any

import pytest
from broker_operator.etcd.etcd_reconciler import Keyed
from broker_operator.kube.applying import Applier
from broker_operator.kube.kube import KubeError
from broker_operator.spec.model import BrokerSpec, Resource
from broker_operator.spec.names import BROKER
from broker_operator.workloads.owners import Versions
from broker_operator.workloads.workloads import Workloads
from broker_operator.world import connecting
from broker_operator.world.cluster import NOT_ASKED, Cluster
from broker_operator.world.connecting import Connections
from broker_operator.world.resource_cache import World

from broker.config.settings import EtcdSettings
from broker.seams.clock import SystemClock
from tests.harness.broker import free_ports

from .builders import raw
from .test_applying import Server

Table = dict[str, Any]
KINDS = (
    "StatefulSet", "Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy",
    "HorizontalPodAutoscaler",
)  # fmt: skip


class Refusing(Server):
    """refuses: kind → HTTP status of an answer to its apply. claims: sizes of the owners' claims."""

    def __init__(self) -> None:
        super().__init__()
        self.live = {kind: {} for kind in KINDS}
        self.refuses: dict[str, int] = {}
        self.claims: list[str] = []
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
        spec = [{"resources": {"requests": {"storage": size}}} for size in self.claims]
        return {"items": [{"metadata": {"name": f"data-stomp-owner-{n}"}, "spec": one} for n, one in enumerate(spec)]}

    async def merge(self, api_version: str, kind: str, namespace: str, name: str, patch: Table) -> Table:
        self.writes.append(f"{name} {patch['spec']['resources']['requests']['storage']}")
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


class Setting:
    def __init__(self) -> None:
        self.server = Refusing()
        self.statuses = Statuses()
        self.world = World(lambda id: None)
        clock = self.clock = Later()
        self.workloads = Workloads(
            self.world, self.server, self.statuses, None, Applier(self.server), self.server.live, Versions(), "", clock
        )
        self.keyed = Keyed(self.world, self.server, self.statuses, None, clock)

    def put(self, kind: str, **spec: Any) -> Resource:
        """The resource of this kind, there or changed."""
        one = raw(kind, **spec)
        one["metadata"]["uid"] = f"uid of the {kind}"
        found = self.world.put(one)
        assert found is not None
        return found


@pytest.fixture
def setting():
    return Setting()


async def test_an_etcd_that_is_not_there_says_what_fails():
    told: list[str] = []
    (port,) = free_ports(1)
    cluster = Cluster(EtcdSettings(endpoints=f"127.0.0.1:{port}", prefix="/x"), lambda part, names: told.append(part))
    assert cluster.why == NOT_ASKED
    cluster.start()
    try:
        for _ in range(3000):
            if told:
                break
            await asyncio.sleep(0.01)
        assert told == ["reachable"] and str(port) in cluster.why and not cluster.known
    finally:
        await cluster.stop()


async def test_an_etcd_that_cannot_be_asked_says_why(setting):
    connections = Connections(setting.world, setting.server, lambda *_: None)
    etcd = {"endpoints": ["etcd:2379"], "userSecretName": "nobody"}
    setting.server.secrets["nobody"] = {"data": {}}
    broker = setting.put(BROKER, etcd=etcd)
    for _ in range(2):
        await connections.ensure(broker, broker.spec(BrokerSpec))
        await setting.workloads.broker(broker)
        status, reason, message = setting.statuses.condition("EtcdReachable")
        assert (status, reason) == ("False", "Unreachable") and "etcd.user" in message
    await connections.close()
    assert setting.world.unusable == {}


async def test_a_connection_that_could_not_be_made_is_tried_again(setting, monkeypatch):
    connections = Connections(setting.world, setting.server, lambda *_: None)
    etcd = {"endpoints": ["127.0.0.1:1"], "userSecretName": "root"}
    data = {"username": b64encode(b"root").decode(), "password": b64encode(b"secret").decode()}
    setting.server.secrets["root"] = {"data": data}
    broker = setting.put(BROKER, etcd=etcd)
    with monkeypatch.context() as full:
        full.setattr(connecting, "_write", no_space)
        with pytest.raises(OSError):
            await connections.ensure(broker, broker.spec(BrokerSpec))
    assert not setting.world.clusters
    await connections.ensure(broker, broker.spec(BrokerSpec))
    assert broker.id in setting.world.clusters
    await connections.close()


def no_space(*_: object) -> str:
    raise OSError(ENOSPC, "No space left on device")


@pytest.mark.parametrize(("endpoint", "home"), [("db.example.com:2379", "uid of shop"), ("etcd.shop.svc:2379", "")])
async def test_where_an_etcd_may_be_anothers_the_namespace_counts_too(setting, endpoint, home):
    """An etcd of the namespace may be restored into another cluster, where names are enough."""
    connections = Connections(setting.world, setting.server, lambda *_: None)
    broker = setting.put(BROKER, etcd={"endpoints": [endpoint]})
    await connections.ensure(broker, broker.spec(BrokerSpec))
    holder = setting.world.clusters[broker.id].possession.holder
    assert holder == ("shop/stomp", broker.uid, home)
    await connections.close()
