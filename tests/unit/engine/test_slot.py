"""What a slot counts: ids are never given twice."""

from __future__ import annotations

from .world import World, ids


def test_ids_are_never_given_twice_whatever_was_lost():
    world = World()
    world.publish("q", b"a", durable=True)
    world.publish("q", *[b"x"] * 50)
    world.subscribe(1)
    before = max(ids(world.effects))
    world.restart()
    world.effects.clear()
    world.subscribe(2)
    world.effects.clear()
    world.publish("q", b"new")
    assert min(ids(world.effects)) > before
