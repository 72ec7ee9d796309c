"""What a topic with many subscribers makes goes out in turns, and others have theirs beside it (docs/adr/0009)."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.effects import Deliver
from broker.core.message import DURABLE
from broker.engine.messages.copies import AWAITED
from broker.engine.state.slot import EFFECTS, MESSAGES

from .world import INDIVIDUAL, MULTICAST, World, bodies, got, run_of

MANY, READ = 500, 50


def topic(subscribers: int = MANY, **more) -> World:
    world = World(**more)
    for number in range(1, subscribers + 1):
        world.subscribe(number, "t", routing=MULTICAST, room=1 << 40)
    world.in_pieces = True
    return world


def delivered(effects) -> int:
    return sum(len(effect.run.records) for effect in effects if isinstance(effect, Deliver))


def turns(world: World) -> list[int]:
    found = []
    while world.engine.unfinished:
        found.append(delivered(world.finish(world.turn())))
    return found


def publishing(together: bool) -> list[Publish]:
    runs = [run_of(*bodies(READ))] if together else [run_of(body) for body in bodies(READ)]
    return [Publish(7, 9, 0, "t", MULTICAST, run) for run in runs]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_a_read_for_many_subscribers_goes_out_in_turns_in_its_order(together: bool, durable: bool) -> None:
    """25,000 copies in one turn were 27 to 79 ms."""
    world = topic()
    commands = publishing(together)
    for command in commands:
        command.run.flags |= DURABLE if durable else 0
    found = [delivered(world.do(*commands)), *turns(world)]
    assert max(found) <= MESSAGES + 2 * READ and sum(found) == MANY * READ
    for number in (1, MANY // 2, MANY):
        assert got(world.effects, number) == bodies(READ)


def test_what_a_turn_brings_is_bounded_too() -> None:
    world = topic()
    effects = world.do(*publishing(False))
    assert delivered(effects) <= EFFECTS + 2 * READ and world.engine.unfinished


def test_while_many_copies_wait_what_makes_more_waits() -> None:
    world = topic()
    wide, narrow = publishing(True)[0], Publish(7, 9, 0, "q", MULTICAST, run_of(b""))
    assert not world.engine.spread
    world.do(wide)
    assert world.engine.spread and world.engine.wary and world.engine.wide(wide) and not world.engine.wide(narrow)
    turns(world)
    assert not world.engine.spread and not world.engine.wary


def test_copies_that_nobody_takes_any_more_keep_nobody_waiting() -> None:
    world = topic()
    world.do(*publishing(True))
    assert world.engine.spread
    for number in range(1, MANY + 1):
        world.disconnect(number)
    turns(world)
    assert not world.engine.spread


def test_what_waits_for_one_commit_is_bounded() -> None:
    world = World(auto_commit=False)
    for number in range(1, MANY + 1):
        world.subscribe(number, "t", ack=INDIVIDUAL, routing=MULTICAST, durable=True, queue=f"s{number}", create=True)
    world.commit()
    sent = 0
    while not world.engine.spread:
        world.publish("t", b"x", routing=MULTICAST, durable=True)
        sent += 1
        assert sent <= AWAITED // MANY
    world.commit()
    world.settle_down()
    assert not world.engine.spread and delivered(world.effects) == sent * MANY
