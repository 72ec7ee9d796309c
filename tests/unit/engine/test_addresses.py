"""Queues come and go: made on demand, tied to a consumer, shared by subscribers, deleted when nobody needs them."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Publish
from broker.core.errors import Code

from .test_declarations import A, durable, world
from .world import (
    ANYCAST,
    AUTO,
    CLIENT,
    INDIVIDUAL,
    MULTICAST,
    World,
    bodies,
    done,
    got,
    ids,
    refused,
    run_of,
)


def test_a_temporary_topic_queue_dies_with_its_consumer():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, session=8)
    assert len(world.stats()) == 1
    world.disconnect(8)
    assert world.stats() == [] and world.engine._slot.addresses == {} and world.engine._slot.consumers == {}


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
    assert world.queue() is None and world.engine.due == 0


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


def test_a_session_that_consumes_the_queue_of_its_own_subscription_too_ends():
    """The queue ends with the first of the two, and the other one with the queue."""
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, session=5)
    (queue,) = world.engine.queues()
    world.subscribe(2, "t", routing=MULTICAST, session=5, queue=queue.name)
    world.subscribe(3, "other", session=5)
    world.disconnect(5)
    assert world.queue(queue.name) is None and world.queue("other")["consumers"] == 0


def test_many_consumers_share_a_durable_subscription():
    w = World()
    for n in range(1, 26):
        w.subscribe(n, A, routing=MULTICAST, queue="me.news", durable=True, ack=INDIVIDUAL, seq=n)
    assert refused(w.effects) == [] and sorted(done(w.effects)) == list(range(1, 26))
    assert len(got(w.publish(A, *[b"%d" % n for n in range(50)], routing=MULTICAST))) == 50
    assert w.queue("me.news")["consumers"] == 25


def test_a_durable_subscription_with_another_selector_is_refused():
    w = World()
    durable(w, 1, "colour = 'red'")
    w.unsubscribe(1, address=A)
    assert refused(durable(w, 2)) == [Code.SUBSCRIPTION_CONFLICT]
    w.commit()
    w.restart()
    assert refused(durable(w, 2, "colour = 'blue'")) == [Code.SUBSCRIPTION_CONFLICT]
    assert refused(durable(w, 2, "colour = 'red'")) == []


def test_or_takes_the_new_one_when_nobody_else_has_it():
    w = World(durable_conflict="replace")
    durable(w, 1, "colour = 'red'")
    assert refused(durable(w, 2, "colour = 'blue'")) == [Code.SUBSCRIPTION_CONFLICT]
    w.unsubscribe(1, address=A)
    w.publish(A, b"colour:red\n\n1\0", routing=MULTICAST, durable=True)
    assert len(got(durable(w, 3, "colour = 'blue'"))) == 1
    w.unsubscribe(3, address=A)
    w.commit()
    w.restart()
    w.publish(A, b"colour:red\n\n2\0", b"colour:blue\n\n3\0", routing=MULTICAST, durable=True)
    w.settle_down()
    waits = w.queue("me.news")
    assert waits["ready"] + waits["paged"] == 2


def test_queues_go_with_some_messages_left_where_the_settings_say_so():
    w = world(addresses={A: {"auto_delete_message_count": 2, "auto_delete_delay_ms": 100}})
    w.publish(A, b"1", b"2", b"3", durable=True)
    w.subscribe(1, A, ack=INDIVIDUAL)
    w.unsubscribe(1, address=A)
    w.tick(1000)
    assert w.queue(A)["ready"] == 3
    held = w.subscribe(2, A, ack=INDIVIDUAL)
    w.settle(2, held[-1].run.ids[0])
    w.unsubscribe(2, address=A)
    w.tick(50)
    assert w.queue(A) is not None
    w.tick(100)
    assert w.queue(A) is None


@pytest.mark.parametrize("delayed", [True, False])
def test_every_message_counts_for_what_may_be_left(delayed):
    """Three messages in one piece are three: delayed after a NACK, or scheduled."""
    w = world(addresses={A: {"auto_delete_message_count": 2, "auto_delete_delay_ms": 100, "max_delivery_attempts": -1}})
    w.subscribe(1, A, ack=CLIENT)
    if delayed:
        held = ids(w.publish(A, b"1", b"2", b"3"), 1)
        w.settle(1, held[-1], outcome=Outcome.NACK, delay=3_600_000)
        assert w.queue(A)["delayed"] == 3
    else:
        run = run_of(b"1", b"2", b"3", durable=True)
        run.due = w.now + 3_600_000
        w.do(Publish(7, 9, 0, A, ANYCAST, run))
        assert w.queue(A)["scheduled"] == 3
    w.unsubscribe(1, address=A)
    w.tick(100)
    w.tick(100)
    assert w.queue(A) is not None
