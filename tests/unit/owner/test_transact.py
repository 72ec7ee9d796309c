"""COMMIT: all of its parts or none, in one group of the log; and messages on their way to another address."""

from __future__ import annotations

import pytest

from broker.core.commands import Hold, Settle
from broker.core.effects import Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import slot_of
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
