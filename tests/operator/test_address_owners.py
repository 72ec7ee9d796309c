"""Whose an address is: spec.addressOwners of a StompBroker, and permissions of single queues."""

from __future__ import annotations

from typing import Any

import pytest
from broker_operator.etcd.address_owners import not_owner, only_a_queue
from broker_operator.spec.model import AddressOwner, AddressSpec
from broker_operator.spec.names import ADDRESS, BROKER, Id

from .bench import Bench
from .builders import raw, resource
from .test_first_permission import KEYS, Store

OWNERS = [
    AddressOwner(prefix="orders", resources=["shop-*"]),
    AddressOwner(prefix="orders.eu", resources=["eu"]),
    AddressOwner(prefix="", resources=["platform"]),
]
OLD, YOUNG = "2020-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
CONSUME = {"consume": ["b"]}


def spec(**fields: Any) -> AddressSpec:
    body = {"name": "", **fields} if "match" in fields else fields
    return resource(ADDRESS, **body).spec(AddressSpec)


def said(resource: str, owners: list[AddressOwner] = OWNERS, /, **fields: Any) -> str:
    return not_owner(resource, spec(**fields), owners)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("shop-1", {"name": "orders"}),
        ("shop-1", {"name": "orders.eu.paris"}),  # who owns a prefix owns all below it
        ("eu", {"match": "orders.eu.#"}),
        ("b", {"name": "bills"}),
        ("b", {"name": "orders2"}),
        ("platform", {"match": "#"}),
        ("platform", {"name": "orders::audit", "permissions": CONSUME}),
        ("shop-1", {"name": "orders::audit", "permissions": CONSUME}),
        ("shop-1", {"name": "orders", "queues": [{"name": "orders"}, {"name": "audit"}]}),
        ("shop-1", {"name": "orders", "diverts": [{"name": "d", "forward": ["bills"]}]}),
    ],
)
def test_an_owner_may_speak_about_what_is_below_its_prefix(name, fields):
    assert said(name, **fields) == ""


@pytest.mark.parametrize(
    ("name", "fields", "whose"),
    [
        ("b", {"name": "orders"}, "shop-*"),
        ("b", {"name": "orders.eu.paris"}, "eu"),
        ("eu", {"name": "orders.us"}, "shop-*"),
        ("b", {"match": "#"}, "eu"),
        ("b", {"match": "*.eu"}, "eu"),
        ("b", {"name": "orders::audit", "permissions": CONSUME}, "orders is a queue"),
        (
            "b",
            {"name": "bills", "diverts": [{"name": "d", "forward": ["orders::audit"]}]},
            "divert d forwards to orders",
        ),
        ("b", {"name": "bills", "queues": [{"name": "bills"}, {"name": "orders"}]}, "queue orders belongs to shop-*"),
        ("b", {"name": "bills", "diverts": [{"name": "orders.x", "forward": ["bills2"]}]}, "divert orders.x belongs"),
        ("b", {"name": "bills", "settings": {"deadLetterAddress": "orders"}}, "settings.deadLetterAddress orders"),
        ("b", {"name": "bills", "settings": {"expiryAddress": "orders.x"}}, "settings.expiryAddress orders.x"),
    ],
)
def test_who_is_no_owner_is_told_whose_it_is(name, fields, whose):
    why = said(name, **fields)
    assert (whose in why) if whose != "orders is a queue" else "orders::audit is a queue" in why
    assert "addressOwners" in why and name in why


def test_permissions_of_a_queue_always_take_an_owner():
    assert "{prefix: orders, resources: [b]}" in said("b", [], name="orders::audit", permissions=CONSUME)
    assert said("b", [AddressOwner("orders", ["b"])], name="orders::audit", permissions=CONSUME) == ""


def test_a_queue_has_permissions_and_nothing_else():
    assert only_a_queue(spec(name="a::b", permissions=CONSUME)) == "" == only_a_queue(spec(name="a"))
    for fields in ({"name": "a::b"}, {"name": "a::b", "permissions": CONSUME, "settings": {"paused": True}}):
        assert "belongs to Address a" in only_a_queue(spec(**fields))
    for name in ("a::", "::b", "a::b::c"):
        assert "ADDRESS::QUEUE" in only_a_queue(spec(name=name, permissions=CONSUME))


async def test_what_was_said_before_stays_and_the_condition_says_so():
    bench = Bench()
    bench.store = Store()
    bench.cache.clusters[Id(BROKER, "shop", "stomp")] = bench.store
    bench.put(BROKER, permissionsRequired=True, addressOwners=[{"prefix": "orders", "resources": ["orders"]}])
    address = bench.put(ADDRESS, name="orders::audit", permissions=CONSUME)
    await bench.etcd_reconciler.address(address)
    assert bench.statuses.condition("Accepted")[0] == "True"
    bench.put(BROKER, permissionsRequired=True)
    bench.store.marks[address.uid] = {KEYS.permission("orders::audit")}
    before = dict(bench.store.config)
    await bench.etcd_reconciler.address(address)
    status, reason, message = bench.statuses.condition("Accepted")
    assert (status, reason) == ("False", "NotOwner") and "delete it to take it back" in message
    assert bench.store.config == before


async def condition_of(bench: Bench, who: str, created: str, **spec: Any) -> tuple[str, ...]:
    """Accepted: status and reason of an Address of this name."""
    one = raw(ADDRESS, **spec)
    one["metadata"] |= {"name": who, "uid": f"uid of {who}", "creationTimestamp": created}
    await bench.etcd_reconciler.address(bench.cache.put(one) or bench.cache.resources[Id(ADDRESS, "shop", who)])
    return bench.statuses.condition("Accepted")[:2]


@pytest.mark.parametrize("fields", [{"name": "orders"}, {"name": "mine", "queues": [{"name": "orders"}]}])
async def test_who_may_not_have_a_key_keeps_nobody_out_unless_it_has_it(fields):
    bench = Bench()
    bench.store = Store()
    bench.cache.clusters[Id(BROKER, "shop", "stomp")] = bench.store
    bench.put(BROKER, addressOwners=[{"prefix": "orders", "resources": ["shop-*"]}])

    old, young = ("evil", OLD), ("shop-1", YOUNG)
    wanted = {"name": "orders", "queues": [{"name": "orders"}]}
    assert await condition_of(bench, *old, **fields) == ("False", "NotOwner")
    assert (await condition_of(bench, *young, **wanted))[0] == "True"
    key = KEYS.queue("orders") if "queues" in fields else KEYS.address("orders")
    bench.store.marks["uid of evil"] = {key}
    assert await condition_of(bench, *young, **wanted) == ("False", "Conflict")
    assert await condition_of(bench, *old, **fields) == ("False", "NotOwner")


async def test_a_divert_that_nobody_may_say_makes_no_circle():
    bench = Bench()
    bench.store = Store()
    bench.cache.clusters[Id(BROKER, "shop", "stomp")] = bench.store
    bench.put(BROKER, addressOwners=[{"prefix": "orders", "resources": ["shop-*"]}])
    back = {"name": "orders.y", "diverts": [{"name": "back", "forward": ["copies"]}]}
    wanted = {"name": "copies", "diverts": [{"name": "there", "forward": ["orders.y"]}]}
    assert await condition_of(bench, "evil", OLD, **back) == ("False", "NotOwner")
    assert (await condition_of(bench, "shop-1", YOUNG, **wanted))[0] == "True"
    bench.store.marks["uid of evil"] = {KEYS.address("orders.y")}
    assert await condition_of(bench, "shop-1", YOUNG, **wanted) == ("False", "DivertCircle")
