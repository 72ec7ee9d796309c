"""Declared queues: made before anybody asks, changed with the settings, given up when they are empty."""

from __future__ import annotations

from .test_declarations import A, B, configure, world
from .world import CLIENT, MULTICAST, got, refused


def test_a_declared_queue_exists_from_the_start_and_outlives_its_consumers():
    w = world({A: {}})
    assert w.queue(A) is not None
    w.subscribe(1, A)
    w.publish(A, b"x")
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is not None


def test_a_new_declaration_takes_effect_at_once_and_a_removed_one_waits_for_the_messages():
    w = world()
    assert w.queue(A) is None
    configure(w, queues={A: {}})
    w.publish(A, b"x", durable=True)
    configure(w, queues={})
    assert w.queue(A)["ready"] == 1
    w.restart()
    assert got(w.subscribe(1, A)) == [b"x"] or got(w.effects) == [b"x"]
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is None


def test_a_queue_made_on_demand_is_protected_by_a_later_declaration():
    w = world()
    w.publish(A, b"x", durable=True)
    configure(w, queues={A: {}})
    w.subscribe(1, A)
    w.unsubscribe(1, address=A)
    w.tick(60_000)
    assert w.queue(A) is not None
    configure(w, queues={})
    w.tick(60_000)
    assert w.queue(A) is None


def test_it_survives_a_crash_and_a_new_leader():
    w = world({A: {}}, {B: {"declared": True}})
    w.publish(A, b"x", durable=True)
    w.restart(first_id=1 << 40)
    assert w.queue(A)["paged"] + w.queue(A)["ready"] == 1
    assert refused(w.publish(B, b"y", routing=MULTICAST, create=False)) == []


def test_a_declared_subscription_is_a_durable_one_and_comes_back_empty_when_it_is_given_up():
    w = world({"me.news": {"address": A, "routing": "MULTICAST"}})
    w.publish(A, b"x", routing=MULTICAST, durable=True)
    effects = w.subscribe(1, A, routing=MULTICAST, queue="me.news", durable=True, ack=CLIENT)
    assert got(effects) == [b"x"]
    w.unsubscribe(1, address=A, delete="me.news")
    assert w.queue("me.news")["ready"] == 0
    w.publish(A, b"y", routing=MULTICAST)
    assert w.queue("me.news")["ready"] == 1
