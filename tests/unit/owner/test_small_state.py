"""The small state at the head of a segment: a piece goes with each commit that follows; half of it harms nothing."""

from __future__ import annotations

import pytest

from broker.config.settings import JournalSettings, Settings
from broker.core.address import Routing
from broker.core.commands import Act, Manage, Publish
from broker.core.records import MetaRecord
from broker.engine.recovery import slot_restore
from broker.journal.log.appender import Appender
from broker.owner.commit import group_commit
from tests.harness.queues import stats
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of
from tests.unit.owner.lifecycle_world import ME, OTHER, SLOT
from tests.unit.owner.lifecycle_world import World as NodeWorld

MANY = 400


class World:
    """`most`: the largest piece so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk = SimDisk(0)
        self.settings = Settings(journal=JournalSettings(65_536, min_free_bytes=0))
        self.pieces: list[int] = []
        add = Appender.add_snapshot

        def counted(appender: Appender, metas: list[MetaRecord]) -> None:
            self.pieces.append(len(metas))
            add(appender, metas)

        monkeypatch.setattr(Appender, "add_snapshot", counted)
        self.start()

    def start(self) -> None:
        self.machine = Machine(self.disk, HandClock(), self.settings, self)
        self.machine.quiesce()

    def on_effects(self, effects: list) -> None: ...
    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def fill(self, first: int, count: int) -> None:
        """So many queues, in one slot as durable subscriptions are."""
        self.do(*[Publish(7, 1, 0, "a", Routing.ANYCAST, run_of(b"\n\0", durable=True), f"q{n}")
                  for n in range(first, first + count)])  # fmt: skip

    def do(self, *commands) -> None:
        self.machine.shard.submit(list(commands))
        self.machine.quiesce()

    def segment(self) -> None:
        """A new one begins, and asks for the small state; nothing is carried out yet."""
        self.machine.journal._appender.wants_snapshot = True

    def copying(self) -> bool:
        return self.machine.shard._commits._copying is not None

    def names(self) -> set[str]:
        return {queue["name"] for engine in self.machine.shard.engines.values() for queue in stats(engine)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_no_commit_carries_more_than_a_piece_however_many_queues_there_are(world: World) -> None:
    """20,000 queues were 109 ms of one step, whenever a segment began."""
    world.fill(0, 2000)
    world.pieces.clear()
    world.segment()
    world.fill(0, 1)
    assert not world.copying() and len(world.pieces) >= 2000 // group_commit.PIECE
    assert max(world.pieces) <= 2 * group_commit.PIECE
    assert sum(world.pieces) >= 2000
    world.machine.journal.close(clean=True)
    world.start()
    assert world.names() == {f"q{n}" for n in range(2000)}


@pytest.mark.parametrize("turns", [1, 4, 9, 14, 30])
def test_queues_come_and_go_in_between_and_a_crash_at_any_moment_finds_what_was_so(
    world: World, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(group_commit, "PIECE", 20)
    monkeypatch.setattr(slot_restore, "_RECORDS", 20)
    world.fill(0, MANY)
    kept = {f"q{n}" for n in range(MANY)}
    world.segment()
    shard = world.machine.shard
    for at in range(turns):
        gone, new = MANY - 1 - at * 3, f"new{at}"
        kept = kept - {f"q{gone}"} | {new}
        shard.submit([
            Manage(7, 1, 0, Act.DELETE, "a", f"q{gone}"),
            Publish(7, 1, 0, "a", Routing.ANYCAST, run_of(b"\n\0", durable=True), new),
        ])  # fmt: skip
        world.machine.turn()
        for io in world.machine.busy():
            io.run_one()
        world.machine.turn()
    for _ in range(4):  # what was appended is on the disk; of the small state there is more to come
        for io in world.machine.busy():
            io.run_one()
        world.machine.turn()
    assert world.copying() == (turns < 20)
    world.disk.crash()
    world.start()
    assert world.names() == kept


def test_a_stop_does_not_wait_for_it(world: World) -> None:
    world.fill(0, 2000)
    world.segment()
    ended = []
    world.machine.shard.when_idle(lambda: ended.append(len(world.pieces)))
    before = len(world.pieces)
    world.fill(0, 1)
    assert ended == [before]
    world.machine.journal.close(clean=True)
    world.start()
    assert len(world.names()) == 2000


def test_a_slot_that_gets_into_other_hands_meanwhile_is_written_whole() -> None:
    world = NodeWorld().leading()
    world.run()
    world.shard.submit([
        Publish(SLOT, 5, 0, "a", Routing.ANYCAST, run_of(b"\n\0", durable=True), f"q{n}") for n in range(250)
    ])  # fmt: skip
    world.run()
    world.journal._appender.wants_snapshot = True
    world.io.held = True
    world.shard.submit([Publish(SLOT, 5, 0, "a", Routing.ANYCAST, run_of(b"\n\0", durable=True), "q0")])
    world.run()
    assert world.shard._commits._copying is not None
    world.is_now(2, OTHER)
    world.io.go_on()
    world.run()
    assert world.shard._commits._copying is None
    again = world.restarted()
    again.lifecycle.go_on()
    again.is_now(3, ME)
    again.wait(1)
    assert len(again.shard.engines[SLOT].queues()) == 250
