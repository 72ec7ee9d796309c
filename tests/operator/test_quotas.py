"""Quotas of a StompBroker: keys in etcd as its spec says, repaired, taken back, and refused where owners would."""

from __future__ import annotations

import json
from typing import Any

import pytest
from broker_operator.spec.model import Resource
from broker_operator.spec.names import BROKER
from broker_operator.workloads.workloads import _keep_entries
from broker_operator.world.cluster import Cluster
from broker_operator.world.resource_cache import ResourceCache

from broker.core.errors import ConfigError
from tests.harness.waiting import eventually

from .builders import raw

ADA = {"who": "user:ada", "maxConnections": 3, "maxProducerByteRate": 1000}


def quotas(cluster: Cluster) -> dict[str, Any]:
    front = cluster.keys.config_quotas
    found = {key: item for key, item in cluster.config.items() if key.startswith(front)}
    return {key.removeprefix(front): json.loads(item.value) for key, item in found.items()}


def broker(*of: dict[str, Any], uid: str = "one") -> Resource:
    found = raw(BROKER, quotas=list(of))
    found["metadata"]["uid"] = uid
    return Resource(found)


async def test_they_stand_in_etcd_as_the_spec_says_and_go_with_it(cluster):
    await _keep_entries(broker(ADA, {"who": "ip:10.0.0.0/8", "maxLogins": 5}), cluster)
    assert quotas(cluster) == {
        "user:ada": {"max_connections": 3, "max_producer_byte_rate": 1000}, "ip:10.0.0.0%2F8": {"max_logins": 5},
    }  # fmt: skip
    await cluster.metadata.put(cluster.keys.quota("user:ada"), b"{}")
    await cluster.metadata.put(cluster.keys.quota("user:other"), b"{}")
    await eventually(lambda: quotas(cluster)["user:ada"] == {} and "user:other" in quotas(cluster))
    await _keep_entries(broker(ADA), cluster)
    assert quotas(cluster) == {"user:ada": {"max_connections": 3, "max_producer_byte_rate": 1000}, "user:other": {}}
    await _keep_entries(broker(), cluster)
    assert quotas(cluster) == {"user:other": {}}, "what somebody else has set is his"


async def test_what_owners_and_edges_would_not_take_is_refused(cluster):
    with pytest.raises(ConfigError, match="max_logins: who logs in has not proven"):
        await _keep_entries(broker({"who": "user:ada", "maxLogins": 5}), cluster)
    with pytest.raises(ConfigError, match="StompBroker stomp"):
        await _keep_entries(broker({"who": "ip:ten", "maxLogins": 5}), cluster)
    assert quotas(cluster) == {}


def test_they_are_not_swept_while_their_broker_is_there():
    world = ResourceCache(lambda id: None)
    own = world.put(raw(BROKER))
    assert own is not None and own.uid in world.living(own.id)
