"""At an owner: a durable message whose trace is wanted is noted when it counts."""

from __future__ import annotations

from collections.abc import Callable

from broker.core.address import Routing
from broker.core.commands import Command, Grant, Prepare, Publish, Transact
from broker.core.message import DURABLE, NO_IDS, TRACED, Run
from broker.core.traceparent import Context, header
from broker.tracing.span_notes import Notes
from broker.tracing.stored import PIECE, Stored, look

A = Context("a" * 32, "1" * 16)
LINE = header(*A)


class Shard:
    def __init__(self) -> None:
        self.came: list[Command] = []
        self.waiting: list[tuple[int, Callable[[], None]]] = []

    def submit(self, commands: list[Command]) -> bool:
        self.came += commands
        return True

    def when_ready(self, slot: int, callback: Callable[[], None]) -> None:
        assert not self.came, "before they are carried out: the commit that is open then has them"
        self.waiting.append((slot, callback))


def publish(flags: int = TRACED | DURABLE, line: bytes = LINE) -> Publish:
    return Publish(7, 3, 0, "orders", Routing.ANYCAST, Run(NO_IDS, line + b"\n", [b"x\0"], 9, flags))


def stored() -> tuple[Shard, Notes, list[float], Stored]:
    now = [5.0]
    shard = Shard()
    notes = Notes(1000, lambda: now[0], lambda: now[0])
    return shard, notes, now, Stored(shard, notes)


def test_it_ends_when_it_counts():
    shard, notes, now, first = stored()
    commands: list[Command] = [publish(), publish(TRACED), publish(DURABLE), publish(line=b"n:1\n"), Grant(7, 1, 5)]
    assert first.submit(commands) is True and shard.came == commands
    ((slot, counts),) = shard.waiting
    assert slot == 7 and notes.drain() == []
    now[0] = 5.5
    counts()
    (note,) = notes.drain()
    assert (note.operation, note.began, note.ended, note.contexts) == ("store", 5.0, 5.5, [A])


def test_parts_of_transactions():
    shard, _, _, first = stored()
    first.submit([Transact(7, 3, 1, [publish()]), Prepare(7, 3, 1, "tx", 7, [publish(), publish(0)])])
    assert len(shard.waiting) == 2


def test_as_many_as_a_step_has_time_for():
    shard, _, _, first = stored()
    first.submit([publish() for _ in range(PIECE * 2)])
    assert len(shard.waiting) == PIECE


def test_what_is_read_back_gets_its_flag():
    runs = [publish(DURABLE).run, publish(DURABLE, b"n:1\n").run]
    look(runs)
    assert [run.flags for run in runs] == [DURABLE | TRACED, DURABLE]
