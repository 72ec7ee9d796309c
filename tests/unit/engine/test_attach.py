"""Consumers come to their queues, those that slept with the first message."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.engine.dispatch.attach import WOKEN

from .test_wildcard_queues import topic
from .world import ANYCAST, CLIENT, MULTICAST, UNSET, World, done, got, run_of


@pytest.fixture
def world() -> World:
    return World()


def test_a_consumer_that_sees_nothing_has_no_queue(world):
    assert done(world.subscribe(1, "a.*", routing=MULTICAST, seq=5)) == [5]
    topic(world, "b.x", b"other")
    assert world.stats() == []
    assert got(topic(world, "a.x", b"1")) == [b"1"]
    assert [queue["address"] for queue in world.stats()] == ["a.*"]
    assert got(topic(world, "a.y", b"2", b"3")) == [b"2", b"3"]


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


def test_who_has_looked_at_the_slot_hears_of_those_who_were_woken():
    """Lists were those of before until the message itself had come (owner/shard/listing_cache.py)."""
    world = World()
    for n in range(1, WOKEN + 7):
        world.subscribe(n, "a.*", routing=MULTICAST)
    before = world.engine.changes
    assert world.engine.wake_some(Publish(7, 9, 0, "a.x", MULTICAST, run_of(b"m")), world.turn())
    assert world.engine.changes > before
