"""Wildcard queues of one slot: made with the first message that matches, and gone with their consumer."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.errors import Code
from broker.engine.dispatch.attach import WOKEN

from .world import ANYCAST, CLIENT, MULTICAST, UNSET, World, done, got, refused, run_of


@pytest.fixture
def world() -> World:
    return World()


def topic(world: World, address: str, *bodies: bytes, **more) -> list:
    return world.publish(address, *bodies, routing=MULTICAST, **more)


def test_a_consumer_that_sees_nothing_has_no_queue(world):
    assert done(world.subscribe(1, "a.*", routing=MULTICAST, seq=5)) == [5]
    topic(world, "b.x", b"other")
    assert world.stats() == []
    assert got(topic(world, "a.x", b"1")) == [b"1"]
    assert [queue["address"] for queue in world.stats()] == ["a.*"]
    assert got(topic(world, "a.y", b"2", b"3")) == [b"2", b"3"]


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


def test_what_the_client_of_a_sleeper_holds_from_an_earlier_leader_can_be_settled(world):
    world.attach(1, held=[(3, 4)], ack=CLIENT, address="a.*", routing=MULTICAST)
    assert done(world.settle(1, 4, seq=8)) == [8]


@pytest.mark.parametrize("routing", [MULTICAST, UNSET])
def test_a_sleeper_gets_a_message_whose_selectors_were_asked_before(routing):
    """To ask what the queues of an address want was taken for having woken all who wait for it: nobody was."""
    world = World(default_routing="ANYCAST")
    world.subscribe(1, "a.x", routing=MULTICAST)
    world.subscribe(2, "a.*", routing=MULTICAST, selector="n = 1")
    topic(world, "a.y", b"wakes 2")
    world.subscribe(3, "a.*", routing=MULTICAST)
    message = Publish(7, 9, 0, "a.x", routing, run_of(b"m"))
    turn = world.turn()
    assert world.engine.look([message], turn, 10**9) >= 0
    world.engine.handle(message, turn)
    world.finish(turn)
    world.engine.looked([message])
    assert got(world.effects, 3) == [b"m"] == got(world.effects, 1)


@pytest.mark.parametrize("first", [ANYCAST, MULTICAST, None])
@pytest.mark.parametrize("routing", [ANYCAST, MULTICAST, UNSET])
@pytest.mark.parametrize("default", ["ANYCAST", "MULTICAST"])
def test_those_are_woken_some_at_a_time_who_get_the_message(default, routing, first):
    """What a name means by the settings is not what the address is."""
    world = World(default_routing=default)
    if first is not None:
        world.subscribe(1, "a.x", routing=first)
    others = range(2, WOKEN + 7)
    for n in others:
        world.subscribe(n, "a.*", routing=MULTICAST)
    message = Publish(7, 9, 0, "a.x", routing, run_of(b"m"))
    woken = world.engine.wake_some(message, world.turn())
    world.do(message)
    assert sum([got(world.effects, n) == [b"m"] for n in others]) == (len(others) if woken else 0)
