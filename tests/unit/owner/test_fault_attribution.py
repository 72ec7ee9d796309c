"""Which engine has thrown, and what it was at."""

from __future__ import annotations

import logging

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.engine.engine import Engine
from broker.owner.shard.fault_attribution import NOBODY, slot_at_fault
from tests.unit.engine.world import run_of
from tests.unit.owner.lifecycle_world import SLOT, World


def throw_at(monkeypatch, kind):
    """Commands of that kind for "poison", or of session 66, make the engine throw."""
    handle = Engine.handle

    def poisoned(self, command, turn):
        if type(command) is kind and (getattr(command, "address", "") == "poison" or command.session == 66):
            raise KeyError("planted")
        return handle(self, command, turn)

    monkeypatch.setattr(Engine, "handle", poisoned)


def publish(seq, address):
    return Publish(SLOT, 5, seq, address, Routing.ANYCAST, run_of(b"x", durable=True))


@pytest.mark.parametrize("where", ["flush", "release", "restore_ending"])
def test_the_slot_to_blame_is_named_wherever_its_engine_throws(monkeypatch, caplog, where):
    world = World()
    if where != "restore_ending":
        world.leading()

    def poisoned(self, *_):
        raise KeyError("planted")

    monkeypatch.setattr(Engine, where, poisoned)
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
    assert world.shard.slot_at_fault == SLOT and world.shard.stopped


def test_what_no_engine_has_thrown_is_no_slots_fault():
    with pytest.raises(KeyError) as caught:
        {}["no engine"]
    assert slot_at_fault(caught.value) == NOBODY
    world = World().leading()
    world.shard.fail("journal: gone")
    assert world.shard.slot_at_fault == NOBODY
