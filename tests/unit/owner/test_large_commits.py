"""A COMMIT of many parts is carried out in pieces, between which nobody sees half of it and no disk has any of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.settings import JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Barrier, Command, Decide, Prepare, Publish, Settle, Subscribe, Transact
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import slot_of
from broker.engine.engine import Engine
from broker.engine.publishing import prepared
from broker.engine.publishing.prepared import CHECKED, PIECE
from broker.engine.queue.large_returns import BACK
from broker.engine.state.slot import Slot
from broker.journal.log.envelope import RECORDS
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

MANY = 1000
NAMES = [f"q{n}" for n in range(MANY)]


def send(name: str, body: bytes = b"\n\0x", seq: int = 0, session: int = 1) -> Publish:
    return Publish(slot_of(name), session, seq, name, Routing.ANYCAST, run_of(body, durable=True))


def consume(name: str, number: int) -> Subscribe:
    return Subscribe(slot_of(name), 9, 0, number, name, Routing.ANYCAST, AckMode.INDIVIDUAL)


def commit(parts: list, seq: int = 7, session: int = 1) -> Transact:
    return Transact(parts[0].slot, session, seq, parts)


class World:
    """handled, checked   parts, in the turn under way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dead_letters: str = "") -> None:
        settings = Settings(journal=JournalSettings(min_free_bytes=0))
        address = replace(settings.engine.address, dead_letter_address=dead_letters)
        self.settings = replace(settings, engine=replace(settings.engine, address=address))
        self.effects: list = []
        self.stopped = ""
        self.handled = self.checked = 0
        self.disk = SimDisk(0)
        self.start()
        handle, check = Engine.handle, Engine.check

        def handled(engine: Engine, command: Command, turn) -> None:
            self.handled += 1
            handle(engine, command, turn)

        def checked(engine: Engine, part, asked) -> None:
            self.checked += 1
            check(engine, part, asked)

        monkeypatch.setattr(Engine, "handle", handled)
        monkeypatch.setattr(Engine, "check", checked)

    def start(self) -> None:
        self.machine = Machine(self.disk, HandClock(), self.settings, self)
        self.shard, self.journal = self.machine.shard, self.machine.journal
        self.machine.quiesce()

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...

    def on_stopped(self, why: str) -> None:
        self.stopped = why

    def do(self, *commands: Command) -> None:
        self.shard.submit(list(commands))
        self.machine.quiesce()

    def turn(self) -> bool:
        self.handled = self.checked = 0
        return self.machine.turn()

    def of(self, kind: type) -> list:
        return [effect for effect in self.effects if type(effect) is kind]

    def given(self) -> list[bytes]:
        """What a restarted broker still has."""
        self.effects.clear()
        self.do(*[consume(name, 100 + n) for n, name in enumerate(NAMES)])
        return [record for effect in self.of(Deliver) for record in effect.run.records]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_no_step_grows_with_it_and_nothing_is_sealed_before_its_end(world: World) -> None:
    """It was one step of 20 ms, 33 where each part made a queue."""
    world.shard.submit([commit([send(name) for name in NAMES])])
    steps = 0
    while world.shard._large is not None or not steps:
        steps += 1
        assert world.turn() and world.handled <= PIECE and world.checked <= CHECKED
        assert world.shard._large is None or not (world.machine.busy() or world.effects)
    assert steps > MANY // PIECE + MANY // CHECKED + MANY // RECORDS
    world.machine.quiesce()
    assert [done.seq for done in world.of(Done)] == [7]


def test_what_comes_after_it_waits_for_it_in_its_order(world: World) -> None:
    world.shard.submit([send("q1", b"\n\0a", 1), commit([send(name) for name in NAMES]), send("q1", b"\n\0b", 8)])
    world.turn()
    world.shard.submit([send("q1", b"\n\0c", 9, session=2), Barrier(slot_of("q1"), 2, 10)])
    world.machine.quiesce()
    assert sorted(done.seq for done in world.of(Done)) == [1, 7, 8, 9, 10]
    world.do(consume("q1", 5))
    assert [r for effect in world.of(Deliver) for r in effect.run.records] == [b"\n\0a", b"\n\0x", b"\n\0b", b"\n\0c"]


def test_it_is_all_there_after_a_restart(world: World) -> None:
    world.do(commit([send(name) for name in NAMES]))
    world.disk.crash()
    world.start()
    assert world.given() == [b"\n\0x"] * MANY


def test_large_bodies_of_few_parts_are_cut_as_well(world: World) -> None:
    """61 MiB were a step of 50 ms."""
    body = b"\n\0" + bytes(1 << 20)
    world.shard.submit([commit([send(name, body) for name in NAMES[:8]])])
    turns = 0
    while world.shard._large is not None or not turns:
        assert world.turn() and world.handled <= 2
        turns += 1
    assert turns >= 20
    world.machine.quiesce()
    assert [done.seq for done in world.of(Done)] == [7]
    world.disk.crash()
    world.start()
    assert world.given() == [body] * 8


def test_who_looks_at_slots_has_it_finished_first(world: World) -> None:
    """A slot that is given up, or copied: half a transaction would be in its small state."""
    world.shard.submit([commit([send(name) for name in NAMES])])
    world.turn()
    world.turn()
    world.shard.finish()
    assert world.shard._large is None and world.machine.busy()
    world.machine.quiesce()
    assert [done.seq for done in world.of(Done)] == [7]


