"""Settings change under a running engine."""

from __future__ import annotations

from broker.core.address import Outcome
from broker.core.errors import Code

from .world import INDIVIDUAL, World, got, ids, refused


def configure(world, **settings):
    world.settings = World(**settings).settings
    world.engine.configure(world.settings)


def test_queues_that_exist_follow_the_new_settings():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.publish("q", b"a", b"b")
    i = ids(world.effects)
    configure(world, addresses={"q": {"max_delivery_attempts": 1, "dead_letter_address": "graves"}})
    world.settle(1, i[0], outcome=Outcome.NACK)
    assert world.queue("graves")["ready"] == 1
    configure(world, redelivery_delay_ms=100)
    world.settle(1, i[1], outcome=Outcome.NACK)
    assert world.queue()["delayed"] == 1 and got(world.tick(100)) == [b"b"]


def test_auto_delete_turned_off_and_on():
    world = World(auto_delete_delay_ms=100)
    world.subscribe(1)
    world.disconnect(1)
    configure(world, auto_delete=False, auto_delete_delay_ms=100)
    world.tick(1000)
    assert world.queue() is not None
    configure(world, auto_delete=True, auto_delete_delay_ms=100)
    world.tick(1)
    world.tick(99)
    assert world.queue() is not None
    world.tick(1)
    assert world.queue() is None


def test_what_matches_no_more_keeps_its_queue_and_nothing_new_is_made():
    world = World()
    world.publish("q", b"a")
    configure(world, auto_create=False)
    assert refused(world.publish("q", b"b")) == []
    assert refused(world.publish("r", b"b")) == [Code.NO_SUCH_DESTINATION]
    assert got(world.subscribe(1)) == [b"a", b"b"]


def test_bounds_of_memory():
    world = World(auto_commit=False)
    world.publish("q", b"x" * 100)
    configure(world, queue_memory_bytes=50)
    world.publish("q", b"y" * 100)
    assert world.queue()["ready"] == 1
    world.auto_commit = True
    world.settle_down()
    assert got(world.subscribe(1)) + got(world.effects) != []
    assert sorted(set(got(world.effects))) == [b"x" * 100, b"y" * 100]
