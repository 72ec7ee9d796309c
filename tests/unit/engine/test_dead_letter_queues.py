"""Where messages go that were not consumed: queues of their own, policies of NACK, jitter."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome

from .world import INDIVIDUAL, MULTICAST, UNSET, World, again, got, ids


def nacked(world, address="q", **more):
    """One message, given to consumer 1 and NACKed."""
    world.publish(address, b"a", durable=True)
    world.subscribe(1, address, ack=INDIVIDUAL)
    return world.settle(1, *ids(world.effects, 1), outcome=Outcome.NACK, **more)


def test_dead_letters_of_each_address_get_a_queue_of_their_own():
    world = World(
        max_delivery_attempts=1,
        auto_create_dead_letter_resources=True,
        dead_letter_queue_prefix="dead.",
        dead_letter_queue_suffix="!",
    )
    nacked(world)
    assert world.queue("DLQ") is None
    assert world.queue("dead.q!")["address"] == "DLQ"
    world.restart()
    [letter] = [effect.run for effect in world.subscribe(2, "DLQ", queue="dead.q!", routing=UNSET)]
    assert letter.lines.startswith(b"_AMQ_ORIG_ADDRESS:q\n_AMQ_ORIG_QUEUE:q\n")


def test_expired_messages_of_each_address_get_a_queue_of_their_own():
    world = World(auto_create_expiry_resources=True, expiry_address="gone")
    world.publish("q", b"a", expires=world.now + 5)
    world.tick(2000)
    assert world.queue("EXP.q")["routing"] == "MULTICAST"
    [letter] = [effect.run for effect in world.subscribe(2, "gone", queue="EXP.q", routing=MULTICAST)]
    assert b"_AMQ_ACTUAL_EXPIRY:%d\n" % world.now in letter.lines


@pytest.mark.parametrize("durable", [True, False])
def test_a_nack_discards_where_the_settings_say_so(durable):
    world = World(nack_policy="discard")
    world.publish("q", b"a", b"b", durable=durable)
    world.subscribe(1, ack=INDIVIDUAL)
    world.settle(1, ids(world.effects, 1)[0], outcome=Outcome.NACK)
    world.commit()
    world.restart()
    assert got(world.subscribe(2)) == ([b"b"] if durable else [])
    assert world.queue("DLQ") is None


def test_reject_still_dead_letters_there():
    world = World(nack_policy="discard")
    world.publish("q", b"a")
    world.subscribe(1, ack=INDIVIDUAL)
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.REJECT)
    assert len(got(world.subscribe(2, "DLQ"))) == 1


def test_jitter_spreads_what_failed_together_the_same_way_on_every_replica():
    def times():
        world = World(redelivery_delay_ms=1000, redelivery_jitter=0.5, max_redelivery_delay_ms=1400)
        world.publish("q", *[b"%d" % n for n in range(50)], durable=True)
        world.subscribe(1, ack=INDIVIDUAL)
        world.settle(1, *ids(world.effects, 1), outcome=Outcome.NACK)
        start, seen = world.now, []
        while len(seen) < 50:
            world.tick(max(world.engine.due - world.now, 1))
            seen += [world.now - start] * (len(again(world.effects)) - 50 - len(seen))
        return seen

    first = times()
    assert first == times()
    assert 500 <= min(first) < 700 < 1200 < max(first) <= 1400
    assert len(set(first)) > 30


NAMES = ["orders", "o'brien", "a:b\\c", "true", "1e3"]


@pytest.mark.parametrize("name", NAMES)
def test_a_queue_of_its_own_takes_no_letters_of_other_addresses(name):
    world = World(
        addresses={name: {"auto_create_dead_letter_resources": True}},
        max_delivery_attempts=1,
        queue_memory_bytes=10_000,
    )
    nacked(world, name)
    world.restart()
    world.publish("DLQ", b"sent", routing=MULTICAST)
    world.publish("plain", b"b", durable=True)
    world.subscribe(2, "plain", ack=INDIVIDUAL)
    world.settle(2, *ids(world.effects, 2), outcome=Outcome.NACK)
    nacked(world, name)
    assert [m[-1:] for m in got(world.subscribe(3, "DLQ", queue=f"DLQ.{name}", routing=UNSET))] == [b"a", b"a"]
    # Nobody else had a queue there: it got the one of the address, and is not lost.
    assert [m[-1:] for m in got(world.subscribe(4, "DLQ", routing=UNSET))] == [b"b"]


def test_a_queue_for_expired_messages_takes_only_those_of_its_address():
    world = World(addresses={"q": {"auto_create_expiry_resources": True}}, expiry_address="gone")
    for address in ("q", "other"):
        world.publish(address, address.encode(), expires=world.now + 5)
    world.tick(2000)
    assert got(world.subscribe(1, "gone", queue="EXP.q", routing=MULTICAST))[0].endswith(b"q")
    assert got(world.subscribe(2, "gone", routing=UNSET))[0].endswith(b"other")


def test_an_address_with_such_queues_only_is_subscribed_to_as_if_it_had_none():
    world = World(addresses={"q": {"auto_create_dead_letter_resources": True}}, max_delivery_attempts=1)
    nacked(world)
    world.subscribe(2, "DLQ", routing=UNSET)
    assert world.queue("DLQ")["routing"] == "ANYCAST"
    assert got(world.effects, 2) == []


def test_with_no_leave_to_make_queues_a_letter_still_finds_the_one_that_is_there():
    world = World(
        addresses={"q": {"auto_create_dead_letter_resources": True}, "DLQ": {"auto_create_queues": True}},
        max_delivery_attempts=1,
    )
    nacked(world)
    world.engine.configure(World(addresses={"DLQ": {"auto_create_queues": False}}, max_delivery_attempts=1).settings)
    world.effects.clear()
    world.publish("q", b"b", durable=True)
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.NACK)
    assert len(got(world.subscribe(3, "DLQ", queue="DLQ.q", routing=UNSET))) == 2


@pytest.mark.parametrize("first", [{"routing": UNSET}, {"routing": MULTICAST}])
def test_who_waits_for_letters_makes_the_same_queue_as_a_letter(first):
    world = World(addresses={"q": {"auto_create_dead_letter_resources": True}}, max_delivery_attempts=1)
    world.subscribe(9, "DLQ", queue="DLQ.q", **first)
    world.publish("plain", b"b", durable=True)
    world.subscribe(2, "plain", ack=INDIVIDUAL)
    world.settle(2, *ids(world.effects, 2), outcome=Outcome.NACK)
    nacked(world)
    assert [m[-1:] for m in got(world.effects, 9)] == [b"a"]
    assert world.queue("DLQ")["ready"] == 1