def test_an_engine_that_throws_in_the_middle_stops_the_owner_and_tells_whose_fault_it_was(world: World) -> None:
    world.shard.submit([commit([send(name) for name in NAMES])])
    world.turn()
    world.shard.engines[slot_of("q900")]._handlers[Publish] = lambda command, turn: 1 / 0
    world.shard.submit([send("q1", seq=8, session=2)])
    world.machine.quiesce()
    assert world.stopped
    assert [(each.seq, each.code) for each in world.of(Refused)] == [(7, Code.INTERNAL), (8, Code.OWNER_STOPPED)]


def test_when_the_journal_fails_meanwhile_it_is_refused_once(world: World) -> None:
    world.shard.submit([commit([send(name) for name in NAMES])])
    world.turn()
    world.shard.fail("its disk is gone")
    world.machine.quiesce()
    assert [(each.seq, each.code) for each in world.of(Refused)] == [(7, Code.OWNER_STOPPED)]


# ── of a transaction over several slots, this slot's share ─────────────────────────────────────────────


def share() -> list[Publish | Settle]:
    return [Publish(3, 1, 0, f"s{n}", Routing.ANYCAST, run_of(b"\n\0%d" % n, durable=True)) for n in range(MANY)]


@pytest.fixture
def numbered(world: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Runs that were numbered, and parts that were checked, turn by turn (the last one: under way)."""
    counts: list[int] = [0]
    number = Slot.number_run
    check = prepared.check_publish

    def number_run(slot, run, now):
        counts[-1] += 4
        number(slot, run, now)

    def check_publish(slot, part):
        counts[-1] += 1
        check(slot, part)

    monkeypatch.setattr(Slot, "number_run", number_run)
    monkeypatch.setattr(prepared, "check_publish", check_publish)
    return counts


def turns_of(world: World, numbered: list[int], command: Command) -> list[int]:
    numbered[:] = [0]
    world.effects.clear()
    world.shard.submit([command])
    while world.turn():
        numbered.append(0)
        assert world.shard._large is None or not (world.machine.busy() or world.effects)
    world.machine.quiesce()
    return numbered


def test_a_share_of_many_parts_is_prepared_and_decided_in_pieces(world: World, numbered: list[int]) -> None:
    """Each was one step, 15 to 30 ms for 1,000 parts."""
    turns = turns_of(world, numbered, Prepare(3, 1, 5, "tx", 9, share(), 1))
    assert max(turns) <= max(4 * PIECE, CHECKED) and sum(turns) >= 5 * MANY
    assert [done.seq for done in world.of(Done)] == [5]
    turns = turns_of(world, numbered, Decide(3, 1, 6, "tx", True))
    assert max(turns) <= 4 * PIECE and sum(turns) >= 4 * MANY
    assert [done.seq for done in world.of(Done)] == [6]
    queues = {queue.name: queue.count for queue in world.shard.engine(3).queues()}
    assert queues == {f"s{n}": 1 for n in range(MANY)}


def test_a_share_that_is_refused_in_its_last_part_has_changed_nothing(world: World, numbered: list[int]) -> None:
    last = Settle(3, 1, 0, 77, [1])
    turns = turns_of(world, numbered, Prepare(3, 1, 5, "tx", 9, [*share(), last], 1))
    assert sum(turns) == MANY and [refused.seq for refused in world.of(Refused)] == [5]
    assert world.shard.engine(3).queues() == [] and not world.shard.engine(3).shown.prepared


def test_a_crash_in_the_middle_of_a_share_leaves_nothing_of_it(world: World, numbered: list[int]) -> None:
    world.shard.submit([Prepare(3, 1, 5, "tx", 9, share(), 1)])
    while not sum(numbered) > 2 * MANY:
        world.turn()
    assert world.shard._large is not None
    world.disk.crash()
    world.start()
    assert not world.shard.engine(3).shown.prepared and world.shard.engine(3).queues() == []


@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.REJECT])
def test_one_part_that_covers_very_much_is_carried_out_in_pieces(world: World, outcome: Outcome) -> None:
    """Its SEND is seen by nobody before all of it, and the disk has nothing."""
    slot, many = slot_of("q"), 10 * BACK
    world.do(
        Subscribe(slot, 9, 0, 5, "q", Routing.ANYCAST, AckMode.CLIENT, credit_messages=many + 1),
        *[send("q") for _ in range(many)],
    )
    held = world.shard.engines[slot].held(5, [])
    assert len(held) == many
    world.effects.clear()
    part = Settle(slot, 9, 0, 5, [held[-1]], outcome, 60_000)
    world.shard.submit([commit([part, send("q")], seq=7, session=9)])
    steps = 0
    while world.turn():
        steps += 1
        assert not world.effects or not world.machine.ready, "half of it is seen by nobody"
    assert steps >= 10 and not world.of(Done), "the log has to have it"
    world.machine.quiesce()
    assert [effect.seq for effect in world.of(Done)] == [7]
    assert [len(effect.run.ids) for effect in world.of(Deliver)] == [1], "what it sent"
