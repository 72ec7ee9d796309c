"""Queues, consumers and addresses as operators see them."""

from __future__ import annotations

from broker.core.address import Outcome
from broker.core.commands import Hold, Publish
from broker.engine.state import queue_views
from broker.engine.state.queue_views import (
    QUEUE_VALUES,
    address_row,
    consumer_row,
    hindrance,
    kind_of,
    messages,
    queue_detail,
    queue_row,
)

from .world import ANYCAST, AUTO, INDIVIDUAL, MULTICAST, World, bodies, ids, run_of


def queue_of(world: World, name: str = "q"):
    return next(queue for queue in world.engine._slot.queues.values() if queue.name == name)


def test_messages_are_those_that_wait_that_are_out_and_that_are_not_due():
    world = World(redelivery_delay_ms=1000)
    world.attach(1, ack=INDIVIDUAL, credit_messages=3)
    world.publish("q", *bodies(10), durable=True)
    world.settle_down()
    queue, slot = queue_of(world), world.engine._slot
    row = queue_row(slot, queue)
    assert (row["messages"], row["waiting"], row["delivering"], row["scheduled"]) == (10, 7, 3, 0)
    assert (row["consumers"], row["durable"], row["kind"], row["auto_created"]) == (1, True, "queue", True)
    world.settle(1, *ids(world.effects), outcome=Outcome.NACK)
    world.settle_down()
    row = queue_row(slot, queue)
    assert (row["messages"], row["delivering"], row["scheduled"]) == (10, 3, 3), "a delay of redelivery counts too"
    for name, value in QUEUE_VALUES.items():
        assert value(queue) == row[name], "sorted by what is shown"


def test_bytes_and_messages_on_the_disk_count():
    world = World(queue_memory_bytes=20, page_bytes=20)
    for n in range(50):
        world.publish("q", b"%03d" % n, durable=True)
    row = queue_row(world.engine._slot, queue_of(world))
    assert row["messages"] == 50 == messages(queue_of(world)) and 0 < row["paged"] <= 50 and row["bytes"] >= 150


def test_what_a_queue_is_for_is_one_word():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST)
    world.subscribe(2, "t", routing=MULTICAST, queue="c.s", durable=True)
    world.publish("q", b"1")
    kinds = {kind_of(queue) for queue in world.engine._slot.queues.values()}
    assert kinds == {"subscriber", "subscription", "queue"} and kind_of(queue_of(world, "c.s")) == "subscription"
    row = address_row(world.engine._slot, world.engine._slot.addresses["t"])
    assert (row["name"], row["routing"], row["queues"], row["limited"]) == ("t", ["MULTICAST"], 2, False)


def test_its_page_says_what_its_settings_make_of_it():
    world = World(ring_size=5, last_value_key="k", exclusive=True, max_consumers=3)
    world.publish("q", b"1")
    detail = queue_detail(world.engine._slot, queue_of(world))
    assert (detail["ring_size"], detail["last_value"], detail["exclusive"], detail["max_consumers"]) == (
        5,
        True,
        True,
        3,
    )
    assert detail["browsers"] == 0 and detail["selector"] is None
    world.subscribe(1, browse=True)
    assert queue_detail(world.engine._slot, queue_of(world))["browsers"] == 1
    plain = World()
    plain.publish("q", b"1")
    assert queue_detail(plain.engine._slot, queue_of(plain))["last_value"] is False


def test_why_a_consumer_gets_nothing():
    world = World()
    world.attach(1, ack=INDIVIDUAL, credit_messages=2)
    world.attach(2, ack=INDIVIDUAL, credit_bytes=4)
    world.attach(3, ack=AUTO)
    slot = world.engine._slot
    one, two, three = (slot.consumers[n] for n in (1, 2, 3))
    assert [hindrance(each) for each in (one, two, three)] == ["", "", ""]
    world.publish("q", *bodies(12))
    assert hindrance(one) == "its window is full: 2 messages are not acknowledged"
    one.credit_messages = 1
    assert hindrance(one) == "", "one more"
    assert hindrance(two).startswith("its window of bytes is full: ")
    assert hindrance(three) == ""
    three.room = 0
    assert "does not read as fast" in hindrance(three)
    three.room = -queue_views.WITHHELD
    assert "not durable yet" in hindrance(three)


def test_a_consumer_says_what_it_holds_and_what_it_may_still_get():
    world = World()
    world.attach(1, ack=INDIVIDUAL, credit_messages=5, selector="a IS NULL")
    world.attach(2, ack=INDIVIDUAL)
    world.publish("q", *bodies(3))
    slot = world.engine._slot
    first, second = consumer_row(slot, slot.consumers[1]), consumer_row(slot, slot.consumers[2])
    assert first["unacknowledged"] + second["unacknowledged"] == 3
    assert first["window"] == 5 - first["unacknowledged"] and second["window"] is None, "null: without a bound"
    assert (first["selector"], second["selector"]) == ("a IS NULL", None)
    assert (first["queue"], first["address"], first["ack"], first["ready"]) == ("q", "q", "individual", True)
    world.settle(1, *ids(world.effects, 1))
    assert consumer_row(slot, slot.consumers[1])["unacknowledged"] == 0


def test_what_a_transaction_holds_is_with_its_consumer():
    world = World()
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", *bodies(3))
    world.do(Hold(7, 1, 0, 1, ids(world.effects)[:1]))
    slot = world.engine._slot
    assert consumer_row(slot, slot.consumers[1])["unacknowledged"] == 3
    assert queue_row(slot, queue_of(world))["delivering"] == 3


def test_what_is_sent_for_later_is_scheduled():
    world = World()
    later = run_of(b"x", durable=True)
    later.due_at(world.now + 60_000)
    world.do(Publish(7, 1, 0, "q", ANYCAST, later))
    world.publish("q", b"now")
    row = queue_row(world.engine._slot, queue_of(world))
    assert (row["messages"], row["waiting"], row["scheduled"]) == (2, 1, 1)
