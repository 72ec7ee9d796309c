"""SEND, delivery and ACK between an edge and its owners: noted where a trace is wanted, and passed on unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Command, Publish, Settle, Transact
from broker.core.effects import Deliver, Done, Effect, Refused
from broker.core.errors import Code
from broker.core.message import NO_IDS, REDELIVERED, TRACED, Run
from broker.core.traceparent import Context, header
from broker.tracing import port as ports
from broker.tracing.port import TracedPort
from broker.tracing.span_notes import Notes, SpanNote

A, B = Context("a" * 32, "1" * 16), Context("b" * 32, "2" * 16)
LINE_A, LINE_B = header(*A), header(*B)


class Owner:
    shares_wildcards = True
    at_once = None

    def __init__(self) -> None:
        self.came: list[Command] = []
        self.listener: Any = None
        self.passed: list[Any] = []

    def attach(self, listener: Any) -> None:
        self.listener = listener

    def submit(self, commands: list[Command]) -> bool:
        self.came += commands
        return len(self.came) > 1

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.passed.append((name, *args))


class Edge:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.told: list[Any] = []

    def on_effects(self, effects: list[Effect]) -> None:
        self.effects += effects

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.told.append((name, *args))


class World:
    def __init__(self, per_s: int = 1000) -> None:
        self.now = 5.0
        self.notes = Notes(per_s, lambda: self.now, lambda: self.now)
        self.owner, self.edge = Owner(), Edge()
        self.port = TracedPort(self.owner, self.notes)
        self.port.attach(self.edge)
        self.modes = {1: AckMode.INDIVIDUAL, 2: AckMode.CLIENT, 3: AckMode.AUTO}
        self.port.modes(lambda consumer: (mode, "orders") if (mode := self.modes.get(consumer)) is not None else None)

    def said(self) -> list[tuple[str, list[Context]]]:
        return [(note.operation, note.contexts) for note in self.notes.drain()]

    def deliver(self, consumer: int, first: int, *lines: bytes, flags: int = TRACED) -> None:
        records = [line + b"\nx\0" for line in lines]
        run = Run(range(first, first + len(records)), b"", records, 9, flags, time=4000)
        self.owner.listener.on_effects([Deliver(consumer, run, 9)])


def publish(*lines: bytes, seq: int = 0, flags: int = TRACED) -> Publish:
    run = Run(NO_IDS, b"", [line + b"\nx\0" for line in lines], 9, flags)
    return Publish(7, 3, seq, "orders", Routing.ANYCAST, run)


def test_commands_and_effects_pass_as_they_are():
    world = World()
    commands: list[Command] = [publish(LINE_A), Settle(7, 3, 0, 1, [1])]
    assert world.port.submit(commands) is True and world.owner.came == commands and world.port.shares_wildcards
    effects: list[Effect] = [Done(3, 1), Refused(3, 2, Code.DISK_FULL)]
    world.owner.listener.on_effects(effects)
    assert world.edge.effects == effects
    world.owner.listener.on_relief([1])
    world.owner.listener.on_stopped("why")
    assert world.edge.told == [("on_relief", [1]), ("on_stopped", "why")]
    world.port.write_body(1, print)
    world.port.read_body(1, None, 2, 3)  # type: ignore[arg-type]
    world.port.arrived(2, 3)
    world.port.held(1, 2)
    assert [call[0] for call in world.owner.passed] == ["write_body", "read_body", "arrived", "held"]


def test_a_send_ends_with_its_answer():
    world = World()
    world.port.submit([publish(LINE_A, seq=9), publish(LINE_B)])
    assert world.said() == [("send", [B])], "nobody is to hear of that one"
    world.now = 6.5
    world.owner.listener.on_effects([Done(3, 9)])
    (note,) = world.notes.drain()
    assert (note.began, note.ended, note.error, note.slot, note.address) == (5.0, 6.5, "", 7, "orders")
    world.port.submit([publish(LINE_A, seq=10)])
    world.owner.listener.on_effects([Refused(3, 10, Code.DISK_FULL)])
    assert [note.error for note in world.notes.drain()] == ["DISK_FULL"]


def test_what_is_not_wanted_is_not_looked_at_again():
    world = World()
    commands = [publish(LINE_A.replace(b"-01\n", b"-00\n")), publish(b"n:1\n", flags=0)]
    world.port.submit(list(commands))
    assert [command.run.flags & TRACED for command in commands] == [0, 0] and world.said() == []


def test_more_than_a_second_may_have_are_not_traced():
    world = World(per_s=2)
    commands = [publish(LINE_A), publish(LINE_A, LINE_B), publish(LINE_B)]
    world.port.submit(list(commands))
    assert world.said() == [("send", [A]), ("send", [A])]
    assert [bool(command.run.flags & TRACED) for command in commands] == [True, True, False]


def test_parts_of_a_commit_end_with_it():
    world = World()
    world.deliver(1, 4, LINE_B)
    world.notes.drain()
    world.port.submit([Transact(7, 3, 8, [publish(LINE_A), publish(b"", flags=0), Settle(7, 3, 0, 1, [4])])])
    assert world.said() == []
    world.owner.listener.on_effects([Done(3, 8)])
    assert world.said() == [("send", [A]), ("ack", [B])]


def test_a_delivery_says_how_long_it_waited():
    world = World()
    world.deliver(1, 4, LINE_A, b"n:1\n", LINE_B, flags=TRACED | REDELIVERED)
    (note,) = world.notes.drain()
    assert note == SpanNote("deliver", "orders", -1, 5.0, 5.0, [A, B], 4, 0, 1000, True)
    world.deliver(9, 4, LINE_A)
    world.deliver(1, 4, LINE_A, flags=0)
    assert world.said() == [], "a consumer that is gone; nothing that is wanted"


@pytest.mark.parametrize(
    ("outcome", "operation"), [(Outcome.ACK, "ack"), (Outcome.NACK, "nack"), (Outcome.REJECT, "reject")]
)
def test_each_settles_its_own(outcome: Outcome, operation: str):
    world = World()
    world.deliver(1, 4, LINE_A, LINE_B)
    world.notes.drain()
    world.now = 5.25
    world.port.submit([Settle(7, 3, 0, 1, [1, 5], outcome)])
    (note,) = world.notes.drain()
    assert (note.operation, note.contexts, note.id, note.waited) == (operation, [B], 5, 250)
    world.port.submit([Settle(7, 3, 0, 1, [5], outcome), Settle(7, 3, 0, 1, [4], Outcome.UNREADABLE)])
    assert world.said() == [] and world.port._holding == 0 and not world.port._held


def test_a_cumulative_ack_settles_earlier_ones():
    world = World()
    world.deliver(2, 4, LINE_A, LINE_B, LINE_A)
    world.notes.drain()
    world.port.submit([Settle(7, 3, 0, 2, [5])])
    assert world.said() == [("ack", [A, B])] and world.port._holding == 1


def test_auto_has_nothing_to_settle():
    world = World()
    world.deliver(3, 4, LINE_A)
    assert world.said() == [("deliver", [A])] and not world.port._held


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ports, "MOST", 3)
    world = World()
    for consumer in (1, 2, 1):
        world.deliver(consumer, 10 * consumer, LINE_A, LINE_B)
    assert world.port._holding == 2 and list(world.port._held) == [1]
    for seq in range(1, 7):
        world.port.submit([publish(LINE_A, seq=seq)])
    assert len(world.port._open) == 3
    assert sum(note.operation == "send" for note in world.notes.drain()) == 3, "those over it end at once"


def test_deliveries_that_come_together_have_a_bound():
    world = World()
    run = Run(range(1, 2), LINE_A + b"\n", [b"x\0"], 9, TRACED)
    world.owner.listener.on_effects([Deliver(3, run, 9) for _ in range(1000)])
    assert len(world.notes.drain()) == ports.PIECE
