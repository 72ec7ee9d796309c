"""Slow consumers: found once a period, while messages wait for them, and told or ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.core.effects import ConsumerClosed, Turn
from broker.core.reasons import Reason

from .world import AUTO, CLIENT, INDIVIDUAL, MULTICAST, World, closed, got, ids

KILL = {"slow_consumer_policy": "KILL", "slow_consumer_check_period_s": 2}


def slow(world: World) -> int:
    return world.engine.counters()["slow_consumers"]


@pytest.mark.parametrize("ack", [AUTO, CLIENT, INDIVIDUAL])
def test_who_takes_too_little_while_messages_wait_is_ended_and_another_gets_them(ack):
    world = World(slow_consumer_threshold=1, **KILL)
    bodies = [b"%d" % n for n in range(20)]
    world.publish("q", *bodies, durable=True)
    world.subscribe(1, ack=ack, room=1)
    effects = world.tick(2000)
    (found,) = [e for e in effects if isinstance(e, ConsumerClosed)]
    assert (found.consumer, found.reason) == (1, Reason.SLOW_CONSUMER)
    assert "disconnected by server" in found.detail and "slow_consumer_threshold 1 per second" in found.detail
    assert slow(world) == 1
    assert got(world.subscribe(2), 2) == (bodies[1:] if ack is AUTO else bodies)


def test_who_is_fast_enough_stays():
    world = World(slow_consumer_threshold=60, slow_consumer_unit="MINUTE", **KILL)
    world.subscribe(1, ack=INDIVIDUAL)
    for _ in range(4):
        world.publish("q", b"a", b"b", b"c", durable=True)
        world.tick(1)
        for i in ids(world.effects, 1)[-3:][:2]:
            world.settle(1, i)
        world.tick(2000)
    assert slow(world) == 0


def test_who_has_nothing_to_do_is_not_slow():
    world = World(slow_consumer_threshold=100, **KILL)
    world.subscribe(1, ack=CLIENT)
    for _ in range(3):
        assert closed(world.tick(2000)) == []


def test_who_has_done_all_there_was_is_not_slow():
    world = World(slow_consumer_threshold=100, **KILL)
    world.publish("q", b"a")
    world.subscribe(1, ack=CLIENT)
    world.settle(1, *ids(world.effects, 1))
    assert closed(world.tick(2000)) == []


def test_messages_for_others_are_nothing_to_take():
    world = World(slow_consumer_threshold=100, **KILL)
    world.subscribe(1, selector="color = 'red'")
    world.publish("q", b"a", b"b", lines=b"color:blue\n\n")
    for _ in range(3):
        assert closed(world.tick(2000)) == []
    world.subscribe(2, ack=CLIENT, credit_messages=1)  # has one in its hands, and takes none
    assert closed(world.tick(2000)) == [] and closed(world.tick(2000)) == [2]


def test_messages_that_stay_are_taken_once():
    world = World(slow_consumer_threshold=100, non_destructive=True, **KILL)
    world.publish("q", b"a", b"b")
    world.subscribe(1)
    assert got(world.effects, 1) == [b"a", b"b"]
    for _ in range(3):
        assert closed(world.tick(2000)) == []


def test_what_waits_for_a_consumer_of_a_queue_with_selectors_is_counted_from_its_second_period():
    world = World(slow_consumer_threshold=100, **KILL)
    world.publish("q", b"a", b"b", lines=b"color:red\n\n")
    world.subscribe(1, room=1, selector="color = 'red'")
    assert closed(world.tick(2000)) == [] and closed(world.tick(2000)) == [1]


def test_the_consumer_of_a_pattern_is_watched_from_its_first_message_on():
    world = World(slow_consumer_threshold=100, **KILL)
    world.subscribe(1, "a.*", ack=CLIENT, routing=MULTICAST)
    world.publish("a.x", b"m", routing=MULTICAST)
    assert closed(world.tick(2000)) == [] and closed(world.tick(2000)) == [1]


def test_messages_that_came_in_the_middle_of_a_period_are_given_a_whole_one():
    world = World(slow_consumer_threshold=100, **KILL)
    world.subscribe(1, ack=CLIENT)
    world.tick(1000)
    world.publish("q", b"a")
    assert closed(world.tick(1000)) == []
    assert closed(world.tick(2000)) == [1]


def test_a_threshold_of_none_finds_those_who_take_nothing_at_all():
    world = World(slow_consumer_threshold=0, **KILL)
    world.publish("q", b"a", b"b")
    world.subscribe(1, ack=INDIVIDUAL)
    world.settle(1, ids(world.effects, 1)[0])
    assert closed(world.tick(2000)) == []
    assert closed(world.tick(2000)) == [1]


def test_notify_only_counts_and_says_so():
    world = World(slow_consumer_threshold=1, slow_consumer_check_period_s=2)
    world.publish("q", b"a", b"b")
    world.subscribe(1, ack=CLIENT)
    world.now += 2000
    turn = Turn(world.now, world.open)
    world.engine.tick(turn)
    assert turn.effects == [] and slow(world) == 1
    assert turn.notices == [
        "slow consumer 1 of queue q: it took 0 messages in 2 s (slow_consumer_threshold 1 per second)"
    ]


def test_the_setting_may_come_and_go():
    world = World()
    world.publish("q", b"a", b"b")
    world.subscribe(1, ack=CLIENT)
    on = replace(world.settings.address, slow_consumer_threshold=1, **KILL)
    off = world.settings
    world.engine.configure(replace(world.settings, address=on))
    world.tick(1)
    world.engine.configure(off)
    assert closed(world.tick(5000)) == []
    world.engine.configure(replace(world.settings, address=on))
    assert closed(world.tick(1)) == []
    assert closed(world.tick(2000)) == [1]
