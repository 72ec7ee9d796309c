"""Room, credit, round robin, priorities, browsers, subscriptions and their end."""

from __future__ import annotations

import pytest

from broker.core.commands import Settle, Subscribe
from broker.core.errors import Code

from .world import (
    ANYCAST,
    AUTO,
    CLIENT,
    INDIVIDUAL,
    MULTICAST,
    UNSET,
    World,
    again,
    bodies,
    browse_ends,
    closed,
    done,
    got,
    ids,
    refused,
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


def test_a_browser_sees_everything_once_and_takes_nothing():
    world = World(queue_memory_bytes=30, page_bytes=12)
    world.publish("q", b"urgent", priority=7)
    for n in range(20):
        world.publish("q", *bodies(2, 2 * n), durable=n % 2 == 0)
    assert world.queue()["paged"] > 20
    world.effects.clear()
    world.subscribe(1, browse=True, ack=CLIENT, room=20)
    while not browse_ends(world.effects):
        world.grant(1, 20)
    assert got(world.effects) == [b"urgent", *bodies(40)] and browse_ends(world.effects) == 1
    queue = world.queue()
    assert queue["ready"] + queue["paged"] == 41
    world.unsubscribe(1)
    world.subscribe(2)
    assert got(world.effects, 2) == [b"urgent", *bodies(40)]


def test_a_temporary_topic_queue_dies_with_its_consumer():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, session=8)
    assert len(world.stats()) == 1
    world.disconnect(8)
    assert world.stats() == [] and world.engine._slot.addresses == {} and world.engine._slot.consumers == {}


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


def test_auto_consumers_have_what_was_sent():
    world = World()
    world.subscribe(1)
    world.publish("q", b"a", durable=True)
    world.disconnect(1)
    world.effects.clear()
    world.subscribe(2)
    assert got(world.effects) == [] and world.engine.counters()["acked"] == 1


def test_a_durable_subscription_survives_is_shared_and_is_deleted_when_alone():
    world = World()

    def join(consumer: int) -> list:
        return world.subscribe(consumer, "t", ack=AUTO, routing=MULTICAST, queue="me.s", durable=True)

    join(1)
    world.unsubscribe(1, address="t")
    world.publish("t", *bodies(2), routing=MULTICAST)
    effects = join(2) + join(3)
    assert got(effects, 2) == bodies(2)
    world.publish("t", *bodies(2), routing=MULTICAST)
    assert len(got(world.effects, 2)) == 3 and len(got(world.effects, 3)) == 1
    assert refused(world.unsubscribe(2, address="t", delete="me.s")) == [Code.SUBSCRIPTION_IN_USE]
    world.unsubscribe(3, address="t")
    assert refused(world.subscribe(4, "u", routing=MULTICAST, queue="me.s", durable=True)) == [
        Code.SUBSCRIPTION_CONFLICT
    ]
    assert refused(world.unsubscribe(2, address="t", delete="me.s", seq=1)) == []
    assert world.stats() == []
    assert refused(world.unsubscribe(0, session=9, address="t", delete="me.s")) == [Code.NO_SUCH_SUBSCRIPTION]


def test_a_subscription_nobody_is_attached_to_can_be_deleted():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, queue="me.s", durable=True)
    world.unsubscribe(1, address="t")
    assert done(world.unsubscribe(0, session=5, seq=2, address="t", delete="me.s") + world.effects).count(2)
    assert world.queue("me.s") is None


def test_auto_created_queues_go_when_empty_and_unused():
    world = World(auto_delete_delay_ms=100)
    world.subscribe(1)
    world.publish("q", b"a")
    world.unsubscribe(1)
    world.tick(99)
    assert world.queue() is not None
    world.tick(2)
    assert world.queue() is None and world.engine.next_due() == 0


def test_a_queue_in_use_again_is_not_deleted():
    world = World(auto_delete_delay_ms=100)
    world.subscribe(1)
    world.unsubscribe(1)
    world.publish("q", b"a")
    world.tick(200)
    assert world.queue()["ready"] == 1
    world.subscribe(2)
    world.unsubscribe(2)
    world.tick(99)
    assert world.queue() is not None
    world.tick(200)
    assert world.queue() is None


def test_unset_subscriptions_prefer_the_anycast_queue():
    world = World()
    world.subscribe(1, "x", routing=MULTICAST)
    world.subscribe(2, "x", routing=UNSET)
    assert len(world.stats()) == 2 and world.stats()[1]["routing"] == "MULTICAST"
    world.subscribe(3, "x", routing=ANYCAST)
    world.subscribe(4, "x", routing=UNSET)
    assert world.queue("x")["consumers"] == 2


def test_a_deleted_queue_closes_browsers_that_watch_it():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, queue="me.s", durable=True)
    world.do(Subscribe(7, 2, 0, 2, "t", MULTICAST, AUTO, queue="me.s", durable=True, browse=True))
    world.unsubscribe(1, address="t", delete="me.s")
    assert closed(world.effects) == [2]
    assert refused(world.unsubscribe(2, address="t")) == [Code.NO_SUCH_SUBSCRIPTION]


def test_a_session_that_consumes_the_queue_of_its_own_subscription_too_ends():
    """The queue ends with the first of the two, and the other one with the queue."""
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, session=5)
    (queue,) = world.engine.queues()
    world.subscribe(2, "t", routing=MULTICAST, session=5, queue=queue.name)
    world.subscribe(3, "other", session=5)
    world.disconnect(5)
    assert world.queue(queue.name) is None and world.queue("other")["consumers"] == 0


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
