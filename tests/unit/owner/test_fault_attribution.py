"""Which engine has thrown, and what it was at."""

from __future__ import annotations

import gc
import logging

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Publish, Settle, Subscribe, Transact
from broker.core.effects import Deliver, Refused, Turn
from broker.core.errors import Code, NewerRelease
from broker.core.records import GroupRecord, MetaRecord
from broker.engine.at_work import stated
from broker.engine.engine import Engine
from broker.engine.queue.large_returns import LIGHT
from broker.engine.routing import returns
from broker.owner.commit.group_commit import Unwritable
from broker.owner.shard.fault_attribution import NOBODY, at_fault
from broker.owner.transactions.large_commits import LargeCommit
from tests.unit.engine.world import run_of
from tests.unit.owner.lifecycle_world import SLOT, World


def throw_at(monkeypatch, kind):
    """Commands of that kind for "poison", or of session 66, make the engine throw."""
    handle = Engine.handle

    def poisoned(self, command, turn):
        if type(command) is kind and (getattr(command, "address", "") == "poison" or command.session == 66):
            raise KeyError("planted")
        return handle(self, command, turn)

    monkeypatch.setattr(Engine, "handle", stated(poisoned))


def publish(seq, address, many=1):
    return Publish(SLOT, 5, seq, address, Routing.ANYCAST, run_of(*[b"x"] * many, durable=True))


@pytest.mark.parametrize("error", [KeyError("planted"), StopIteration("planted")])
def test_the_slot_to_blame_is_named_in_a_commit(monkeypatch, caplog, error):
    """A StopIteration that leaves the generator of a COMMIT is a RuntimeError by then."""
    world = World()
    world.leading()

    def poisoned(self, command, turn):
        raise error

    monkeypatch.setattr(Engine, "handle", stated(poisoned))
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([Transact(SLOT, 5, 1, [publish(0, "q")])])
        world.wait(1)
    assert world.shard.stopped and world.shard.slot_at_fault == SLOT


@pytest.mark.parametrize("where", ["flush", "release", "restore_ending"])
def test_the_slot_to_blame_is_named_wherever_its_engine_throws(monkeypatch, caplog, where):
    world = World()
    if where != "restore_ending":
        world.leading()

    def poisoned(self, *_):
        raise KeyError("planted")

    monkeypatch.setattr(Engine, where, stated(poisoned))
    with caplog.at_level(logging.CRITICAL):
        if where == "restore_ending":
            world.leading()
        else:
            world.shard.submit([publish(1, "q")])
        world.wait(1)
    assert (world.shard.slot_at_fault, "KeyError" in world.shard.stopped) == (SLOT, True)


def test_the_slot_to_blame_is_named_where_its_record_cannot_be_written(monkeypatch, caplog):
    world = World().leading()

    def poisoned(record):
        raise OverflowError("planted")

    monkeypatch.setattr(world.journal, "append", poisoned)
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([publish(1, "q")])
        world.wait(1)
    assert world.shard.slot_at_fault == SLOT and world.shard.stopped == "internal error: OverflowError"


def test_what_no_engine_has_thrown_is_no_slots_fault():
    with pytest.raises(KeyError) as caught:
        {}["no engine"]
    world = World().leading()
    assert at_fault(caught.value, world.shard.every_engine())[0] == NOBODY
    world.shard.fail("journal: gone")
    assert world.shard.slot_at_fault == NOBODY


def test_the_slot_of_a_standby_is_named_as_well(caplog):
    """It is led nowhere here: its owner stops all the same, and the controller counts that."""
    world = World().leading()
    engine = world.shard.new_engine(9)
    with pytest.raises(NewerRelease) as thrown:
        engine.restore_meta(MetaRecord(9, "news", {}))
    with caplog.at_level(logging.CRITICAL):
        world.shard.thrown(thrown.value)
    assert world.shard.slot_at_fault == 9


def test_an_engine_that_nobody_has_is_not_kept_for_this():
    world = World().leading()
    kept, engine = world.shard.new_engine(9), world.shard.new_engine(10)
    assert {each.number for each in world.shard.every_engine()} == {SLOT, 9, 10}
    del engine
    gc.collect()
    assert {each.number for each in world.shard.every_engine()} == {SLOT, kept.number}


@pytest.mark.parametrize("many", [1, 1000])
def test_a_record_of_a_large_commit_that_cannot_be_written_is_of_its_slot(many):
    class Log:
        def append(self, record):
            raise OverflowError("planted")

        def append_in_pieces(self, record):
            yield
            raise OverflowError("planted")

    turn = Turn(1, 1)
    turn.appends.append(GroupRecord(12, [MetaRecord(12, "ids", {"next": 1})] * many))
    commit = LargeCommit(Log(), None, iter(()), turn, {}, [])
    with pytest.raises(Unwritable) as thrown:
        while commit.go_on():
            pass
    assert at_fault(thrown.value, ())[0] == 12 and isinstance(thrown.value.__cause__, OverflowError)


@pytest.mark.parametrize("throws", ["give_back", "acked"])
def test_a_command_of_which_a_piece_throws_turns_later_is_told_so(monkeypatch, caplog, throws):
    """Nobody was: its edge asked the next leader the same, and stopped that as well."""
    world = World().leading()
    many = 2 * LIGHT + 1
    world.shard.submit([publish(0, "q", many), Subscribe(SLOT, 5, 0, 1, "q", Routing.ANYCAST, AckMode.CLIENT)])
    world.wait(1)
    assert sum(len(e.run.ids) for e in world.effects if isinstance(e, Deliver)) == many
    pieces = []
    real = getattr(returns, throws)

    def poisoned(*given):
        pieces.append(given)
        if len(pieces) > 1:
            raise KeyError("planted")
        return real(*given)

    monkeypatch.setattr(returns, throws, poisoned)
    outcome = Outcome.NACK if throws == "give_back" else Outcome.ACK
    named = world.shard.engines[SLOT].held(1, [])[-1]
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([Settle(SLOT, 5, 8, 1, [named], outcome)])
        world.wait(1)
    told = [(e.session, e.seq, e.code) for e in world.effects if isinstance(e, Refused)]
    assert (world.shard.slot_at_fault, told) == (SLOT, [(5, 8, Code.INTERNAL)]) and len(pieces) == 2
