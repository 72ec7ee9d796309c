"""The first permission closes a broker: that this is meant, its StompBroker says, and no Address alone."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.spec.conditions import REFUSED_AGAIN_S
from broker_operator.spec.names import ADDRESS, BROKER, Id
from broker_operator.world.entries import of_address, would_close

from broker.cluster.keys import Keys
from broker.metadata.port import KeyValue

from .bench import Bench
from .builders import raw, resource
from .test_workloads import edge_objects, settings_of

KEYS = Keys("/x")
ALLOWED = {"send": ["shop"]}


def there(*keys: str) -> dict[str, KeyValue]:
    return {key: KeyValue(key, b"{}", 1, 0) for key in keys}


def test_only_the_first_one_closes():
    wanted = of_address(resource(ADDRESS, permissions=ALLOWED), KEYS)
    assert would_close(wanted, KEYS, there(KEYS.address("a"))) == KEYS.permission("orders")
    assert would_close(wanted, KEYS, there(KEYS.permission("a"))) == ""
    assert would_close(of_address(resource(ADDRESS), KEYS), KEYS, {}) == ""


class Store:
    """What the reconciler asks a broker's etcd."""

    known, members = True, ("edge-0",)

    def __init__(self) -> None:
        self.keys = KEYS
        self.config: dict[str, KeyValue] = {}
        self.managed: dict[str, KeyValue] = {}
        self.marks: dict[str, set[str]] = {}

    def behind(self, revision: int) -> list[str]:
        return []

    async def commit(self, compare: Any, then: Any, who: str = "") -> bool:
        for action in then:
            if action.key.startswith(self.keys.config):
                self.config[action.key] = KeyValue(action.key, action.value, 7, 0)
        return True


@pytest.fixture
def bench():
    found = Bench()
    found.store = Store()
    found.cache.clusters[Id(BROKER, "shop", "stomp")] = found.store
    return found


async def test_an_address_alone_closes_no_broker(bench):
    bench.put(BROKER)
    address = bench.put(ADDRESS, permissions=ALLOWED)
    assert await bench.etcd_reconciler.address(address) == REFUSED_AGAIN_S
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "PermissionsNotRequired")
    assert "spec.permissionsRequired of StompBroker stomp" in message and bench.store.config == {}
    bench.put(BROKER, permissionsRequired=True)
    await bench.etcd_reconciler.address(address)
    assert bench.statuses.condition("Accepted")[0] == "True"
    assert KEYS.permission("orders") in bench.store.config


async def test_where_it_is_closed_already_more_is_taken(bench):
    bench.put(BROKER)
    bench.store.config = there(KEYS.permission("#"))
    await bench.etcd_reconciler.address(bench.put(ADDRESS, permissions=ALLOWED))
    assert bench.statuses.condition("Accepted")[0] == "True"


async def test_what_was_taken_comes_back_when_etcd_has_lost_it(bench):
    """Else an edge that starts then would be open to everybody."""
    bench.put(BROKER)
    body = raw(ADDRESS, permissions=ALLOWED)
    taken = {
        "type": "Accepted",
        "status": "True",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body["status"] = {"conditions": [taken]}
    await bench.etcd_reconciler.address(bench.cache.put(body))
    assert KEYS.permission("orders") in bench.store.config


def test_edges_of_such_a_broker_start_closed(tmp_path):
    assert settings_of(edge_objects({"permissionsRequired": True}), tmp_path).edge.permissions_required
    assert not settings_of(edge_objects(), tmp_path).edge.permissions_required


def test_what_the_audit_log_of_clients_has_the_broker_says_to_all_of_its_edges(tmp_path):
    assert settings_of(edge_objects({"audit": "all"}), tmp_path).edge.audit == "all"
    assert settings_of(edge_objects(), tmp_path).edge.audit == "failures"


def test_whose_a_client_id_is_the_broker_says_to_all_of_its_edges(tmp_path):
    """A StompAcceptor that says `*` would hand out the durable subscriptions of all users."""
    said = settings_of(edge_objects({"clientIds": ["app-%u", "app-%u-*"]}), tmp_path)
    assert said.edge.client_ids == "app-%u,app-%u-*"
    assert "%u" in settings_of(edge_objects(), tmp_path).edge.client_ids


def test_virtual_hosts_and_exchanges_are_those_of_the_broker_on_all_of_its_edges(tmp_path):
    hosts = [{"name": "shop", "names": ["shop.example.com", "/shop"], "maxConnections": 5}, {"name": "bank"}]
    said = settings_of(
        edge_objects({"virtualHosts": hosts, "exchanges": [{"name": "logs", "type": "topic"}]}), tmp_path
    )
    assert said.edge.virtual_hosts == {"shop": {"names": "shop.example.com,/shop", "max_connections": 5}, "bank": {}}
    assert said.edge.exchanges == {"logs": {"type": "topic"}}
    assert settings_of(edge_objects(), tmp_path).edge.virtual_hosts == {}
