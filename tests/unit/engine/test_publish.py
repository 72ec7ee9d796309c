"""Routing, creation on demand, persist-then-tell, numbering."""

from __future__ import annotations

from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Turn
from broker.core.records import MetaRecord

from .world import ANYCAST, AUTO, MULTICAST, World, done, got, run_of


def kinds(world: World) -> list[str]:
    return [r.kind if isinstance(r, MetaRecord) else type(r).__name__ for _, r in world.log]


def test_a_plain_message_reaches_its_consumer_in_the_same_turn_and_nothing_is_logged_for_it():
    world = World()
    world.subscribe(1)
    logged = len(world.log)
    effects = world.publish("q", b"a", b"b", seq=9)
    assert got(effects, 1) == [b"a", b"b"] and done(effects) == [9]
    assert len(world.log) == logged
    assert effects[1].run.time == world.now


def test_a_run_goes_out_whole_and_shared_by_all_subscribers_of_a_topic():
    world = World()
    for consumer in range(1, 11):
        world.subscribe(consumer, "t", routing=MULTICAST)
    effects = world.publish("t", b"a", b"b", routing=MULTICAST)
    runs = [effect.run for effect in effects]
    assert len(runs) == 10 and all(run is runs[0] for run in runs)


def test_settings_by_pattern_the_specific_ones_win():
    world = World(
        addresses={"a.#": {"auto_create": False}, "a.*": {"dead_letter_address": "D"}, "a.b": {"auto_create": True}}
    )
    match = world.engine._slot.match
    assert match("a.b").auto_create and match("a.b").dead_letter_address == "D"
    assert not match("a.c").auto_create and match("a.c").dead_letter_address == "D"
    assert not match("a.c.d").auto_create and match("a.c.d").dead_letter_address == "DLQ"
    assert not match("a").auto_create and match("ab").auto_create


def test_several_publishes_of_one_turn_keep_their_order():
    world = World()
    world.subscribe(1)
    bodies = [b"%d" % n for n in range(20)]
    effects = world.do(*(Publish(7, 1, 0, "q", ANYCAST, run_of(b, durable=n % 3 == 0)) for n, b in enumerate(bodies)))
    assert got(effects) == [] or got(effects) == bodies[: len(got(effects))]
    assert got(world.effects) == bodies


def test_the_cost_of_a_delivery_counts_the_edges_overhead():
    world = World()
    world.subscribe(1, overhead=10)
    (deliver,) = [e for e in world.publish("q", b"abc", b"de", lines=b"h:v\n\n") if isinstance(e, Deliver)]
    assert deliver.cost == 5 + 2 * 5 + 2 * 10


def test_a_queue_without_room_hands_out_nothing_while_its_slot_may_not():
    """A leader that stood still takes a batch that was waiting for it: the next leader may have handed these out."""
    world = World(queue_memory_bytes=10)
    world.auto_commit = False
    turn = Turn(world.now, world.open, lambda slot: False)
    world.engine.handle(Publish(7, 1, 0, "q", ANYCAST, run_of(b"1" * 8)), turn)
    world.engine.handle(Subscribe(7, 1, 0, 1, "q", ANYCAST, AUTO), turn)
    world.engine.handle(Publish(7, 1, 0, "q", ANYCAST, run_of(b"2" * 8)), turn)
    assert got(turn.effects) == []
    world.finish(turn)
    world.settle_down()
    assert got(world.effects) == [b"1" * 8, b"2" * 8]
