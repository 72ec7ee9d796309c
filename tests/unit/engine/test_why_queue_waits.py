"""Why a queue hands out nothing, in words, with what helps."""

from __future__ import annotations

from broker.core.commands import Act
from tests.unit.engine.world import INDIVIDUAL, World

from .test_manage import act, reasons, send


def test_why_nothing_is_delivered_in_words():
    world = World()
    send(world, 4)
    assert "Nobody consumes it: subscribe to orders." in reasons(world)
    world.subscribe(9, "orders", browse=True)
    assert "subscribe to orders. Browsers look at it, but they take nothing." in reasons(world)
    world.subscribe(1, "orders", ack=INDIVIDUAL, credit_messages=1)
    told = reasons(world)
    assert "window is full" in told and "1 messages unacknowledged" in told
    world.subscribe(2, "orders", ack=INDIVIDUAL)
    assert "not acknowledged" in reasons(world)
    world = World()
    act(world, Act.CREATE, "orders")
    assert "empty" in reasons(world)
    send(world, 2)
    world.subscribe(1, "orders", selector="colour = 'red'")
    assert "selectors" in reasons(world)
