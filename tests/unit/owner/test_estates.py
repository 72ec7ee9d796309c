"""Dead letters of a durable subscription that is deleted behind its REJECT, with a real journal under them: a crash at
any point loses and doubles none."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Publish, Settle, Subscribe, Transact, Unsubscribe
from broker.core.effects import Done
from broker.core.ids import slot_of
from broker.engine.queue.large_returns import BACK
from tests.unit.engine.world import run_of

from .test_large_commits import World

SLOT, MANY = slot_of("t"), 6 * BACK


def queues(world: World) -> dict[str, int]:
    return {
        queue.name: queue.count + queue.pages.count
        for engine in world.shard.engines.values()
        for queue in engine.queues()
    }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Consumer 5 of durable subscription s, which holds all, has rejected them and is about to go with it."""
    world = World(monkeypatch, dead_letters="dead")
    begins = Subscribe(SLOT, 9, 0, 5, "t", Routing.MULTICAST, AckMode.CLIENT, queue="s", durable=True)
    begins.credit_messages = MANY + 1
    sends = [Publish(SLOT, 1, 0, "t", Routing.MULTICAST, run_of(b"\n\0x", durable=True)) for _ in range(MANY)]
    world.do(begins, *sends)
    held = world.shard.engines[SLOT].held(5, [])
    assert len(held) == MANY
    world.effects.clear()
    word, end = Settle(SLOT, 9, 7, 5, [held[-1]], Outcome.REJECT), Unsubscribe(SLOT, 9, 8, 5, "t", "s")
    world.shard.submit([word, end])
    return world


@pytest.mark.parametrize("turns", [1, 3, 8, 20])
def test_a_crash_in_between_loses_no_dead_letter(world: World, turns: int) -> None:
    for _ in range(turns):
        world.machine.turn()
        for io in world.machine.busy():
            io.run_one()
    told = world.of(Done)
    for _ in range(2):
        world.disk.crash()
        world.start()
        # Of what the log did not have yet nobody was told.
        assert queues(world) == {"dead": MANY} or (queues(world) == {"s": MANY} and not told)


def test_both_are_answered_when_all_of_them_are_there(world: World) -> None:
    while not world.of(Done):
        if not world.machine.turn():
            world.machine.busy()[0].run_one()
    assert queues(world) == {"dead": MANY}
    world.machine.quiesce()
    assert [effect.seq for effect in world.of(Done)] == [7, 8]


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("seed", range(2))
def test_nor_one_of_a_commit_all_of_it_or_nothing(monkeypatch: pytest.MonkeyPatch, turns: int, seed: int) -> None:
    """Here its letters are in the same commit; what the log keeps for them goes with them."""
    world = World(monkeypatch, dead_letters="dead")
    world.disk.random.seed(seed)
    begins = Subscribe(SLOT, 9, 0, 5, "t", Routing.MULTICAST, AckMode.INDIVIDUAL, queue="s", durable=True)
    begins.credit_messages = MANY + 1
    sends = [Publish(SLOT, 1, 0, "t", Routing.MULTICAST, run_of(b"\n\0x", durable=True)) for _ in range(MANY)]
    world.do(begins, *sends)
    held = world.shard.engines[SLOT].held(5, [])
    world.effects.clear()
    words = [Settle(SLOT, 9, 0, 5, [i], Outcome.REJECT) for i in held[:20]]
    words.append(Settle(SLOT, 9, 0, 5, held[20:], Outcome.REJECT))
    world.shard.submit([Transact(SLOT, 9, 7, words)])
    for _ in range(turns):
        world.machine.turn()
        for io in world.machine.busy()[: 1 + seed % 2]:
            io.run_one()
    told = world.of(Done)
    world.disk.crash()
    world.start()
    here = queues(world)
    assert here in ({"s": 0, "dead": MANY}, {"s": MANY}) and not (told and here["s"])
    assert not any(engine.shown.prepared for engine in world.shard.engines.values())
