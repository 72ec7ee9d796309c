"""Routing, creation on demand, persist-then-tell, numbering."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Done, Turn
from broker.core.errors import Code, RefusedError
from broker.core.records import MetaRecord, RunRecord, SettleRecord

from .world import ANYCAST, AUTO, MULTICAST, UNSET, World, done, got, ids, refused, run_of


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


def test_durable_messages_and_their_answer_wait_for_the_log():
    world = World(auto_commit=False)
    world.subscribe(1)
    world.commit()
    assert world.publish("q", b"a", durable=True, seq=5) == []
    effects = world.commit()
    assert got(effects) == [b"a"] and done(effects) == [5]
    assert [type(r) for _, r in world.log][-2:] == [RunRecord, SettleRecord]


def test_a_non_durable_message_waits_behind_a_durable_one_of_its_queue():
    world = World(auto_commit=False)
    world.subscribe(1)
    world.commit()
    world.publish("q", b"a", durable=True)
    assert got(world.publish("q", b"b")) == []
    assert got(world.publish("other", b"x")) == []
    assert got(world.commit()) == [b"a", b"b"]
    assert got(world.publish("q", b"c")) == [b"c"]


def test_release_tells_no_more_than_its_number():
    world = World(auto_commit=False)
    world.subscribe(1)
    world.commit()
    world.publish("q", b"a", durable=True)
    first = world.open
    world.open += 1
    world.publish("q", b"b", durable=True)
    turn = Turn(world.now, world.open + 1)
    world.engine.release(first, turn)
    world.engine.flush(turn)
    assert got(turn.effects) == [b"a"]


def test_a_temporary_subscription_gets_durable_messages_when_they_are_durable():
    world = World(auto_commit=False)
    world.subscribe(1, "t", routing=MULTICAST)
    world.subscribe(2, "t", routing=MULTICAST, queue="c.s", durable=True)
    world.commit()
    assert got(world.publish("t", b"a", routing=MULTICAST, durable=True)) == []
    effects = world.commit()
    assert got(effects, 1) == got(effects, 2) == [b"a"]
    record = next(r for _, r in world.log if isinstance(r, RunRecord))
    assert list(record.queues) == [world.engine._slot.subscriptions["c.s"].id]


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


def test_ids_are_never_given_twice_whatever_was_lost():
    world = World()
    world.publish("q", b"a", durable=True)
    world.publish("q", *[b"x"] * 50)
    world.subscribe(1)
    before = max(ids(world.effects))
    world.restart()
    world.effects.clear()
    world.subscribe(2)
    world.effects.clear()
    world.publish("q", b"new")
    assert min(ids(world.effects)) > before


def test_after_waits_only_when_there_is_something_to_wait_for():
    world = World(auto_commit=False)
    turn = world.turn()
    world.engine.after(Done(1, 1), turn)
    assert done(turn.effects) == [1]
    world.engine.handle(Publish(7, 1, 0, "q", ANYCAST, run_of(b"a", durable=True)), turn)
    world.engine.after(Done(1, 2), turn)
    assert done(world.finish(turn)) == [1]
    assert done(world.commit()) == [2]


def test_the_cost_of_a_delivery_counts_the_edges_overhead():
    world = World()
    world.subscribe(1, overhead=10)
    (deliver,) = [e for e in world.publish("q", b"abc", b"de", lines=b"h:v\n\n") if isinstance(e, Deliver)]
    assert deliver.cost == 5 + 2 * 5 + 2 * 10


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


def test_a_crowded_queue_hands_out_nothing_while_its_slot_may_not():
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
