"""What was on its way to the log is told when it is durable, in the order of its turns, and not before."""

from __future__ import annotations

from broker.core.commands import Publish
from broker.core.effects import Done, Turn
from broker.core.records import RunRecord, SettleRecord

from .world import ANYCAST, MULTICAST, World, done, got, run_of


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


def test_after_waits_only_when_there_is_something_to_wait_for():
    world = World(auto_commit=False)
    turn = world.turn()
    world.engine.after(Done(1, 1), turn)
    assert done(turn.effects) == [1]
    world.engine.handle(Publish(7, 1, 0, "q", ANYCAST, run_of(b"a", durable=True)), turn)
    world.engine.after(Done(1, 2), turn)
    assert done(world.finish(turn)) == [1]
    assert done(world.commit()) == [2]
