"""What an owner tells operators: lists a page at a time, filtered by what may be seen, and numbers that add up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.address import Routing
from broker.core.commands import Decide, Prepare, Publish, Settle
from broker.core.message import DURABLE, NO_IDS, Run
from broker.owner.shard.views import SORTS, Views
from tests.unit.engine.world import INDIVIDUAL, MULTICAST, World, bodies


@pytest.fixture(scope="module")
def views() -> Views:
    """Queues orders.a (5 messages, a consumer holds 2), orders.b (paused), bills; topic news with a subscription."""
    world = World()
    world.attach(1, ack=INDIVIDUAL, address="orders.a", credit_messages=2)
    world.publish("orders.a", *bodies(5), durable=True)
    world.publish("orders.b", *bodies(3))
    world.publish("bills", b"1")
    world.subscribe(2, "news", routing=MULTICAST, queue="c.news", durable=True)
    world.settle_down()
    slot = world.engine._slot
    slot.addresses["orders.b"].queues["orders.b"].paused = True
    journal = SimpleNamespace(disk_bytes=lambda: 77, free_bytes=99, space=SimpleNamespace(name="ENOUGH"))
    shard = SimpleNamespace(engines={7: world.engine}, journal=journal, latencies=None)
    return Views(shard, SimpleNamespace(wall_ms=lambda: 1_000_000))


def asked(views: Views, kind: str, **question: object) -> dict:
    base = {"kind": kind, "limit": 10, "sort": SORTS.get(kind, ("name",))[0], "descending": False}
    work = views.answer({**base, **question})
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def names(answer: dict) -> list[str]:
    return [row["name"] for row in answer["rows"]]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["bills", "c.news", "orders.a", "orders.b"]),
        ({"q": "orders"}, ["orders.a", "orders.b"]),
        ({"patterns": ["orders.#"], "delimiter": "."}, ["orders.a", "orders.b"]),
        ({"patterns": ["*", "orders.b"]}, ["bills", "orders.b"]),
        ({"patterns": ["news", "*.news", "$host/shop.#"]}, []),
        ({"address": "news"}, ["c.news"]),
        ({"addresses": ["bills", "news"]}, ["bills", "c.news"]),
        ({"addresses": []}, []),
        ({"routing": "MULTICAST"}, ["c.news"]),
        ({"type": "subscription"}, ["c.news"]),
        ({"consumed": True}, ["c.news", "orders.a"]),
        ({"consumed": False}, ["bills", "orders.b"]),
        ({"filled": False}, ["c.news"]),
        ({"paused": True}, ["orders.b"]),
        ({"paused": False, "filled": True}, ["bills", "orders.a"]),
        ({"may": [["orders.b", False], ["orders.#", True]]}, ["orders.a"]),
        ({"may": [["#", True]], "q": "bill"}, ["bills"]),
        ({"may": []}, []),
    ],
)
def test_queues_by_what_is_asked_for_and_what_may_be_seen(views, filters, found):
    answer = asked(views, "queues", **filters)
    assert (names(answer), answer["total"], answer["more"]) == (found, len(found), False)


def test_a_page_goes_on_where_the_last_one_ended(views):
    first = asked(views, "queues", limit=2, sort="messages", descending=True)
    assert (names(first), first["more"], first["total"]) == (["orders.a", "orders.b"], True, 4)
    rest = asked(views, "queues", limit=2, sort="messages", descending=True, after=first["rows"][-1]["at"])
    assert (names(rest), rest["more"]) == (["bills", "c.news"], False)


def test_addresses_sum_up_their_queues(views):
    rows = {row["name"]: (row["messages"], row["consumers"]) for row in asked(views, "addresses")["rows"]}
    assert rows == {"orders.a": (5, 1), "orders.b": (3, 0), "bills": (1, 0), "news": (0, 1)}
    assert names(asked(views, "addresses", q="bil")) == ["bills"]
    assert names(asked(views, "addresses", may=[["bills", True]])) == ["bills"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [1, 2]),
        ({"session": 2}, [2]),
        ({"queue": "orders.a"}, [1]),
        ({"queue": "c.news"}, [2]),
        ({"queue": "c.news", "address": "news"}, [2]),
        ({"queue": "c.news", "address": "orders.a"}, []),
        ({"queue": "nothing"}, []),
        ({"may": [["news", True]]}, [2]),
        ({"may": [["news", True]], "session": 1}, []),
    ],
)
def test_consumers_of_all_of_one_queue_or_of_one_session(views, filters, found):
    assert [row["consumer"] for row in asked(views, "consumers", **filters)["rows"]] == found


def test_one_queue_says_why_nothing_is_delivered_and_is_found_by_the_name_of_its_subscription(views):
    [row] = asked(views, "queue", name="orders.b")["rows"]
    assert row["messages"] == 3 and row["why"][0].startswith("It was paused")
    assert [row["address"] for row in asked(views, "queue", name="c.news")["rows"]] == ["news"]
    assert asked(views, "queue", name="nothing")["rows"] == []


def test_totals_add_up(views):
    totals = asked(views, "totals")
    assert (totals["addresses"], totals["queues"], totals["consumers"], totals["paused"]) == (4, 4, 2, 1)
    assert (totals["messages"], totals["waiting"], totals["delivering"], totals["scheduled"]) == (9, 7, 2, 0)
    assert totals["disk"] == {"bytes": 77, "free": 99, "space": "enough"} and totals["slots"] == 1


def test_a_commit_that_is_not_carried_out_yet():
    world = World()
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"x", durable=True)
    world.settle_down()
    run = Run(NO_IDS, b"", [b"\na\0", b"\nb\0"], 6, DURABLE)
    parts = [
        Publish(7, 50, 0, "z", Routing.ANYCAST, run),
        Settle(7, 1, 0, 1, [*world.engine._slot.consumers[1].ledger]),
    ]
    world.do(Prepare(7, 50, 1, "t1", 3, parts))
    shard = SimpleNamespace(engines={7: world.engine})
    views = Views(shard, SimpleNamespace(wall_ms=lambda: 1_000_000))
    (row,) = asked(views, "transactions")["rows"]
    assert (row["tx"], row["slot"], row["coordinator"], row["addresses"]) == ("t1", 7, 3, ["z"])
    assert (row["sends"], row["settles"]) == (2, 1) and "decision" in row["state"] and row["since"] > 0
    world.do(Decide(7, 50, 2, "t1", True))
    world.settle_down()
    assert asked(views, "transactions")["rows"] == []


def test_consumers_of_one_edge_of_several(views):
    several = Views(views._shard, views._clock, lambda number: number % 2, lambda number: f"e{number // 2}")
    rows = asked(several, "consumers")["rows"]
    assert [(row["session"], row["edge"]) for row in rows] == [(1, "e0"), (0, "e1")]
    assert [row["consumer"] for row in asked(several, "consumers", session=1, edge="e1")["rows"]] == []
    assert [row["consumer"] for row in asked(several, "consumers", session=0, edge="e1")["rows"]] == [2]


@pytest.mark.parametrize("question", [{"kind": "secrets"}, {"kind": "queues", "sort": "secrets"}])
def test_what_it_does_not_know_is_a_key_error(views, question):
    with pytest.raises(KeyError):
        asked(views, **question)
