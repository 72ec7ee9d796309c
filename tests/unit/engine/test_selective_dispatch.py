"""Queues whose consumers are choosy: each gets what it asked for, in order, and nobody waits for others."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Publish

from .test_eligibility import batch, send, values
from .world import ANYCAST, CLIENT, INDIVIDUAL, World, ids


def test_each_gets_what_it_asked_for_and_the_rest_waits_for_others():
    w = World()
    w.subscribe(1, selector="a = 'x'")
    effects = send(w, {"a": "x"}, {"a": "y"}, {"a": "x"}, {}, durable=True)
    assert values(w.effects, "a") == ["x", "x"] and w.queue()["ready"] == 2
    effects = w.subscribe(2)
    assert ids(effects, 2) == [2, 4]


def test_a_hundred_selectors_take_turns_with_one_who_takes_all():
    w = World()
    for n in range(100):
        w.subscribe(n + 1, selector=f"type = 't{n}'")
    effects = send(w, *[{"type": f"t{n % 100}"} for n in range(300)])
    for n in range(100):
        assert ids(effects, n + 1) == [n + 1, n + 101, n + 201]
    w.subscribe(500, priority=1)
    assert len(ids(send(w, *[{"type": f"t{n}"} for n in range(100)]), 500)) == 100


@pytest.mark.parametrize("durable", [True, False])
def test_the_red_one_behind_thousands_of_blue_ones(durable):
    """Nobody takes the blue ones: they are paged past, kept as numbers, and still there for who comes later."""
    w = World(queue_memory_bytes=4000, page_bytes=1000, mark_messages=64)
    w.subscribe(1, selector="color = 'red'")
    for _ in range(100):
        send(w, *[{"color": "blue"}] * 10, durable=durable)
    send(w, {"color": "red"}, durable=durable)
    assert ids(w.effects) == [1001]
    q = next(iter(w.engine._slot.queues.values()))
    assert q.nbytes <= 4000 + 1000 and q.far > 500
    fetches = len(w.fetches)
    send(w, {"color": "red"}, durable=durable)
    w.subscribe(2, selector="color = 'red'")  # the same question: nothing is looked at again
    assert len(w.fetches) == fetches and ids(w.effects)[1:] == [1002]
    w.subscribe(3, ack=INDIVIDUAL, credit_messages=10)
    for _ in range(100):
        w.settle(3, *ids(w.effects, 3)[-10:])
    assert ids(w.effects, 3) == list(range(1, 1001))
    assert w.queue() is None or w.queue()["ready"] + w.queue()["paged"] + w.queue()["delivering"] == 0


def test_a_new_selector_looks_at_what_was_put_away_once():
    w = World(queue_memory_bytes=2000, page_bytes=500, mark_messages=1000)
    w.subscribe(1, selector="color = 'red'")
    for n in range(200):
        send(w, {"color": "blue", "n": n}, durable=True)
    w.subscribe(2, selector="n = 7 OR n = 150")
    assert values(w.effects, "n", 2) == ["7", "150"]
    assert w.queue()["ready"] + w.queue()["paged"] == 198


def test_a_client_that_comes_back_with_its_selector_gets_what_waited_and_in_order():
    w = World()
    w.subscribe(1, ack=CLIENT, selector="a = 'x'")
    effects = send(w, {"a": "x"}, {"a": "y"}, {"a": "x"}, {"a": "x"})
    assert ids(effects) == [1, 3, 4]
    w.settle(1, 1)
    w.disconnect(1)
    send(w, {"a": "x"}, {"a": "y"})
    assert ids(w.subscribe(2, ack=CLIENT, selector="a = 'x'"), 2) == [3, 4, 5]


def test_what_is_new_and_of_higher_priority_comes_before_what_waits():
    w = World()
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1, selector="a IS NOT NULL")
    send(w, {"a": 1}, {"a": 2}, {"a": 3})
    send(w, {"a": "high"}, priority=9)
    send(w, {"b": 0}, priority=8)
    for _ in range(3):
        w.settle(1, ids(w.effects, 1)[-1])
    assert values(w.effects, "a") == ["1", "high", "2", "3"]


def test_what_waits_in_buckets_expires():
    w = World()
    w.subscribe(1, selector="a = 'x'")
    run = batch({"a": "y"}, {"a": "y"})
    run.expires = w.now + 500
    w.do(Publish(7, 9, 0, "q", ANYCAST, run))
    assert w.queue()["ready"] == 2
    w.tick(3000)
    assert w.queue()["ready"] == 0 and w.engine.counters()["expired"] == 2


def test_after_a_restart_selectors_find_their_messages():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, ack=INDIVIDUAL, selector="color = 'red'")
    for n in range(40):
        send(w, {"color": "blue", "n": n}, {"color": "red", "n": n}, durable=True)
    held = ids(w.effects, 1)
    w.settle(1, *held[:10], seq=1)
    w.restart()
    w.settle_down()
    w.effects = []
    w.attach(1, held=[(i, i) for i in held[10:]], ack=INDIVIDUAL, selector="color = 'red'")
    w.settle_down()
    assert ids(w.effects) == []
    w.settle(1, *held[10:])
    w.subscribe(2, selector="color = 'blue'")
    w.settle_down()
    assert values(w.effects, "n", 2) == [str(n) for n in range(40)]
    assert w.queue()["ready"] + w.queue()["paged"] + w.queue()["delivering"] == 0


def test_an_edge_that_comes_back_claims_messages_from_buckets_wherever_they_wait():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, selector="color = 'red'")
    for n in range(60):
        send(w, {"color": "blue", "n": n}, durable=True)
    assert next(iter(w.engine._slot.queues.values())).far
    w.attach(5, held=[(3, 5), (58, 58)], ack=INDIVIDUAL, selector="color = 'green'")
    assert w.queue()["delivering"] == 4 and w.queue()["ready"] + w.queue()["paged"] == 56
    w.settle(5, 4)
    w.settle(5, 3, outcome=Outcome.NACK)
    w.settle_down()
    w.disconnect(5)
    w.settle_down()
    w.effects = []
    w.subscribe(6)
    w.settle_down()
    assert ids(w.effects, 6) == [i for i in range(1, 61) if i != 4]


def test_an_exclusive_queue_has_one_consumer_at_a_time():
    w = World(exclusive=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    w.subscribe(2, ack=INDIVIDUAL, priority=9)
    effects = send(w, {}, {}, {}, {})
    assert ids(effects, 1) == [1, 2] and not ids(effects, 2)
    effects = w.disconnect(1)
    assert ids(effects, 2) == [1, 2, 3, 4]
    w.subscribe(3)
    assert ids(send(w, {}), 2) == [5]


def test_settings_make_a_queue_exclusive_and_end_it():
    w = World()
    w.subscribe(1)
    w.subscribe(2)
    for exclusive in (True, False):
        settings = World(exclusive=exclusive).settings
        w.engine.configure(settings)
        effects = send(w, {}, {}, {}, {})
        assert (sorted([len(ids(effects, 1)), len(ids(effects, 2))]) == [0, 4]) is exclusive
