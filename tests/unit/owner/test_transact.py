"""COMMIT: all of its parts or none, in one group of the log; and messages on their way to another address."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Barrier, Hold, Settle, Subscribe, Transact
from broker.core.effects import Deliver, Done, Move, Refused, Turn
from broker.core.errors import Code
from broker.core.ids import slot_of
from broker.core.message import Run
from broker.engine.engine import Engine
from broker.owner.transactions import transact

from .test_large_commits import MANY, NAMES, World, commit, consume, send


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_nobody_sees_half_of_it(world: World) -> None:
    """What is released, read back, or due at that time waits, too."""
    world.do(*[consume(name, 5 + n) for n, name in enumerate(NAMES)])
    parts = [send(name) for name in NAMES]
    for part in parts:
        part.run.flags = 0  # not durable: it would be handed out at once
    world.shard.submit([commit(parts)])
    while not world.handled:
        world.turn()
    world.shard._tick()
    world.shard.maintain()
    world.shard._commits.commit(now=True)
    while world.shard._large is not None:
        assert not world.effects
        world.turn()
    world.machine.quiesce()
    assert len(world.of(Deliver)) == MANY


@pytest.mark.parametrize("at", [1, 5, 12, 18, 24, 27])
def test_a_power_loss_in_the_middle_leaves_nothing_of_it(world: World, at: int) -> None:
    world.do(*[send(name, b"\n\0old") for name in NAMES[:300]])
    world.do(*[consume(name, 5 + n) for n, name in enumerate(NAMES[:300])])
    ids = {effect.consumer: effect.run.ids[0] for effect in world.of(Deliver)}
    settles = [Settle(slot_of(NAMES[n]), 9, 0, 5 + n, [ids[5 + n]]) for n in range(300)]
    world.do(*[Hold(part.slot, 9, 0, part.consumer, list(part.ids)) for part in settles])
    world.shard.submit([commit([*settles, *[send(name) for name in NAMES]], session=9)])
    for _ in range(at):
        world.turn()
    whole = world.shard._large is None
    for io in world.machine.busy():
        io.run_one()
    world.disk.crash()
    world.start()
    given = world.given()
    assert given == ([b"\n\0x"] * MANY if whole else [b"\n\0old"] * 300)


def test_its_number_counts_in_the_slot_that_was_asked_and_in_no_other(world: World) -> None:
    """Each slot of an edge has sequences of its own: the same number in another slot is another transaction."""
    first, other = NAMES[0], next(name for name in NAMES if slot_of(name) != slot_of(NAMES[0]))
    for parts in ([send(first), send(other)], [send(other), send(first)], [send(other), send(first)]):
        asked = commit(parts)
        asked.counts_as((77, 1))
        world.do(asked)
    assert [effect.seq for effect in world.of(Done)] == [7, 7, 7], "the last one is a repetition, and answered"
    world.do(consume(first, 5), consume(other, 6))
    assert sum([len(effect.run) for effect in world.of(Deliver)]) == 4


def test_one_that_is_refused_has_done_nothing(world: World) -> None:
    parts: list = [send(name) for name in NAMES]
    world.do(commit([*parts, Settle(slot_of("q1"), 1, 0, 77, [5])]))
    (refused,) = world.of(Refused)
    assert refused.code is Code.NO_SUCH_DELIVERY and world.handled == 0


def test_small_ones_are_one_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    few = commit([send(name) for name in NAMES[:30]])
    assert not transact.large(few)
    world.shard.submit([few])
    world.turn()
    assert world.handled == 30


# ── dead letters ───────────────────────────────────────────────────────────────────────────────────


class DeadLetters(World):
    """moved   messages that were moved in the turn under way.    ids   what consumer 7 of `old` holds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch, "dead")
        self.moved = 0
        move = Engine.moved

        def moved(engine: Engine, item: Move, turn: Turn) -> None:
            self.moved += len(item.ids)
            move(engine, item, turn)

        monkeypatch.setattr(Engine, "moved", moved)
        self.do(*[send("old", b"\n\0%d" % n) for n in range(MANY)])
        self.do(*[Subscribe(slot_of("old"), 9, 0, 7, "old", Routing.ANYCAST, AckMode.INDIVIDUAL, credit_messages=MANY)])
        self.ids = [i for effect in self.of(Deliver) for i in effect.run.ids]
        assert len(self.ids) == MANY
        self.effects.clear()

    def rejects(self, seq: int = 7) -> Transact:
        return commit([Settle(slot_of("old"), 9, 0, 7, [i], Outcome.REJECT) for i in self.ids], seq=seq, session=9)

    def turn(self) -> bool:
        self.moved = 0
        return super().turn()

    def bodies(self, name: str) -> list[bytes]:
        self.effects.clear()
        self.do(Subscribe(slot_of(name), 9, 0, 8, name, Routing.ANYCAST, AckMode.INDIVIDUAL))
        return [record for effect in self.of(Deliver) for record in effect.run.records]


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> DeadLetters:
    return DeadLetters(monkeypatch)


def test_many_dead_letters_of_one_commit_are_no_long_step(letters: DeadLetters) -> None:
    """5,000 of them were one of 74 ms."""
    letters.shard.submit([letters.rejects()])
    moved = []
    while letters.shard._large is not None or not moved:
        assert letters.turn()
        moved.append(letters.moved)
        assert letters.shard._large is None or not (letters.machine.busy() or letters.effects), "half of it was told"
    assert sum(moved) == MANY and max(moved) <= transact.PIECE
    letters.machine.quiesce()
    assert [done.seq for done in letters.of(Done)] == [7]
    assert [record[-3:].strip(b"\n\0") for record in letters.bodies("dead")] == [b"%d" % n for n in range(MANY)]
    assert letters.bodies("old") == []


def test_what_is_asked_behind_it_comes_behind_all_of_them(letters: DeadLetters) -> None:
    dead = slot_of("dead")
    letters.shard.submit([letters.rejects(), send("dead", b"\n\0last", 8, session=9)])
    while letters.shard._large is None or not letters.moved:
        letters.turn()
    letters.shard.submit([Barrier(dead, 9, 9)])
    letters.shard._tick()
    assert not letters.effects
    letters.machine.quiesce()
    assert [done.seq for done in letters.of(Done)] == [7, 8, 9]
    assert letters.bodies("dead")[-1] == b"\n\0last"


@pytest.mark.parametrize("at", [3, 12, 20, 26, 30, 99])
def test_a_power_loss_in_the_middle_of_dead_letters_leaves_each_once(letters: DeadLetters, at: int) -> None:
    letters.shard.submit([letters.rejects()])
    for _ in range(at):
        letters.turn()
    whole = letters.shard._large is None
    assert whole is (at == 99)
    for io in letters.machine.busy():
        io.run_one()
    letters.disk.crash()
    letters.start()
    assert (len(letters.bodies("dead")), len(letters.bodies("old"))) == ((MANY, 0) if whole else (0, MANY))


def test_large_bodies_weigh_and_one_message_cannot_be_cut() -> None:
    def move(nbytes: int, count: int = 1) -> Move:
        return Move(3, 1, [1] * count, "dead", Run([1] * count, b"", [b"\0"] * count, nbytes))

    assert not transact.much_moves([move(1 << 30)]) and not transact.much_moves([move(10)] * transact.PIECE)
    assert transact.much_moves([move(10)] * (transact.PIECE + 1)) and transact.much_moves([move(1 << 20)] * 2)
    assert transact.much_moves([move(6400, 6400)] * 2)
