"""An engine says what it is at, and what it has thrown, whichever way it is called."""

from __future__ import annotations

import inspect

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.errors import Code, RefusedError
from broker.engine.at_work import stated, stated_pieces
from broker.engine.engine import Engine
from tests.unit.engine.world import run_of

IN_LINE = {"handle", "flush", "release"}
"""Each message goes through them: a call more would cost it a call each."""
LOOKS = {
    "attached", "counters", "depths", "duplicate", "producers", "queues", "restore_dedup", "small_state",
    "subscriptions", "undecided",
}  # fmt: skip
"""Look only, or do one store: nothing of a client's makes them throw or last."""


class Stub:
    at_work = None
    fault = None

    def __init__(self):
        self.seen = []

    @stated
    def outer(self, error=None):
        self.seen.append(self.at_work)
        self.inner()
        self.seen.append(self.at_work)
        if error is not None:
            raise error

    @stated
    def inner(self):
        self.seen.append(self.at_work)

    @stated_pieces
    def pieces(self, error=None):
        for _ in range(2):
            self.seen.append(self.at_work)
            yield
        if error is not None:
            raise error


def test_every_call_that_does_something_says_so():
    calls = {name for name, call in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")}
    says = {name for name in calls if hasattr(getattr(Engine, name), "__wrapped__")}
    assert calls - says == IN_LINE | LOOKS


def test_it_is_at_the_inner_call_then_at_the_outer_one_then_at_none():
    stub = Stub()
    stub.outer()
    outer, inner, again = stub.seen
    assert (outer[0], inner[0], again is outer, stub.at_work) == ("outer", "inner", True, None)


def test_two_calls_are_two_works():
    stub = Stub()
    stub.inner()
    stub.inner()
    assert stub.seen[0] is not stub.seen[1]


def test_between_two_pieces_it_is_at_nothing():
    stub, between = Stub(), []
    for _ in stub.pieces():
        between.append(stub.at_work)
    assert between == [None, None] and [work[0] for work in stub.seen] == ["pieces", "pieces"]
    with pytest.raises(KeyError) as thrown:
        list(stub.pieces(KeyError("planted")))
    assert stub.fault is thrown.value and stub.at_work is None


def test_a_refusal_is_no_fault():
    stub = Stub()
    with pytest.raises(RefusedError):
        stub.outer(RefusedError(Code.DISK_FULL, "so"))
    assert stub.fault is None and stub.at_work is None
    with pytest.raises(KeyError) as thrown:
        stub.outer(KeyError("planted"))
    assert stub.fault is thrown.value and stub.at_work is None


@pytest.mark.parametrize("call", sorted(IN_LINE))
def test_the_three_in_line_say_it_as_well(monkeypatch, call):
    engine, seen = Engine(3, EngineSettings()), []
    command = Publish(3, 5, 1, "q", Routing.ANYCAST, run_of(b"x", durable=True))
    publish = engine._handlers[Publish]

    def planted(*given):
        seen.append(engine.at_work)
        raise KeyError(call)

    where = {"flush": "broker.engine.engine.hand_out", "release": "broker.engine.state.commit_release.release"}
    turn = Turn(1, 1)
    if call == "handle":
        engine._handlers[Publish] = planted
    else:
        publish(command, turn)
        engine._slot.touched.update(dict.fromkeys(engine.queues()))
        monkeypatch.setattr(where[call], planted)
    given = {"handle": (command, turn), "flush": (turn,), "release": (1, turn)}[call]
    with pytest.raises(KeyError) as thrown:
        getattr(engine, call)(*given)
    assert engine.fault is thrown.value and engine.at_work is None
    assert seen == [given[-1] if call != "handle" else command]
