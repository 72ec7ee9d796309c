"""The coordinator's memory: committed is committed, everything else never will be."""

from __future__ import annotations

import pytest

from broker.core.commands import Inquire
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError
from broker.core.records import MetaRecord

from .world import World, done, refused


def inquire(world, tx="t", seq=1):
    return world.do(Inquire(7, 50, seq, tx))


def decide(world, tx="t", participants=(3, 4)):
    turn = world.turn()
    world.engine.decide(tx, list(participants), turn)
    return world.finish(turn)


def crash(world, snapshot):
    while world.log and world.log[-1][0] > world.committed:
        world.commit()
    if snapshot:
        world.log = [(0, r) for r in world.engine.snapshot()]
    world.restart(first_id=1 << 40)


def test_who_asks_while_it_is_being_decided_has_to_ask_again():
    world = World()
    world.engine.deciding("t")
    assert refused(inquire(world)) == [Code.OWNER_UNAVAILABLE]
    decide(world)
    inquire(world)
    assert done(world.effects) == [1]


def test_an_answer_says_only_what_is_durable():
    world = World(auto_commit=False)
    decide(world)
    assert inquire(world) == []
    assert done(world.commit()) == [1]
    assert inquire(world, "u", 2) == []
    assert refused(world.commit()) == [Code.NO_SUCH_TRANSACTION]


@pytest.mark.parametrize("snapshot", [True, False])
def test_what_was_asked_for_and_not_decided_never_will_be(snapshot):
    world = World()
    world.engine.deciding("t")
    world.engine.abandon("t")
    inquire(world)
    crash(world, snapshot)
    world.engine.deciding("t")
    before = len(world.log)
    with pytest.raises(RefusedError, match="rolled back"):
        decide(world)
    assert world.engine.undecided() == [] and len(world.log) == before
    inquire(world)
    assert refused(world.effects) == [Code.NO_SUCH_TRANSACTION]


@pytest.mark.parametrize("snapshot", [True, False])
def test_who_has_not_heard_is_told_again_by_the_next_leader(snapshot):
    world = World()
    decide(world)
    decide(world, "u", [9])
    crash(world, snapshot)
    assert world.engine.undecided() == [("t", [3, 4]), ("u", [9])]
    inquire(world)
    assert done(world.effects) == [1]
    turn = world.turn()
    world.engine.forget("t", turn)
    world.finish(turn)
    crash(world, snapshot)
    assert world.engine.undecided() == [("u", [9])]


def test_aborts_are_forgotten_after_an_hour():
    world = World()
    inquire(world, "old")
    world.now += 3_600_001
    inquire(world, "new")
    kept = [r.data["tx"] for r in world.engine.snapshot() if r.kind == "aborted"]
    assert kept == ["new"]
    turn = Turn(world.now, world.open)
    world.engine.forget("never", turn)
    assert turn.appends == []
    assert [r.data["tx"] for _, r in world.log if isinstance(r, MetaRecord)] == ["old", "new"]


def test_an_abort_binds_whoever_leads_next():
    world = World()
    world.engine.deciding("t")
    turn = world.turn()
    world.engine.abort("t", turn)
    world.finish(turn)
    crash(world, snapshot=False)
    with pytest.raises(RefusedError, match="rolled back"):
        world.engine.decide("t", [3], world.turn())


def test_so_many_aborts_are_remembered():
    world = World()
    for n in range(65_540):
        world.engine.abort(f"t{n}", world.turn())
    assert len(world.engine.snapshot()) == 65_536
