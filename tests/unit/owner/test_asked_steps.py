"""What is asked for from outside of turns comes in its order, and what it returns piece by piece."""

from __future__ import annotations

from broker.core.effects import Done, Turn
from broker.owner.shard.asked_steps import MOST, AskedSteps

from .test_large_commits import World, send, world

__all__ = ["world"]


def test_what_a_step_returns_is_done_before_all_else(world: World) -> None:
    done: list[str] = []
    world.shard.engine(3)

    def work(name: str):
        for n in range(3):
            done.append(f"{name}{n}")
            yield

    for name in "ab":
        world.shard.in_turn(3, lambda engine, turn, name=name: work(name))
    world.shard.submit([send("q1", seq=4)])
    world.shard.in_turn(3, lambda engine, turn: done.append("c"))
    world.machine.quiesce()
    assert done == ["a0", "a1", "a2", "b0", "b1", "b2", "c"] and [each.seq for each in world.of(Done)] == [4]


def test_who_is_not_led_here_is_passed_over(world: World) -> None:
    woken: list[int] = []
    steps, done = AskedSteps(lambda: woken.append(1)), []
    engine = world.shard.engine(3)
    for slot in (2, 3, 4):
        steps.ask(slot, lambda led, turn: done.append(led))
    touched: dict = {}
    assert len(steps.asked) == len(woken) == 3 and steps.go_on({3: engine}, Turn(0, 1), touched) is None
    assert done == [engine] and list(touched) == [engine] and not steps.asked


def test_very_many_are_done_in_pieces_and_before_all_else(world: World) -> None:
    """All of them were one step: 5,000 dead letters that arrive at another owner at once, 50 ms."""
    done: list[int] = []
    world.shard.engine(3)
    for n in range(3 * MOST):
        world.shard.in_turn(3, lambda engine, turn, n=n: done.append(n))
    world.shard.in_turn(3, lambda engine, turn: world.shard.in_turn(3, lambda engine, turn: done.append(-1)))
    world.shard.submit([send("q1", seq=4)])
    seen = []
    while world.machine.ready:
        world.machine.turn()
        if not seen or seen[-1] != len(done):
            seen.append(len(done))
            assert len(done) > 3 * MOST or not world.of(Done), "commands come behind what was asked for before them"
    world.machine.quiesce()
    assert done == [*range(3 * MOST), -1] and seen[:3] == [MOST, 2 * MOST, 3 * MOST]
    assert [each.seq for each in world.of(Done)] == [4]
