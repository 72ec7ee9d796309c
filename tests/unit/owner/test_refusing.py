"""An owner whose engine throws: who asked for that is told so, and nobody else is."""

from __future__ import annotations

import logging

from broker.core.address import Routing
from broker.core.commands import Barrier, Disconnect, Publish
from broker.core.effects import Refused
from broker.core.errors import Code
from broker.engine.engine import Engine
from tests.unit.engine.world import run_of
from tests.unit.owner.test_node import SLOT, World


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
