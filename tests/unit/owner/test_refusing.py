"""An owner whose engine throws: who asked for that is told so, and nobody else is."""

from __future__ import annotations

import logging

import pytest

from broker.core.address import Routing
from broker.core.commands import Barrier, Disconnect, Publish
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.engine.engine import Engine
from broker.owner.shard.fault_attribution import NOBODY, culprit
from tests.unit.engine.world import run_of
from tests.unit.owner.node_world import SLOT, World


def throw_at(monkeypatch, kind):
    """Commands of that kind for "poison", or of session 66, make the engine throw."""
    handle = Engine.handle

    def poisoned(self, command, turn):
        if type(command) is kind and (getattr(command, "address", "") == "poison" or command.session == 66):
            raise KeyError("planted")
        return handle(self, command, turn)

    monkeypatch.setattr(Engine, "handle", poisoned)


def refusals(world):
    return [(e.session, e.seq, e.code) for e in world.effects if type(e) is Refused]


def publish(seq, address):
    return Publish(SLOT, 5, seq, address, Routing.ANYCAST, run_of(b"x", durable=True))


def test_the_command_that_stopped_it_is_refused_and_what_came_with_it_is_asked_elsewhere(monkeypatch, caplog):
    world = World().leading()
    throw_at(monkeypatch, Publish)
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([publish(1, "q"), publish(2, "poison"), publish(3, "q")])
        world.run()
    assert "KeyError" in world.shard.stopped
    assert world.shard.culprit == SLOT
    assert refusals(world) == [(5, 2, Code.INTERNAL)]
    world.shard.submit([publish(4, "q")])
    world.run()
    assert refusals(world) == [(5, 2, Code.INTERNAL)], "the next leader is asked, nobody notices"


def test_the_end_of_a_session_is_answered_by_the_barrier_behind_it(monkeypatch, caplog):
    world = World().leading()
    throw_at(monkeypatch, Disconnect)
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([Disconnect(SLOT, 66), Barrier(SLOT, 66, 7), Barrier(SLOT, 5, 8)])
        world.run()
    assert refusals(world) == [(66, 7, Code.INTERNAL)]


@pytest.mark.parametrize("where", ["flush", "release", "next_due", "restore_end"])
def test_the_slot_to_blame_is_named_wherever_its_engine_throws(monkeypatch, caplog, where):
    world = World()
    if where != "restore_end":
        world.leading()

    def poisoned(self, *_):
        raise KeyError("planted")

    monkeypatch.setattr(Engine, where, poisoned)
    with caplog.at_level(logging.CRITICAL):
        if where == "restore_end":
            world.leading()
        else:
            world.shard.submit([publish(1, "q")])
        world.wait(1)
    assert (world.shard.culprit, "KeyError" in world.shard.stopped) == (SLOT, True)


def test_the_slot_to_blame_is_named_where_its_record_cannot_be_written(monkeypatch, caplog):
    world = World().leading()

    def poisoned(record):
        raise OverflowError("planted")

    monkeypatch.setattr(world.journal, "append", poisoned)
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([publish(1, "q")])
        world.wait(1)
    assert world.shard.culprit == SLOT and world.shard.stopped


def test_what_no_engine_has_thrown_is_no_slots_fault():
    with pytest.raises(KeyError) as caught:
        {}["no engine"]
    assert culprit(caught.value) == NOBODY
    world = World().leading()
    world.shard.fail("journal: gone")
    assert world.shard.culprit == NOBODY
