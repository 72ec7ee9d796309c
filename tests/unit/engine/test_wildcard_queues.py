"""Wildcard queues of one slot: made with the first message that matches, and gone with their consumer."""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .world import ANYCAST, CLIENT, MULTICAST, UNSET, World, done, got, refused


@pytest.fixture
def world() -> World:
    return World()


def topic(world: World, address: str, *bodies: bytes, **more) -> list:
    return world.publish(address, *bodies, routing=MULTICAST, **more)


def test_each_queue_gets_one_copy_however_many_patterns_match(world):
    world.subscribe(1, "a.*", routing=MULTICAST)
    world.subscribe(2, "a.#", routing=MULTICAST)
    world.subscribe(3, "a.x", routing=MULTICAST)
    effects = topic(world, "a.x", b"m", durable=True)
    assert [got(effects, consumer) for consumer in (1, 2, 3)] == [[b"m"]] * 3
    assert [got(topic(world, "a", b"n"), consumer) for consumer in (1, 2, 3)] == [[], [b"n"], []]


def test_a_later_pattern_counts_for_addresses_seen_before(world):
    world.subscribe(1, "a.*", routing=MULTICAST)
    topic(world, "a.x", b"m")
    world.subscribe(2, "a.#", routing=MULTICAST)
    assert got(topic(world, "a.x", b"n"), 2) == [b"n"]
    world.unsubscribe(1, address="a.*")
    assert got(topic(world, "a.x", b"o")) == [b"o"]


@pytest.mark.parametrize("awake", [True, False])
@pytest.mark.parametrize("how", ["unsubscribe", "disconnect"])
def test_nothing_is_left_of_a_consumer_that_ended(world, awake, how):
    world.subscribe(1, "a.*", routing=MULTICAST, ack=CLIENT)
    if awake:
        topic(world, "a.x", b"m")
    effects = world.unsubscribe(1, seq=9, address="a.*") if how == "unsubscribe" else world.disconnect(1)
    assert not refused(effects) and done(effects) == ([9] if how == "unsubscribe" else [])
    assert got(topic(world, "a.x", b"n")) == [] and world.stats() == []
    assert refused(world.unsubscribe(1, seq=10, address="a.*")) == [Code.NO_SUCH_SUBSCRIPTION]


def test_a_sleeper_of_another_session_is_not_ended(world):
    world.subscribe(1, "a.*", routing=MULTICAST, session=1)
    assert refused(world.unsubscribe(1, session=2, seq=3, address="a.*")) == [Code.NO_SUCH_SUBSCRIPTION]
    world.disconnect(2)
    assert got(topic(world, "a.x", b"m")) == [b"m"]


def test_what_is_for_queues_is_not_for_patterns(world):
    world.subscribe(1, "#", routing=MULTICAST)
    assert got(world.publish("a.x", b"anycast", routing=ANYCAST)) == []
    assert got(world.publish("a.y", b"plain", routing=UNSET)) == []
    assert got(world.publish("$tx", b"internal", routing=MULTICAST)) == []
    assert len(world.stats()) == 2
    world.subscribe(2, "a.z", routing=MULTICAST)
    assert got(world.publish("a.z", b"plain to a topic", routing=UNSET), 1) == [b"plain to a topic"]


def test_a_durable_pattern_survives_and_keeps_what_matched(world):
    world.subscribe(1, "a.#", routing=MULTICAST, queue="me.d", durable=True)
    world.disconnect(1)
    topic(world, "a.x", b"kept", durable=True)
    world.restart()
    topic(world, "a.y", b"later", durable=True)
    assert got(world.subscribe(2, "a.#", routing=MULTICAST, queue="me.d", durable=True)) == [b"kept", b"later"]
    world.unsubscribe(2, address="a.#", delete="me.d")
    topic(world, "a.x", b"gone", durable=True)
    assert world.stats() == []


def test_a_consumer_that_attaches_again_is_not_there_twice(world):
    world.subscribe(1, "a.*", routing=MULTICAST)
    world.attach(1, address="a.*", routing=MULTICAST)
    assert got(topic(world, "a.x", b"m")) == [b"m"]
    assert got(world.attach(1, address="a.*", routing=MULTICAST)) == [b"m"]  # never confirmed, so it comes again
    assert got(topic(world, "a.x", b"n")) == [b"n"]
