"""What a queue hands out: by priority and age, behind the answer that begins it."""

from __future__ import annotations

from .world import (
    World,
    done,
    got,
)


def test_message_priorities_go_first_and_keep_fifo_within():
    world = World()
    world.publish("q", b"a", b"b")
    world.publish("q", b"A", b"B", priority=9)
    world.publish("q", b"z", priority=0)
    world.publish("q", b"c")
    assert got(world.subscribe(1)) == [b"A", b"B", b"a", b"b", b"c", b"z"]


def test_the_answer_comes_before_the_first_message():
    world = World(auto_commit=False)
    effects = world.subscribe(1, seq=4)
    assert done(effects) == [] and got(world.publish("q", b"a")) == []
    effects = world.commit()
    assert done(effects) == [4] and got(effects) == [b"a"]


def test_auto_consumers_have_what_was_sent():
    world = World()
    world.subscribe(1)
    world.publish("q", b"a", durable=True)
    world.disconnect(1)
    world.effects.clear()
    world.subscribe(2)
    assert got(world.effects) == [] and world.engine.counters()["acked"] == 1
