"""Memory that is short: who puts away, who waits, who is refused, and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Prepare, Publish, Settle, Subscribe, Transact
from broker.core.effects import AddressBlocked, Deliver, Refused, Turn
from broker.core.errors import Code
from broker.core.memory import NEVER, Memory
from broker.core.records import RunRecord
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget
from broker.owner.shard import memory_pressure
from broker.owner.shard.memory_pressure import Pressure
from tests.unit.engine.world import run_of

KIB = 1024


class Desk:
    """Two slots, a journal that takes everything at once, and a clock by hand."""

    def __init__(self, limit: int, grown: Callable[[], int] | None = None) -> None:
        self.memory = Memory(limit, grown)
        self.budget = Budget(10_000, self.memory)
        settings = EngineSettings()
        self.engines = {slot: Engine(slot, settings, self.budget) for slot in (3, 4)}
        self.now = 0.0
        self.woken = 0
        self.timers: list[Callable[[], None]] = []
        self.pressure = Pressure(
            self.budget, self.engines, settings.queue_memory_bytes, True, lambda: self.now, self.later, self.wake
        )
        self.number = 1
        self.runs: dict[int, Any] = {}
        self.effects: list[Any] = []
        self.moved: list[int] = []
        """Runs put away, turn by turn."""

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append(callback)

    def wake(self) -> None:
        self.woken += 1

    def do(self, *commands: Any) -> list[Any]:
        """As the shard does it; commits at once."""
        turn = Turn(1_000_000 + int(self.now * 1000), self.number)
        self.number += 1
        touched: dict[Engine, None] = dict.fromkeys(self.engines.values())
        for engine in touched:
            engine.release(turn.number - 1, turn)
        for command in commands:
            engine = self.engines[command.slot]
            crowded = self.pressure.full
            if crowded and isinstance(command, Publish) and self.pressure.meets(engine, command, turn):
                continue
            engine.handle(command, turn)
        before = self.pressure.put_away
        if self.pressure.on or self.memory.counted > self.memory.near:
            self.pressure.look(turn, touched, True)
        self.moved.append(self.pressure.put_away - before)
        for engine in touched:
            engine.flush(turn)
        for record in turn.appends:
            if isinstance(record, RunRecord):
                record.run.position = len(self.runs) + 1
                self.runs[record.run.position] = record.run
        for fetch in turn.fetches:
            read = Turn(turn.now, turn.number)
            self.engines[fetch.slot].fetched(fetch.queue, [self.runs[p] for p in fetch.positions], read)
        self.effects += turn.effects
        return turn.effects

    def send(self, name: str, size: int, session: int = 1, slot: int = 3, durable: bool = True) -> list[Any]:
        run = run_of(b"x" * size, durable=durable)
        return self.do(Publish(slot, session, 5, name, Routing.ANYCAST, run, None, True))

    def rest(self, turns: int = 300) -> None:
        """Time passes."""
        for _ in range(turns):
            self.now += 0.1
            timers, self.timers = self.timers, []
            for timer in timers:
                timer()
            self.do()


def crowds(effects: list[Any]) -> list[tuple[int, str, bool]]:
    return [(e.session, e.address, e.full) for e in effects if isinstance(e, AddressBlocked)]


def test_queues_below_their_own_limit_go_to_disk_near_the_bound_and_the_largest_first() -> None:
    desk = Desk(1000 * KIB)
    for n in range(100):
        desk.send(f"q{n % 10}", 4000)
        desk.send("large", 4000, slot=4)
    desk.rest()
    assert desk.memory.queues < desk.memory.near and desk.pressure.put_away
    left = {q.name: q.weight for e in desk.engines.values() for q in e.queues()}
    assert left["large"] < 200 * KIB and min(left[f"q{n}"] for n in range(10)) > 40 * KIB
    assert sum(q.count + q.pages.count for e in desk.engines.values() for q in e.queues()) == 200


def test_nothing_happens_below_the_bound() -> None:
    desk = Desk(1000 * KIB)
    for n in range(100):
        desk.send(f"q{n}", 4000)
    assert not desk.pressure.on and not desk.timers and desk.budget.room == NEVER


def test_what_is_counted_many_times_is_not_what_the_process_has() -> None:
    desk = Desk(1000 * KIB, grown=lambda: 500 * KIB)
    for n in range(500):
        desk.send(f"q{n % 20}", 4000)
    assert desk.memory.counted > 1900 * KIB and desk.memory.used() == 500 * KIB
    assert not desk.pressure.on and not desk.pressure.put_away


def test_a_turn_puts_away_a_bounded_piece_and_goes_on() -> None:
    desk = Desk(4000 * KIB)
    for n in range(12_000):
        desk.send(f"q{n % 50}", 60, durable=n % 2 == 0)
        desk.now += 0.001
    desk.rest()
    assert desk.pressure.put_away > memory_pressure.PIECE >= max(desk.moved)
    assert desk.memory.queues < desk.memory.near


def test_many_queues_are_looked_at_in_pieces() -> None:
    desk = Desk(40_000 * KIB)
    for n in range(9000):
        desk.send(f"q{n}", 4000)
        if desk.pressure.on:
            break
    turns = 0
    assert desk.pressure._walk is not None and desk.woken
    while desk.pressure._walk is not None:
        desk.do()
        turns += 1
    assert turns


def test_a_slot_that_has_gone_in_the_middle_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_pressure, "PIECE", 1)
    desk = Desk(1000 * KIB)
    for n in range(300):
        desk.send(f"q{n % 20}", 4000, slot=3 + n % 2)
        if desk.pressure.on:
            break
    assert desk.pressure._walk is not None
    gone = desk.engines.pop(3)
    before = [queue.count for queue in gone.queues()]
    for _ in range(100):
        desk.now += 0.1
        desk.do()
    assert [queue.count for queue in gone.queues()] == before and desk.pressure.put_away


def full_desk() -> Desk:
    """What consumers hold cannot be put away."""
    desk = Desk(200 * KIB)
    desk.do(Subscribe(3, 9, 0, 1, "q", Routing.ANYCAST, AckMode.INDIVIDUAL))
    desk.do()
    for _ in range(45):
        desk.send("q", 4000, durable=False)
        desk.send("q", 500, durable=False)
    assert desk.pressure.full
    return desk


def test_producers_wait_at_the_bound_and_are_refused_beyond_it() -> None:
    desk = full_desk()
    assert crowds(desk.send("other", 10, session=7)) == [(7, "other", True)]
    found: list[Any] = []
    for _ in range(200):
        found = [e.code for e in desk.send("q", 4000) if isinstance(e, Refused)]
        if found:
            break
    assert found == [Code.MEMORY_FULL] and desk.pressure.refused == 1
    assert desk.memory.queues < desk.memory.wall + 20 * KIB
    # A dead letter has nobody who could wait.
    desk.do(Publish(3, 0, 0, "DLQ", Routing.ANYCAST, run_of(b"x"), None, True))
    assert any(q.name == "DLQ" for q in desk.engines[3].queues())


def test_transactions_meet_it_as_well() -> None:
    desk = full_desk()
    part = Publish(3, 7, 0, "other", Routing.ANYCAST, run_of(b"x"), None, True)
    turn = Turn(0, desk.number)
    assert not desk.pressure.meets_parts(desk.engines[3], Transact(3, 7, 1, [part]), turn)
    assert crowds(turn.effects) == [(7, "other", True)]
    assert not desk.pressure.meets_parts(desk.engines[3], Transact(3, 7, 1, []), turn)
    desk.memory.sessions = desk.memory.limit
    desk.do()
    for command in (Transact(3, 7, 1, [part]), Prepare(3, 7, 1, "tx", 4, [part])):
        turn = Turn(0, desk.number)
        assert desk.pressure.meets_parts(desk.engines[3], command, turn)
        assert [e.code for e in turn.effects if isinstance(e, Refused)] == [Code.MEMORY_FULL]


def test_who_consumes_goes_on_and_makes_room_for_those_who_wait() -> None:
    desk = full_desk()
    desk.send("other", 10, session=7)
    held = [i for e in desk.effects if isinstance(e, Deliver) for i in e.run.ids]
    assert len(held) == 90
    desk.do(Settle(3, 9, 0, 1, held))
    desk.effects.clear()
    desk.rest(5)
    assert not desk.pressure.full and (7, "other", False) in crowds(desk.effects)
    desk.rest()
    assert not desk.pressure.on and desk.budget.room == NEVER
    before = len(desk.timers)
    assert crowds(desk.send("other", 10, session=7)) == [] and len(desk.timers) == before == 0
