"""The way into a slot: each command has its handler, a refusal is an effect, a fault is the owner's affair."""

from __future__ import annotations

from contextlib import nullcontext
from typing import get_args

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Command, DisconnectAll, Publish, Settle, Subscribe, Transact, UnsubscribeAll
from broker.core.effects import Deliver, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import NO_IDS, Run
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget

from .world import World, ids


def publish(body, atomic=False):
    command = Publish(0, 1, 0, "a", Routing.ANYCAST, Run(NO_IDS, b"", [b"\n" + body + b"\0"], len(body) + 2))
    command.atomic = atomic
    return command


def delivered(turn):
    return [record for effect in turn.effects if isinstance(effect, Deliver) for record in effect.run.records]


def test_an_atomic_message_and_what_comes_behind_it_wait_for_the_commit():
    """A crash could undo the acknowledgements whose results consumers have already got."""
    engine, first = Engine(0, EngineSettings()), Turn(1, 1)
    engine.handle(Subscribe(0, 2, 0, 7, "a", Routing.ANYCAST, AckMode.AUTO), first)
    engine.handle(publish(b"1"), first)
    engine.handle(publish(b"2", atomic=True), first)
    engine.handle(publish(b"3"), first)
    engine.flush(first)
    assert delivered(first) == [b"\n1\0"] and engine.pending
    second = Turn(2, 2)
    engine.release(1, second)
    engine.flush(second)
    assert delivered(second) == [b"\n2\0", b"\n3\0"] and not engine.pending


def test_a_refusal_is_an_effect_and_a_fault_is_not():
    """What an engine throws otherwise is a defect: the owner stops rather than go on with it."""
    engine, turn = Engine(0, EngineSettings()), Turn(1, 1)
    for error in (RefusedError(Code.NOT_ALLOWED, "no"), ValueError("what is this?")):

        def handler(command, turn, error=error):
            raise error

        engine._handlers[Publish] = handler
        with pytest.raises(ValueError, match="what is") if isinstance(error, ValueError) else nullcontext():
            engine.handle(publish(b"x"), turn)
    (refused,) = turn.effects
    assert (refused.session, refused.seq, refused.code, refused.detail) == (1, 0, Code.NOT_ALLOWED, "no")


def test_every_command_of_a_slot_has_a_handler():
    """Transactions are the owner's, for they may touch several slots; so is what goes to all of them."""
    known = set(Engine(0, EngineSettings())._handlers)
    assert set(get_args(Command)) - known == {Transact, UnsubscribeAll, DisconnectAll}


def test_messages_count_as_fresh_in_the_turn_in_which_they_can_go_out():
    engine, first = Engine(0, EngineSettings()), Turn(1, 1)
    engine.handle(publish(b"1"), first)
    engine.handle(publish(b"2"), first)
    engine.flush(first)
    assert engine.shown.fresh == 2
    engine.flush(Turn(2, 2))
    assert engine.shown.fresh == 0


def test_what_a_consumer_holds_is_known_with_what_is_on_its_way():
    world = World()
    world.publish("q", b"1", b"2", b"3")
    world.subscribe(1, ack=AckMode.INDIVIDUAL)
    held = ids(world.effects)
    assert world.engine.held(1, []) == held
    assert world.engine.held(1, [Settle(7, 1, 0, 1, held[:2]), Settle(7, 1, 0, 9, held[2:])]) == held[2:]
    assert world.engine.held(9, []) == []


def test_an_engine_that_is_not_used_any_more_counts_for_nothing():
    budget = Budget(100)
    engine = Engine(0, EngineSettings(), budget)
    engine.handle(publish(b"1"), Turn(1, 1))
    assert budget.memory.queues > 0 or engine.queues()
    engine.discard()
    assert budget.memory.queues == 0 and not engine.queues()
