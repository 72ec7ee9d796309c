"""Replays: a number of a producer counts once, over fail-over too, and is answered like the first time."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish, Transact
from broker.core.errors import Code, RefusedError
from broker.core.records import GroupRecord, MetaRecord, RunRecord

from .world import ANYCAST, MULTICAST, UNSET, World, done, got, refused, run_of

EDGE = 77


def send(world, number, *bodies, seq=0, producer=EDGE, durable=True, address="q", routing=ANYCAST, create=True):
    run = run_of(*bodies, durable=durable)
    return world.do(Publish(7, 1, seq, address, routing, run, None, create, (producer, number)))


def drained(world):
    world.effects.clear()
    world.subscribe(99)
    world.settle_down()
    return got(world.effects)


@pytest.mark.parametrize("durable", [True, False])
def test_a_number_counts_once(durable):
    world = World()
    assert done(send(world, 3, b"a", seq=1, durable=durable) + world.effects).count(1) >= 1
    for number in (3, 2, 1):
        assert done(send(world, number, b"again", seq=number, durable=durable)) == [number]
    send(world, 4, b"b", durable=durable)
    send(world, 4, b"other edge", producer=EDGE + 1, durable=durable)
    assert drained(world) == [b"a", b"b", b"other edge"]


def test_a_duplicate_is_answered_when_the_original_is_durable_and_writes_nothing():
    world = World(auto_commit=False)
    send(world, 1, b"a", seq=1)
    assert done(world.effects) == []
    world.open += 1  # the original's commit is under way, and the replay comes in a later turn
    world.appended.clear()
    assert done(send(world, 1, b"a", seq=2)) == [] and world.appended == []
    turn = world.turn()
    world.engine.release(1, turn)
    assert done(turn.effects) == [1]
    turn = world.turn()
    world.engine.release(2, turn)
    assert done(turn.effects) == [2]


def test_numbers_survive_a_fail_over_with_their_runs():
    world = World()
    send(world, 5, b"a")
    world.subscribe(1)
    world.settle_down()
    world.commit()
    world.restart(first_id=1 << 40)
    assert done(send(world, 5, b"a", seq=9)) == [9]
    send(world, 6, b"b")
    assert drained(world) == [b"b"]


def test_snapshots_keep_those_who_may_still_replay():
    world = World()
    send(world, 5, b"a")
    send(world, 8, b"x", durable=False, producer=EDGE + 1)
    known = next(r.data for r in world.engine.snapshot() if r.kind == "producers")
    assert known["producers"] == [[EDGE, 5], [EDGE + 1, 8]]
    world.tick(3_600_001)
    send(world, 1, b"b", producer=5)
    known = next(r.data for r in world.engine.snapshot() if r.kind == "producers")
    assert known["producers"] == [[5, 1]]
    assert world.engine.duplicate((EDGE, 5)), "only snapshots forget"


def test_the_oldest_of_too_many_producers_is_forgotten():
    world = World(queue_memory_bytes=1 << 30)
    for producer in range(4096):
        send(world, 1, b"", producer=producer, durable=False)
    send(world, 2, b"", producer=0, durable=False)
    send(world, 1, b"", producer=5000, durable=False)
    assert world.engine.duplicate((0, 1)) and world.engine.duplicate((2, 1)) and not world.engine.duplicate((1, 1))


def test_what_goes_to_several_queues_in_turns_is_in_the_log_as_one():
    """Else a crash between the parts would make the replay of the whole look like a duplicate."""
    world = World()
    world.publish("q", b"0", queue="q::a", durable=True)
    world.publish("q", b"0", queue="q::b", durable=True)
    world.appended.clear()
    send(world, 1, b"1", b"2", b"3")
    (group,) = world.appended
    assert isinstance(group, GroupRecord)
    assert [type(r) for r in group.records] == [RunRecord, RunRecord]


def test_a_refusal_is_repeated_even_after_later_numbers_were_taken():
    world = World()
    send(world, 1, b"t", address="t", routing=MULTICAST)
    world.subscribe(5, "t", routing=MULTICAST, queue="c.s", durable=True)
    assert refused(send(world, 2, b"x", address="t", routing=ANYCAST, create=False)) == [Code.ROUTING_MISMATCH]
    send(world, 3, b"y")
    assert refused(send(world, 2, b"x", seq=4, address="t", create=False)) == [Code.ROUTING_MISMATCH]
    for snapshot in (False, True):
        if snapshot:
            world.log = [(0, r) for r in world.engine.snapshot()] + [
                (n, r) for n, r in world.log if not isinstance(r, MetaRecord)
            ]
        world.restart(first_id=1 << 40)
        assert refused(send(world, 2, b"x", seq=4)) == [Code.ROUTING_MISMATCH]
        assert done(send(world, 3, b"y", seq=5)) == [5]
    assert drained(world) == [b"y"]


def test_a_refused_number_with_nothing_behind_it_may_be_tried_again():
    world = World()
    assert refused(send(world, 2, b"x", create=False)) == [Code.NOT_ALLOWED]
    send(world, 2, b"x")
    send(world, 3, b"y")
    assert done(send(world, 2, b"x", seq=8)) == [8]
    assert drained(world) == [b"x", b"y"]


def test_transactions_are_counted_by_the_owner():
    world = World()
    turn = world.turn()
    world.engine.remember((EDGE, 4), turn)
    world.finish(turn)
    assert world.engine.producers() == {EDGE: 4}
    turn = world.turn()
    world.engine.refuse(Transact(7, 1, 6, [], (EDGE, 5)), RefusedError(Code.DISK_FULL, "later"), turn)
    world.engine.remember((EDGE, 6), turn)
    world.finish(turn)
    world.commit()
    world.restart(first_id=1 << 40)
    turn = world.turn()
    for number in (4, 5, 6):
        assert world.engine.duplicate((EDGE, number))
        world.engine.again(Transact(7, 1, number, [], (EDGE, number)), turn)
    assert not world.engine.duplicate((EDGE, 7))
    assert refused(turn.effects) == [Code.DISK_FULL]
    world.finish(turn)
    assert done(world.effects) == [4, 6]


def test_an_owner_that_takes_nothing_more_does_not_refuse_what_was_taken():
    world = World()
    send(world, 1, b"a")
    turn = world.turn()
    replay = Publish(7, 1, 4, "q", ANYCAST, run_of(b"a", durable=True), dedup=(EDGE, 1))
    world.engine.refuse(replay, RefusedError(Code.DISK_FULL, "later"), turn)
    assert done(turn.effects) == [4] and refused(turn.effects) == []


def test_what_the_journal_found_of_settled_runs_counts_too():
    world = World()
    world.engine.restore_producers({EDGE: 9})
    world.engine.restore_dedup(EDGE, 7)
    assert world.engine.producers() == {EDGE: 9}
    assert done(send(world, 9, b"a", seq=3, routing=UNSET)) == [3] and drained(world) == []
