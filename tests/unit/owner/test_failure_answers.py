"""An owner whose engine throws: who asked for that is told so, and nobody else is."""

from __future__ import annotations

import logging

from broker.core.commands import Barrier, Disconnect, Publish
from broker.core.effects import Refused
from broker.core.errors import Code
from tests.unit.owner.lifecycle_world import SLOT, World

from .test_fault_attribution import publish, throw_at


def refusals(world):
    return [(e.session, e.seq, e.code) for e in world.effects if type(e) is Refused]


def test_the_command_that_stopped_it_is_refused_and_what_came_with_it_is_asked_elsewhere(monkeypatch, caplog):
    world = World().leading()
    throw_at(monkeypatch, Publish)
    with caplog.at_level(logging.CRITICAL):
        world.shard.submit([publish(1, "q"), publish(2, "poison"), publish(3, "q")])
        world.run()
    assert "KeyError" in world.shard.stopped
    assert world.shard.slot_at_fault == SLOT
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
