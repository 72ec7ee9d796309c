"""From a run to consumers: exact shares, short credit, windows and priorities."""

from __future__ import annotations

from .world import (
    CLIENT,
    INDIVIDUAL,
    World,
    bodies,
    got,
    ids,
)


def test_round_robin_is_exact_message_by_message_over_turns():
    world = World()
    for consumer in (1, 2, 3):
        world.subscribe(consumer)
    world.publish("q", *bodies(4))
    world.publish("q", *bodies(1, 4))
    world.publish("q", *bodies(4, 5))
    assert [got(world.effects, c) for c in (1, 2, 3)] == [
        [b"000", b"003", b"006"],
        [b"001", b"004", b"007"],
        [b"002", b"005", b"008"],
    ]


def test_round_robin_with_short_credit_skips_who_is_full():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    world.subscribe(2, ack=INDIVIDUAL, credit_messages=3)
    world.publish("q", *bodies(6))
    assert got(world.effects, 1) == [b"000"] and got(world.effects, 2) == [b"001", b"002", b"003"]
    assert world.queue()["ready"] == 2 and world.queue()["delivering"] == 4
    assert got(world.settle(1, ids(world.effects, 1)[0])) == [b"004"]


def test_a_window_of_bytes_overshoots_by_one_message():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL, credit_bytes=540)
    world.publish("q", *[b"x" * 300] * 4)
    assert len(ids(world.effects)) == 2
    assert len(ids(world.settle(1, ids(world.effects)[0]))) == 1


def test_one_byte_of_credit_is_one_message_at_a_time():
    world = World()
    world.subscribe(1, ack=CLIENT, credit_bytes=1)
    world.publish("q", *bodies(3))
    assert len(ids(world.effects)) == 1
    assert len(ids(world.settle(1, ids(world.effects)[0]))) == 1


def test_room_stops_an_auto_consumer_until_granted():
    world = World()
    world.subscribe(1, room=7, overhead=1)
    world.publish("q", *bodies(5))
    assert got(world.effects) == bodies(2)
    assert got(world.grant(1, 1)) == []
    assert got(world.grant(1, 8)) == bodies(2, 2)


def test_the_consumer_with_the_higher_priority_is_served_while_it_can_take():
    world = World()
    world.subscribe(1)
    world.subscribe(2, priority=5, ack=INDIVIDUAL, credit_messages=2)
    world.publish("q", *bodies(3))
    assert got(world.effects, 2) == bodies(2) and got(world.effects, 1) == bodies(1, 2)
