"""Who gets which message: the cases users know by name (the model of test_choice_model.py has the rest)."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.effects import Deliver
from broker.core.message import DURABLE, GROUPED, NO_IDS, Run
from broker.engine.consumers import match_buckets
from broker.selector.heads import head_of, key, raw

from .world import ANYCAST, MULTICAST, World, browse_ends, got, ids


def batch(*messages: dict, durable=False, body=b"x", priority=4) -> Run:
    records = [
        "".join(f"{name}:{value}\n" for name, value in m.items()).encode() + b"\n" + body + b"\0" for m in messages
    ]
    flags = (DURABLE if durable else 0) | (GROUPED if any("JMSXGroupID" in m for m in messages) else 0)
    return Run(NO_IDS, b"", records, sum(map(len, records)), flags, priority)


def send(world: World, *messages: dict, session=99, address="q", routing=ANYCAST, **more) -> list:
    return world.do(Publish(7, session, 0, address, routing, batch(*messages, **more)))


def groups(*names: str) -> list[dict]:
    return [{"JMSXGroupID": name, "n": n} for n, name in enumerate(names)]


def values(effects: list, name: str, consumer: int | None = None) -> list[str]:
    found = [
        raw(head_of(e.run, at), key(name))
        for e in effects
        if isinstance(e, Deliver) and consumer in (None, e.consumer)
        for at in range(len(e.run))
    ]
    return [value.decode() for value in found if value is not None]


# ── selectors ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["AMQTimestamp", "JMSTimestamp"])
def test_the_time_of_a_message_is_known_to_all_selectors(name):
    """It was 0 where a message is looked at before it is numbered: topics, durable subscriptions, diverts."""
    w = World(diverts={"d": {"address": "q", "forward": "copies", "selector": f"{name} = 1000000"}})
    w.subscribe(1, routing=MULTICAST, selector=f"{name} = 1000000")
    w.subscribe(2, routing=MULTICAST, queue="me.s", durable=True, selector=f"{name} BETWEEN 999999 AND 1000001")
    w.subscribe(3, address="#", routing=MULTICAST, selector=f"{name} > 0")
    w.subscribe(4, address="copies", selector=f"{name} = 1000000")
    w.subscribe(5, routing=MULTICAST, selector=f"{name} = 0")
    send(w, {"a": 1}, routing=MULTICAST)
    assert [len(ids(w.effects, n)) for n in range(1, 6)] == [1, 1, 1, 1, 0]


def test_selectors_come_and_go_and_their_bits_are_used_again():
    w = World()
    w.subscribe(1000, selector="keep = 1")
    send(w, {"keep": 0})
    for n in range(50):
        w.subscribe(n + 1, selector=f"id = 'r{n}'")
        assert ids(send(w, {"id": f"r{n}"}), n + 1)
        w.unsubscribe(n + 1)
    choice = w.engine._slot.queues[1].choice
    assert choice.known < 1 << 12 and len(choice.buckets) < 12
    assert ids(w.subscribe(2000), 2000) == [1]


def test_browsing_with_a_selector_over_memory_and_what_was_put_away():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, selector="color = 'red'")
    for n in range(60):
        send(w, {"color": "blue", "n": n}, {"color": "red"}, durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == 60
    w.effects = []
    w.subscribe(2, browse=True, selector="n BETWEEN 10 AND 50")
    assert values(w.effects, "n", 2) == [str(n) for n in range(10, 51)] and browse_ends(w.effects) == 1
    w.subscribe(3, browse=True)
    assert sorted(int(n) for n in values(w.effects, "n", 3)) == list(range(60))


def test_browsing_by_address():
    w = World()
    w.publish("q", b"m")
    for consumer, wanted in ((1, "q"), (2, "other")):
        w.subscribe(consumer, browse=True, selector=f"AMQAddress = '{wanted}'")
    assert got(w.effects, 1) == [b"m"] and got(w.effects, 2) == []


# ── no-local ───────────────────────────────────────────────────────────────────────────────────────────


# ── groups ─────────────────────────────────────────────────────────────────────────────────────────────


# ── exclusive ──────────────────────────────────────────────────────────────────────────────────────────


# ── buckets ──────────────────────────────────────────────────────────────────────────────────────────────


def test_far_is_sorted_whatever_comes_when():
    far = match_buckets.Far()
    far.add([5, 6, 9], 1)
    far.add([1, 7], 2)
    assert far.pop(3) == [(1, 2), (5, 1), (6, 1)] and far.first() == 7
    assert far.withdraw([(8, 20)]) == [(9, 1)] and list(far.all()) == [(7, 2)] and len(far) == 1
    far.add(range(10_000, 30_000), 3)
    assert len(far.pop(19_000)) == 19_000 and far.first() == 28_999
