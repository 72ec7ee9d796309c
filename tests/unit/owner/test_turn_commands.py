"""The commands of a turn: who may go, who waits, and who is refused before an engine hears of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.address import Routing
from broker.core.commands import Barrier, Disconnect, Prepare, Publish, Settle, UnsubscribeAll
from broker.core.effects import Refused, Turn
from broker.core.errors import Code
from broker.core.message import Blob
from broker.owner.inbox.deferred import Deferred
from broker.owner.inbox.inbox import Inbox
from broker.owner.inbox.portions import WORK
from broker.owner.shard import turn_commands
from broker.owner.shard.turn_commands import TurnCommands
from tests.unit.engine.world import run_of

SLOT, SESSION = 3, 7


class FakeEngine:
    """Notes what it is given. costs: of a turn's work, each."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.handled: list[Any] = []
        self.wary = False
        self.costs = 0
        self.throws = False

    def handle(self, command: Any, turn: Turn) -> None:
        if self.throws:
            raise RuntimeError("an engine")
        self.handled.append(command)
        turn.work += self.costs

    def much(self, command: Any) -> bool:
        return len(command.parts) > 1

    def in_pieces(self, command: Any, turn: Turn) -> str:
        return "the rest of it"

    def attached(self, session: int) -> bool:
        return bool(self.handled) and len(self.handled) < 2


class Host:
    """A shard with two slots."""

    def __init__(self, alone: bool = True) -> None:
        self.engines = {slot: FakeEngine(slot) for slot in (SLOT, SLOT + 1)}
        self.journal = SimpleNamespace(full=False)
        self.pressure = SimpleNamespace(full=False, meets=lambda *_: True, meets_parts=lambda *_: True)
        self.told: list[Any] = []
        self.listener: Any = SimpleNamespace(on_effects=self.told.extend)
        self.pieces: list[Any] = []
        self.woken = 0
        self.inbox = Inbox(Deferred(), self.wake)
        self.turn = Turn(0, 0, lambda slot: True)
        self.touched: dict[Any, None] = {}
        self.blobs: list[Blob] = []
        blame: Any = SimpleNamespace(saw=lambda *_: None)
        self.commands = TurnCommands(self, self.inbox, self.pressure, alone, lambda: 0.0, blame)  # type: ignore[arg-type]

    def wake(self) -> None:
        self.woken += 1

    def engine(self, slot: int) -> FakeEngine:
        return self.engines.setdefault(slot, FakeEngine(slot))

    def in_pieces(self, command: Any, work: Any, of: Any) -> None:
        self.pieces.append((command, work))

    def carry_out(self, *commands: Any, waiting: tuple[Any, ...] = ()) -> list[Any]:
        """What the engine of SLOT has got by then."""
        self.commands.carry_out(list(waiting), list(commands), self.turn, self.touched, self.blobs)  # type: ignore[arg-type]
        return self.engines[SLOT].handled


def send(seq: int = 1, slot: int = SLOT, session: int = SESSION) -> Publish:
    return Publish(slot, session, seq, "q", Routing.ANYCAST, run_of(b"m"))


def test_each_goes_to_its_engine_and_what_has_waited_first():
    host = Host()
    first, second, other = send(1), send(2), send(3, SLOT + 1)
    assert host.carry_out(second, other, waiting=(first,)) == [first, second]
    assert host.engines[SLOT + 1].handled == [other]
    assert [engine.number for engine in host.touched] == [SLOT, SLOT + 1]


def test_alone_a_slot_is_made_when_it_is_needed_in_a_cluster_it_has_moved():
    for alone, handled in ((True, 1), (False, 0)):
        host = Host(alone)
        host.carry_out(send(1, 99))
        assert len(host.engines[99].handled if 99 in host.engines else []) == handled
    assert host.turn.effects == [], "the edge has been told, or will be"


def test_what_is_for_all_slots_becomes_what_it_means_for_each_and_that_comes_next(monkeypatch):
    host = Host()
    ends = [Disconnect(SLOT, SESSION)]
    monkeypatch.setattr(turn_commands, "carry_out", lambda shard, command, turn: ends)
    host.carry_out(UnsubscribeAll(SESSION, 1, 9, "#"), late := send(2))
    assert host.inbox.new == [*ends, late]


def test_nothing_overtakes_what_waits_of_its_session():
    host = Host()
    host.inbox.deferred._wait(send(1))
    assert host.carry_out(send(2), mine := send(3, session=8)) == [mine]
    assert [command.seq for command in host.inbox.deferred.waiting] == [1, 2]


def test_on_a_full_disk_and_in_short_memory_messages_do_not_reach_their_engine(monkeypatch):
    host = Host()
    host.journal.full = True
    monkeypatch.setattr(turn_commands, "refuse_full", lambda engine, command, turn: True)
    settle = Settle(SLOT, SESSION, 2, 5, [1])
    prepare = Prepare(SLOT, SESSION, 3, "t", 9, [send()])
    assert host.carry_out(send(1), prepare, settle) == [settle], "acknowledging makes room"
    assert [(type(it), it.code) for it in host.turn.effects] == [(Refused, Code.DISK_FULL)]
    host = Host()
    host.pressure.full = True
    assert host.carry_out(send(1), settle) == [settle]


def test_what_is_more_than_a_step_is_begun_and_the_rest_keeps_its_place():
    host = Host()
    large, behind = Prepare(SLOT, SESSION, 3, "t", 9, [send(), send()]), send(4)
    assert host.carry_out(large, behind) == []
    assert host.pieces == [(large, "the rest of it")] and host.inbox.new == [behind]


def test_a_turn_that_has_begun_enough_consumers_lets_others_go_beside_them():
    host = Host()
    host.engines[SLOT].costs = 2 * WORK
    end, mine, others = Disconnect(SLOT, SESSION), send(2), send(3, SLOT + 1, session=8)
    host.carry_out(end, mine, others)
    assert host.engines[SLOT + 1].handled == [others]
    assert host.inbox.new == [end, mine], "it is not over yet, and what the session sent comes behind it"


def test_in_a_cluster_only_what_is_of_other_slots_goes_on_beside_them():
    host = Host(alone=False)
    host.engines[SLOT].costs = 2 * WORK
    mine, here, others = send(2), send(1, session=8), send(3, SLOT + 1, session=8)
    host.carry_out(send(1), end := Disconnect(SLOT, 9), mine, here, others)
    assert host.engines[SLOT + 1].handled == [others]
    assert len(host.engines[SLOT].handled) == 1 and host.inbox.new == [end, mine, here]


def test_who_has_made_an_engine_throw_is_told():
    host = Host()
    host.engines[SLOT].throws = True
    with pytest.raises(RuntimeError, match="an engine"):
        host.carry_out(Barrier(SLOT, SESSION, 6))
    assert [(it.session, it.seq, it.code) for it in host.told] == [(SESSION, 6, Code.INTERNAL)]


def test_large_bodies_are_noted_for_the_end_of_the_turn():
    host = Host()
    command = send()
    command.run.blob = Blob(1, 5)
    host.carry_out(command)
    assert host.blobs == [command.run.blob]
