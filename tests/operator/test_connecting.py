"""From a StompBroker to a connection to its etcd: made, made anew, and told of when it cannot be made."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from errno import ENOSPC

import pytest
from broker_operator.spec.model import BrokerSpec
from broker_operator.spec.names import BROKER
from broker_operator.world import connecting
from broker_operator.world.cluster import NOT_ASKED, Cluster
from broker_operator.world.connecting import Connections

from broker.config.settings import EtcdSettings
from tests.harness.broker import free_ports

from .bench import Bench


@pytest.fixture
def bench():
    return Bench()


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


async def test_an_etcd_that_cannot_be_asked_says_why(bench):
    connections = Connections(bench.cache, bench.server, lambda *_: None)
    etcd = {"endpoints": ["etcd:2379"], "userSecretName": "nobody"}
    bench.server.secrets["nobody"] = {"data": {}}
    broker = bench.put(BROKER, etcd=etcd)
    for _ in range(2):
        await connections.ensure(broker, broker.spec(BrokerSpec))
        await bench.workloads.broker(broker)
        status, reason, message = bench.statuses.condition("EtcdReachable")
        assert (status, reason) == ("False", "Unreachable") and "etcd.user" in message
    await connections.close()
    assert bench.cache.unusable == {}


async def test_the_token_that_owners_are_shown_is_read_again_without_connecting_anew(bench):
    connections = Connections(bench.cache, bench.server, lambda *_: None)
    scrapers = {"tokenSecretName": "metrics"}
    broker = bench.put(BROKER, etcd={"endpoints": ["127.0.0.1:1"]}, scrapers=scrapers)
    await connections.ensure(broker, broker.spec(BrokerSpec))
    assert bench.cache.metrics_tokens == {}
    cluster = bench.cache.clusters[broker.id]
    for token in ("a token of some length", "another one of that length"):
        bench.server.secrets["metrics"] = {"data": {"password": b64encode(f"{token}\n".encode()).decode()}}
        await connections.ensure(broker, broker.spec(BrokerSpec))
        assert bench.cache.metrics_tokens == {broker.id: token}
    assert bench.cache.clusters[broker.id] is cluster
    await connections.close()
    assert bench.cache.metrics_tokens == {}


async def test_a_connection_that_could_not_be_made_is_tried_again(bench, monkeypatch):
    connections = Connections(bench.cache, bench.server, lambda *_: None)
    etcd = {"endpoints": ["127.0.0.1:1"], "userSecretName": "root"}
    data = {"username": b64encode(b"root").decode(), "password": b64encode(b"secret").decode()}
    bench.server.secrets["root"] = {"data": data}
    broker = bench.put(BROKER, etcd=etcd)
    with monkeypatch.context() as full:
        full.setattr(connecting, "_write", no_space)
        with pytest.raises(OSError):
            await connections.ensure(broker, broker.spec(BrokerSpec))
    assert not bench.cache.clusters
    await connections.ensure(broker, broker.spec(BrokerSpec))
    assert broker.id in bench.cache.clusters
    await connections.close()


def no_space(*_: object) -> str:
    raise OSError(ENOSPC, "No space left on device")


@pytest.mark.parametrize(("endpoint", "home"), [("db.example.com:2379", "uid of shop"), ("etcd.shop.svc:2379", "")])
async def test_where_an_etcd_may_be_anothers_the_namespace_counts_too(bench, endpoint, home):
    """An etcd of the namespace may be restored into another cluster, where names are enough."""
    connections = Connections(bench.cache, bench.server, lambda *_: None)
    broker = bench.put(BROKER, etcd={"endpoints": [endpoint]})
    await connections.ensure(broker, broker.spec(BrokerSpec))
    holder = bench.cache.clusters[broker.id].possession.holder
    assert holder == ("shop/stomp", broker.uid, home)
    await connections.close()
