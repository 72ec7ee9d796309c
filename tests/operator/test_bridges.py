"""Bridges of a StompBroker: keys in etcd as its spec says, passcodes in their Secret and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_operator.spec import bridges
from broker_operator.spec.model import BrokerSpec, Resource
from broker_operator.spec.names import BROKER, Id
from broker_operator.workloads.workloads import _keep_entries
from broker_operator.world.cluster import Cluster

from broker.core.errors import ConfigError
from tests.harness.waiting import eventually

from .bench import Bench
from .builders import raw
from .test_pods import edge_objects, made
from .test_process import STOMP, Server, operating

ORDERS = {
    "name": "orders", "url": "stomp+ssl://west:61612", "source": "/queue/orders", "user": "bridge",
    "login": "from-east", "passcodeKey": "west.passcode", "caKey": "ca.crt", "maxHops": 2,
}  # fmt: skip
NEWS = {"name": "news", "url": "stomp://west:61613", "source": "/topic/news.#", "user": "bridge", "direction": "in"}


def kept(cluster: Cluster) -> dict[str, Any]:
    front = cluster.keys.config_bridges
    found = {key: item for key, item in cluster.config.items() if key.startswith(front)}
    return {key.removeprefix(front): json.loads(item.value) for key, item in found.items()}


def broker(*of: dict[str, Any]) -> Resource:
    found = raw(BROKER, bridges=list(of), bridgesSecretName="stomp-bridges")
    found["metadata"]["uid"] = "one"
    return Resource(found)


async def test_they_stand_in_etcd_as_the_spec_says_and_go_with_it(cluster):
    """Files of the Secret by their names, so that edges find them; the bridge itself as any other one."""
    await _keep_entries(broker(ORDERS, NEWS), cluster)
    orders = {
        "url": "stomp+ssl://west:61612", "source": "/queue/orders", "user": "bridge", "login": "from-east",
        "passcode_file": "/etc/stampede-bridges/west.passcode", "ca_file": "/etc/stampede-bridges/ca.crt",
        "max_hops": 2,
    }  # fmt: skip
    news = {"url": "stomp://west:61613", "source": "/topic/news.#", "user": "bridge", "direction": "in"}
    assert kept(cluster) == {"orders": orders, "news": news}
    await cluster.metadata.put(cluster.keys.bridge("news"), b'{"url": "stomp://mallory:1", "source": "/queue/a"}')
    await cluster.metadata.put(cluster.keys.bridge("by-hand"), b'{"url": "stomp://b:1", "source": "/queue/a"}')
    await eventually(lambda: "mallory" in kept(cluster)["news"]["url"] and "by-hand" in kept(cluster))
    await _keep_entries(broker(NEWS), cluster)
    assert kept(cluster).keys() == {"news", "by-hand"} and kept(cluster)["news"] == news
    await _keep_entries(broker(), cluster)
    assert kept(cluster).keys() == {"by-hand"}, "what somebody else has set is his"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"url": "stomp://ada:secret@west:61613"}, "holds a login"), ({"source": "/queue/*"}, "wildcard"),
        ({"login": None}, "belong together"), ({"retryMaxS": 0.5}, "retry_max_s"),
        ({"url": "stomp://west:61613"}, "no TLS"), ({"source": "$host/shop.orders"}, "virtual_host"),
    ],
)  # fmt: skip
async def test_what_edges_would_not_take_is_refused(cluster, said, told):
    """Where the API server knows no rules, or lets something through."""
    spec = {name: value for name, value in {**ORDERS, **said}.items() if value is not None}
    with pytest.raises(ConfigError, match=told):
        await _keep_entries(broker(spec), cluster)
    assert kept(cluster) == {}


def test_edges_have_the_secret_and_start_without_it():
    def pod(shared: dict[str, Any] | None) -> dict[str, Any]:
        found: dict[str, Any] = made("Deployment", edge_objects(shared))["spec"]["template"]["spec"]
        return found

    found = pod({"bridges": [ORDERS], "bridgesSecretName": "stomp-bridges"})
    (volume,) = [one for one in found["volumes"] if one["name"] == "bridges"]
    (mount,) = [one for one in found["containers"][0]["volumeMounts"] if one["name"] == "bridges"]
    assert volume["secret"]["secretName"] == "stomp-bridges" and volume["secret"]["optional"]
    assert mount["readOnly"] and bridges.settings(ORDERS)["passcode_file"].startswith(mount["mountPath"] + "/")
    # A bridge more replaces no pod, so it counts at once.
    assert pod({"bridges": [ORDERS, NEWS], "bridgesSecretName": "stomp-bridges"}) == found
    assert "bridges" not in [one["name"] for one in pod({"bridges": [NEWS]})["volumes"]]


async def test_what_the_secret_lacks_is_said_and_keeps_nobody_from_being_ready(cluster):
    bench = Bench()
    spec = {"bridges": [NEWS, ORDERS], "bridgesSecretName": "stomp-bridges"}
    bench.cache.clusters[STOMP] = cluster

    async def told() -> tuple[str, str, str]:
        await bench.workloads.broker(bench.put(BROKER, **spec))
        found: tuple[str, str, str] = bench.statuses.condition("BridgesConfigured")
        return found

    status, reason, why = await told()
    assert (status, reason) == ("False", "SecretMissing") and "stomp-bridges" in why and "west.passcode" in why
    ready = bench.statuses.condition("Ready")
    bench.server.secrets["stomp-bridges"] = {"data": {"west.passcode": "c2VjcmV0"}}
    assert (await told())[1] == "KeyMissing" and "ca.crt" in (await told())[2]
    bench.server.secrets["stomp-bridges"]["data"]["ca.crt"] = "eA=="
    assert await told() == ("True", "Configured", "2 in etcd, where edges follow them")
    assert bench.statuses.condition("Ready") == ready
    spec.clear()
    await bench.workloads.broker(bench.put(BROKER))
    assert "BridgesConfigured" not in [one["type"] for one in bench.statuses.said["conditions"]]


async def test_what_is_not_in_etcd_is_not_said_to_be_there(cluster):
    """It said True while etcd was away, and where the bridges were refused."""
    bench = Bench()

    async def told(*of: dict[str, Any]) -> tuple[str, str, str]:
        await bench.workloads.broker(bench.put(BROKER, bridges=list(of)))
        found: tuple[str, str, str] = bench.statuses.condition("BridgesConfigured")
        return found

    assert (await told(NEWS))[:2] == ("Unknown", "EtcdUnreachable")  # no cluster yet
    bench.cache.clusters[STOMP] = cluster
    assert (await told(NEWS))[:2] == ("True", "Configured")
    status, reason, why = await told(NEWS, {**NEWS, "name": "more", "source": "/queue/*"})
    assert (status, reason) == ("False", "NotWritten") and "more" in why
    assert bench.statuses.condition("Accepted")[:2] == ("False", "Invalid")
    cluster.why = "connection refused"
    status, reason, why = await told({**NEWS, "maxHops": 3})
    assert (status, reason) == ("Unknown", "EtcdUnreachable") and "EtcdReachable" in why


async def test_a_broker_is_looked_at_when_its_bridges_or_their_secret_change():
    server = Server(raw(BROKER, "stomp", bridges=[ORDERS], bridgesSecretName="stomp-bridges"))
    async with operating(server) as (operator, looked):
        await eventually(lambda: STOMP in looked)
        looked.clear()
        for name in ("another", "stomp-bridges"):
            meta = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "2"}
            server.tell("MODIFIED", {"kind": "Secret", "metadata": meta})
        await eventually(lambda: looked == [STOMP])
        looked.clear()
        operator._on_cluster(Id(BROKER, "shop", "stomp"), "config", ["addresses/a"])
        operator._on_cluster(Id(BROKER, "shop", "stomp"), "config", ["bridges/orders"])
        await eventually(lambda: STOMP in looked)


def test_the_spec_is_as_the_schema_has_it():
    spec = broker(ORDERS).spec(BrokerSpec)
    assert spec.bridges == [ORDERS] and spec.bridges_secret_name == "stomp-bridges"
