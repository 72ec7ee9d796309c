"""Addresses and users as keys: what is wanted, whose it is, what is written."""

from __future__ import annotations

import json

import pytest
from broker_operator.spec.names import ADDRESS
from broker_operator.world import entries
from broker_operator.world.entries import changes, marker_of, of_address, programmed, released

from broker.cluster.keys import Keys
from broker.core.errors import ConfigError
from broker.metadata.port import Delete, KeyValue, Put

from .builders import resource

KEYS = Keys("/test")


def at(revision: int, **items: bytes) -> dict[str, KeyValue]:
    return {key: KeyValue(key, value, revision) for key, value in items.items()}


def placed(resource_, wanted, revision: int = 7):
    config = {key: KeyValue(key, value, revision) for key, value in wanted.items()}
    mark = marker_of(resource_)
    managed = {KEYS.marker(key): KeyValue(KEYS.marker(key), mark, revision) for key in wanted}
    return config, managed


def test_an_address_with_queues_and_diverts():
    one = resource(
        ADDRESS, settings={"maxSizeBytes": "1MiB", "routingTypes": ["ANYCAST"]},
        queues=[{"name": "big", "selector": "a > 1"}], diverts=[{"name": "copy", "forward": ["x", "y"]}],
    )  # fmt: skip
    found = {key: json.loads(value) for key, value in of_address(one, KEYS).items()}
    assert found == {
        KEYS.address("orders"): {"max_size_bytes": 1 << 20, "routing_types": "ANYCAST"},
        KEYS.queue("big"): {"address": "orders", "selector": "a > 1"},
        KEYS.divert("copy"): {"address": "orders", "forward": "x,y"},
    }


def test_a_pattern_is_a_setting_of_many():
    assert list(of_address(resource(ADDRESS, name="", match="orders.#"), KEYS)) == [KEYS.setting("orders.#")]


def test_permissions_are_an_entry_of_their_own_also_when_they_are_for_nobody():
    said = {"send": ["shop", "*"], "createAddress": ["shop"]}
    for given, stored in ((said, {"send": "shop,*", "create_address": "shop"}), ({}, {})):
        keys = of_address(resource(ADDRESS, name="", match="orders.#", permissions=given), KEYS)
        assert list(keys) == [KEYS.setting("orders.#"), KEYS.permission("orders.#")]
        assert json.loads(keys[KEYS.permission("orders.#")]) == stored
    with pytest.raises(ConfigError, match="empty name of a group"):
        of_address(resource(ADDRESS, permissions={"send": ["a", ""]}), KEYS)


def test_what_the_broker_would_refuse_is_refused():
    with pytest.raises(ConfigError, match="max_size_bytes"):
        of_address(resource(ADDRESS, settings={"maxSizeBytes": "0.3B"}), KEYS)


@pytest.mark.parametrize(
    "spec",
    [
        {"queues": [{"name": "big", "selector": "a >"}]},
        {"diverts": [{"name": "copy", "forward": ["x"], "selector": "'a"}]},
        {"diverts": [{"name": "copy", "forward": ["orders"]}]},
    ],
)
def test_queues_and_diverts_that_brokers_would_refuse_are_refused(spec):
    """They had been Programmed: owners took the key, and left it out."""
    with pytest.raises(ConfigError, match="Address orders"):
        of_address(resource(ADDRESS, **spec), KEYS)


def test_nothing_is_written_twice():
    one = resource(ADDRESS)
    wanted = of_address(one, KEYS)
    first = changes(KEYS, one.uid, wanted, marker_of(one), {}, {}, ())
    assert [len(change.then) for change in first] == [2] and all(revision == 0 for _, revision in first[0].compare)
    config, managed = placed(one, wanted)
    assert changes(KEYS, one.uid, wanted, marker_of(one), config, managed, list(wanted)) == []


def test_a_foreign_edit_is_overwritten_only_as_it_was_seen():
    one = resource(ADDRESS)
    wanted = of_address(one, KEYS)
    config, managed = placed(one, wanted)
    (key,) = wanted
    config[key] = KeyValue(key, b'{"partitions":3}', 9)
    (change,) = changes(KEYS, one.uid, wanted, marker_of(one), config, managed, [key])
    assert (key, 9) in change.compare and change.then == [Put(key, wanted[key])]


def test_a_queue_less_touches_the_address_so_that_the_change_has_a_revision():
    one = resource(ADDRESS, queues=[{"name": "a"}])
    config, managed = placed(one, of_address(one, KEYS))
    wanted = {KEYS.address("orders"): config[KEYS.address("orders")].value}
    (change,) = changes(KEYS, one.uid, wanted, marker_of(one), config, managed, list(config))
    assert Delete(KEYS.queue("a")) in change.then and Delete(KEYS.marker(KEYS.queue("a"))) in change.then
    assert Put(KEYS.address("orders"), wanted[KEYS.address("orders")]) in change.then


def test_many_queues_take_several_transactions_that_etcd_takes():
    one = resource(ADDRESS, queues=[{"name": f"q{n}"} for n in range(64)])
    found = changes(KEYS, one.uid, of_address(one, KEYS), marker_of(one), {}, {}, ())
    assert len(found) == 2 and all(len(change.then) <= 128 for change in found)


def test_what_is_given_back_goes_or_stays_as_the_resource_said():
    key = KEYS.address("orders")
    config, managed = placed(resource(ADDRESS), {key: b"{}"})
    change = released(KEYS, key, config, managed)
    assert Delete(key) in change.then and (key, 7) in change.compare
    mark = KEYS.marker(key)
    managed[mark] = KeyValue(mark, marker_of(resource(ADDRESS), retain=True), 8)
    assert released(KEYS, key, config, managed).then == [Delete(mark)]


def test_programmed_waits_for_everybody_once():
    one = resource(ADDRESS)
    assert programmed(one, 5, 0, []).reason == "NoMembers"
    assert programmed(one, 5, 2, ["b"]).reason == "Pending"
    assert programmed(one, 5, 2, []).status is True
    condition = {"type": "Programmed", "status": "True", "observedGeneration": 1}
    one.raw["status"] = {"etcdRevision": 5, "conditions": [condition]}
    assert programmed(one, 5, 3, ["new"]).status is True, "a member that starts later has read everything"
    assert programmed(one, 6, 3, ["new"]).status is False


def test_equal_json_is_equal():
    assert entries.same(KeyValue("k", b'{ "a": 1 }', 1), b'{"a":1}')
    assert not entries.same(KeyValue("k", b"nonsense", 1), b"{}")
    assert entries.read_marker(KeyValue("k", b"[1]", 1)) == {} == entries.read_marker(None)
