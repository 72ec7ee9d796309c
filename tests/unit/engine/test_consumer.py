"""Room, credit, round robin, priorities, browsers, subscriptions and their end."""

from __future__ import annotations

import pytest

from broker.core.commands import Settle

from .world import (
    AUTO,
    CLIENT,
    INDIVIDUAL,
    World,
    again,
    bodies,
    ids,
)


def test_what_was_held_goes_back_in_order_marked_and_counted():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.subscribe(2, ack=INDIVIDUAL)
    world.publish("q", *bodies(6))
    world.publish("q", b"new")
    world.disconnect(2)
    world.effects.clear()
    world.unsubscribe(1)
    world.effects.clear()
    world.subscribe(3, ack=CLIENT)
    assert [body for body, *_ in again(world.effects)] == [*bodies(6), b"new"]
    assert all(redelivered for *_, redelivered in again(world.effects))


@pytest.mark.parametrize(
    ("ack", "settled", "left"),
    [
        (CLIENT, [[1]], [2, 3, 4]),
        (CLIENT, [[0], [1, 3]], [4]),
        (INDIVIDUAL, [[1, 3], [4]], [0, 2]),
        (AUTO, [], []),
    ],
)
def test_what_it_will_hold_when_what_has_been_sent_is_carried_out(ack, settled, left):
    world = World()
    world.subscribe(1, ack=ack)
    world.publish("q", *bodies(5))
    held = world.engine.held(1, [])
    given = ids(world.effects, 1)
    assert held == ([] if ack is AUTO else given)
    coming = [Settle(7, 1, 0, 1, [given[i] for i in each]) for each in settled]
    assert world.engine.held(1, [*coming, Settle(7, 1, 0, 2, given)]) == [given[i] for i in left]
    assert world.engine.held(1, []) == held and world.engine.held(9, []) == []
