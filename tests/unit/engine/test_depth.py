"""How much waits at an address: what people and autoscalers are told of each of its queues."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.engine.state.depth import busy, depths

from .world import INDIVIDUAL, MULTICAST, World, bodies, ids


def told(world: World, match: str) -> dict[str, tuple]:
    """Queue → (waiting, delivering, scheduled, consumers)."""
    found = [row for row in depths(world.engine._slot, match) if row is not None]
    return {row["queue"]: tuple(row[n] for n in ("waiting", "delivering", "scheduled", "consumers")) for row in found}


def test_what_waits_is_told_apart_from_what_is_out_and_what_is_not_due():
    world = World()
    world.attach(1, ack=INDIVIDUAL, credit_messages=3)
    world.publish("q", *bodies(10), durable=True)
    world.settle_down()
    assert told(world, "q") == {"q": (7, 3, 0, 1)}
    world.settle(1, ids(world.effects)[0])
    world.settle_down()
    assert told(world, "q") == {"q": (6, 3, 0, 1)}


def test_what_is_paged_out_waits_like_the_rest():
    world = World(queue_memory_bytes=20, page_bytes=20)
    for n in range(50):
        world.publish("q", b"%03d" % n, durable=True)
    assert told(world, "q") == {"q": (50, 0, 0, 0)}


def test_all_queues_of_a_topic_and_all_addresses_of_a_pattern_are_told_and_no_others():
    world = World()
    world.subscribe(1, "a.x", routing=MULTICAST, queue="c.one", durable=True)
    world.subscribe(2, "a.x", routing=MULTICAST, queue="c.two", durable=True)
    world.publish("a.y", b"1")
    world.publish("b", b"1", b"2")
    world.settle_down()
    assert set(told(world, "a.x")) == {"c.one", "c.two"}
    assert set(told(world, "a.*")) == {"c.one", "c.two", "a.y"}
    assert told(world, "nowhere") == {} and told(world, "b")["b"][0] == 2


def test_a_pattern_gives_way_after_each_address_that_it_does_not_stand_for():
    """A slot may have many: between two of them others are served."""
    world = World()
    for n in range(5):
        world.publish(f"b{n}", b"1")
    world.publish("a.x", b"1")
    entries = list(depths(world.engine._slot, "a.*"))
    assert entries.count(None) == 5 and len(entries) == 6


def test_addresses_may_come_and_go_while_it_is_read():
    world = World()
    for n in range(3):
        world.publish(f"a.{n}", b"1")
    reading = depths(world.engine._slot, "a.*")
    first = next(reading)
    world.publish("a.new", b"1")
    assert {first["queue"], *(row["queue"] for row in reading)} == {"a.0", "a.1", "a.2"}


def test_a_queue_that_nobody_may_see_is_not_told():
    world = World(retroactive_messages=5)
    world.subscribe(1, "t", routing=MULTICAST, queue="c.s", durable=True)
    world.publish("t", b"1", routing=MULTICAST)
    queues = world.engine._slot.addresses["t"].queues
    queues["c.s"].hidden = True
    assert told(world, "t") == {} and list(depths(world.engine._slot, "t")) == [None] * len(queues)


def busied(world: World, *names: str) -> dict[str, dict]:
    *rows, total = [row for row in busy(world.engine._slot, names) if row is not None]
    assert set(total) == {"slot", "bytes"}
    return {row.pop("address"): row for row in rows}


def test_an_address_tells_of_all_its_queues_together_what_is_there_what_came_and_what_died():
    world = World(max_delivery_attempts=1, dead_letter_address="dead")
    world.subscribe(1, "t", routing=MULTICAST, queue="c.one", durable=True, ack=INDIVIDUAL)
    world.subscribe(2, "t", routing=MULTICAST, queue="c.two", durable=True, ack=INDIVIDUAL, credit_messages=1)
    world.publish("t", *bodies(3), durable=True, routing=MULTICAST)
    world.publish("q", *bodies(2))
    world.publish("q", *bodies(3), durable=True)
    world.settle_down()
    found = busied(world, "t", "q")
    assert found["t"] == {
        "waiting": 2, "delivering": 4, "scheduled": 0, "consumers": 2, "came": 6, "died": 0, "blocked": False,
    }  # fmt: skip
    assert (found["q"]["waiting"], found["q"]["came"], found["q"]["consumers"]) == (5, 5, 0)
    world.settle(2, ids(world.effects, 2)[0], outcome=Outcome.NACK)
    world.settle_down()
    assert busied(world, "t")["t"]["died"] == 1
    assert set(busied(world, "t")) == {"t"}, "and no other one is told"


@pytest.mark.parametrize(("policy", "blocked"), [("BLOCK", True), ("FAIL", False)])
def test_an_address_that_is_full_says_that_whoever_sends_to_it_waits(policy: str, blocked: bool):
    world = World(full_policy=policy, max_size_messages=2)
    world.publish("q", b"1")
    assert not busied(world, "q")["q"]["blocked"]
    world.publish("q", b"2")
    assert busied(world, "q")["q"]["blocked"] is blocked


def test_a_slot_of_many_addresses_is_looked_at_in_pieces():
    world = World()
    for n in range(5):
        world.publish(f"b{n}", b"1")
    slot = world.engine._slot
    size = sum(queue.nbytes for queue in slot.queues.values())
    assert size and list(busy(slot, ())) == [None] * 5 + [{"slot": slot.number, "bytes": size}]
