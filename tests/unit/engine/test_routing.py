"""Where a message goes: by type, by name, and what may not be made is refused and leaves nothing."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.errors import Code, RefusedError
from broker.core.records import RunRecord

from .test_publish import kinds
from .world import (
    ANYCAST,
    MULTICAST,
    UNSET,
    World,
    done,
    got,
    ids,
    refused,
    run_of,
)


def test_anycast_without_consumers_makes_a_durable_queue_of_that_name():
    world = World()
    world.publish("q", b"a")
    queue = world.queue("q")
    assert queue["ready"] == 1 and queue["routing"] == "ANYCAST" and "queue" in kinds(world)


def test_a_topic_without_subscribers_drops_and_answers():
    world = World()
    effects = world.publish("t", b"a", b"b", routing=MULTICAST, seq=3)
    assert done(effects) == [3] and world.engine.counters()["dropped_unrouted"] == 2
    assert world.stats() == []


def test_unset_goes_to_the_anycast_queue_and_to_every_multicast_queue():
    world = World()
    world.subscribe(1, "x", routing=ANYCAST)
    world.subscribe(2, "x", routing=MULTICAST)
    world.subscribe(3, "x", routing=MULTICAST)
    effects = world.publish("x", b"a", routing=UNSET)
    assert [got(effects, c) for c in (1, 2, 3)] == [[b"a"]] * 3
    assert got(world.publish("x", b"b", routing=MULTICAST), 1) == []
    effects = world.publish("x", b"c", routing=ANYCAST)
    assert got(effects, 1) == [b"c"] and got(effects, 2) == []


def test_several_anycast_queues_take_turns_message_by_message():
    world = World()
    world.subscribe(1, "x", queue="x1")
    world.subscribe(2, "x", queue="x2")
    world.subscribe(3, "x", routing=MULTICAST)
    effects = world.publish("x", b"1", b"2", b"3", routing=UNSET, durable=True)
    effects += world.publish("x", b"4", b"5", b"6", routing=UNSET, durable=True)
    one, two = got(world.effects, 1), got(world.effects, 2)
    assert sorted(one + two) == [b"1", b"2", b"3", b"4", b"5", b"6"] and len(one) == 3
    assert got(world.effects, 3) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    numbers = ids(world.effects)
    assert len(set(numbers)) == 12
    assert all(type(r.run.ids) is range and r.run.ids.step == 1 for _, r in world.log if isinstance(r, RunRecord))


def test_fully_qualified_names_reach_exactly_that_queue():
    world = World()
    world.subscribe(1, "x", queue="x1")
    world.subscribe(2, "x", queue="x2")
    effects = world.publish("x", b"a", queue="x2", routing=UNSET)
    assert got(effects, 1) == [] and got(effects, 2) == [b"a"]
    world.publish("x", b"b", queue="x3", routing=UNSET)
    assert world.queue("x3")["ready"] == 1


@pytest.mark.parametrize(
    ("allowed", "asked", "code"), [(True, False, Code.NOT_ALLOWED), (False, True, Code.NO_SUCH_DESTINATION)]
)
def test_what_may_not_be_created_is_refused_and_leaves_nothing(allowed, asked, code):
    world = World(auto_create=allowed)
    assert refused(world.publish("no", b"a", create=asked, seq=1)) == [code]
    assert refused(world.subscribe(1, "no", create=asked)) == [code]
    with pytest.raises(RefusedError):
        world.engine.check(Publish(7, 1, 1, "no", ANYCAST, run_of(b"a"), None, asked), {})
    assert world.log == [] and world.stats() == [] and world.engine.counters()["accepted"] == 0


def test_a_type_the_address_lacks_is_added_or_refused():
    world = World(addresses={"t": {"auto_create": True}})
    world.subscribe(1, "t", routing=MULTICAST)
    assert refused(world.publish("t", b"a", create=False)) == [Code.ROUTING_MISMATCH]
    assert refused(world.publish("t", b"a")) == []
    assert world.queue("t")["ready"] == 1


def test_a_subscription_that_may_not_create_gets_what_is_there():
    world = World()
    for more in ({"routing": MULTICAST, "queue": "me.d", "durable": True}, {"routing": UNSET}):
        assert refused(world.subscribe(1, "t", create=False, **more)) == [Code.NOT_ALLOWED]
    world.subscribe(2, "t", routing=MULTICAST, queue="me.d", durable=True)
    assert refused(world.subscribe(3, "t", routing=MULTICAST, queue="me.d", durable=True, create=False)) == []
    assert refused(world.subscribe(4, "t", routing=MULTICAST, queue="me.e", durable=True, create=False)) == [
        Code.NOT_ALLOWED
    ]
    assert refused(world.subscribe(5, "t", routing=UNSET, create=False)) == [Code.NOT_ALLOWED], "a topic, not a queue"
    assert refused(world.subscribe(6, "t", routing=MULTICAST, create=False)) == []


def test_unset_subscriptions_prefer_the_anycast_queue():
    world = World()
    world.subscribe(1, "x", routing=MULTICAST)
    world.subscribe(2, "x", routing=UNSET)
    assert len(world.stats()) == 2 and world.stats()[1]["routing"] == "MULTICAST"
    world.subscribe(3, "x", routing=ANYCAST)
    world.subscribe(4, "x", routing=UNSET)
    assert world.queue("x")["consumers"] == 2
