"""AckMode.AUTO over a link: what was handed out is settled when the other process has it, not before."""

from __future__ import annotations

import pytest

from broker.core.records import SettleRecord

from .world import MULTICAST, World, again, got, ids


def settles(world):
    return [(r.spans, r.durable) for _, r in world.log if isinstance(r, SettleRecord)]


def test_deliveries_are_settled_run_by_run_in_their_order():
    world = World()
    world.attach(1)
    for bodies in ([b"a", b"b"], [b"c"], [b"d"]):
        world.publish("q", *bodies, durable=True)
    i = ids(world.effects)
    assert settles(world) == [] and world.queue()["delivering"] == 4 and world.engine.counters()["acked"] == 0
    world.confirm(1, 2)
    assert settles(world) == [([(i[0], i[2])], True)] and world.queue()["delivering"] == 1
    world.confirm(1, 5)
    assert settles(world)[1:] == [([(i[3], i[3])], True)]
    assert world.queue()["delivering"] == 0 and world.engine.counters()["acked"] == 4
    world.confirm(1, 1)
    world.confirm(8, 1)


@pytest.mark.parametrize("durable", [True, False])
def test_what_was_not_confirmed_comes_again_marked(durable):
    world = World()
    world.attach(1)
    for body in (b"a", b"b", b"c"):
        world.publish("q", body, durable=durable)
    world.confirm(1, 1)
    world.disconnect(1)
    world.effects.clear()
    world.subscribe(2)
    assert again(world.effects) == [(b"b", 1, True), (b"c", 1, True)]
    assert world.queue()["delivering"] == 0


def test_after_a_crash_too():
    world = World()
    world.attach(1)
    for body in (b"a", b"b", b"c"):
        world.publish("q", body, durable=True)
    world.confirm(1, 1)
    world.commit()
    world.restart()
    world.subscribe(2)
    world.settle_down()
    assert [(body, marked) for body, _, marked in again(world.effects)] == [(b"b", True), (b"c", True)]


def test_a_queue_with_unconfirmed_messages_is_not_deleted():
    world = World()
    world.attach(1)
    world.publish("q", b"a")
    world.disconnect(1)
    world.tick(10)
    assert got(world.subscribe(2)) == [b"a"]


def test_browsers_confirm_nothing():
    world = World()
    world.publish("q", b"a", durable=True)
    assert got(world.attach(1, browse=True)) == [b"a"]
    world.confirm(1, 1)
    assert settles(world) == [] and world.queue()["ready"] == 1


def test_what_a_tied_queue_has_not_had_confirmed_dies_with_it():
    world = World()
    world.attach(1, address="t", routing=MULTICAST)
    world.publish("t", b"a", routing=MULTICAST)
    world.disconnect(1)
    assert world.stats() == []
