"""Who waits for a slot without an owner hears in time that it is in vain, and why."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.errors import Code
from broker.link.edge_side.outages import LOOK_S, Outages
from broker.link.edge_side.slot_channel import SlotChannel

from .world import World

AFTER_S = 8.0


@pytest.fixture
def world() -> Any:
    made = World()
    made.waiting, made.given_up = [], []
    made.looks = 0

    def waited_for() -> list[SlotChannel]:
        made.looks += 1
        return list(made.waiting)

    def give_up(channel: SlotChannel) -> None:
        made.given_up.append((channel.slot, made.now))
        made.waiting.remove(channel)

    made.down = []
    made.outages = Outages(AFTER_S, made, made.later, waited_for, give_up, lambda: [*made.waiting, *made.down])
    return made


def wait_for(world: Any, slot: int) -> SlotChannel:
    channel = SlotChannel(slot, world.now)
    world.waiting.append(channel)
    world.outages.watch()
    return channel


def test_it_is_given_up_when_its_time_is_over_and_hardly_later(world):
    began = world.now
    wait_for(world, 1)
    world.pass_time(3.5)
    wait_for(world, 2)
    world.pass_time(20)
    (one, at), (other, later) = world.given_up
    assert (one, other) == (1, 2)
    assert AFTER_S <= at - began <= AFTER_S + LOOK_S and AFTER_S <= later - began - 3.5 <= AFTER_S + LOOK_S


def test_slots_are_looked_at_only_while_somebody_waits(world):
    world.pass_time(60)
    assert world.looks == 0
    wait_for(world, 1)
    for _ in range(100):
        world.outages.watch()
    world.pass_time(AFTER_S + LOOK_S)
    before = world.looks
    assert before <= AFTER_S / LOOK_S + 1, "one look a second, however many ask for it"
    world.pass_time(60)
    assert world.looks == before


def test_a_slot_that_nobody_waits_for_any_more_ends_the_looking(world):
    wait_for(world, 1)
    world.pass_time(3)
    world.waiting.clear()
    world.pass_time(60)
    assert world.given_up == [] and world.looks <= 5


@pytest.mark.parametrize("waits", [True, False])
def test_what_this_process_slept_is_no_outage_of_anybody(world, waits):
    """A process that was frozen for a minute told everybody "no owner for 30 s" when it woke, though it had not looked
    for one; also who came only then."""
    began = world.now
    channel = SlotChannel(1, began)
    (world.waiting if waits else world.down).append(channel)
    world.outages.watch()
    world.pass_time(2.5)
    world.now += 60
    world.down.clear()
    if not waits:
        world.waiting.append(channel)
        world.outages.watch()
    world.pass_time(1.5)
    assert world.given_up == []
    world.pass_time(20)
    ((_, at),) = world.given_up
    assert AFTER_S + 58 <= at - began <= AFTER_S + 60 + 2 * LOOK_S


def test_a_short_limit_is_looked_at_in_time(world):
    given_up = world.given_up
    made = Outages(
        0.4, world, world.later, lambda: list(world.waiting), lambda channel: given_up.append(world.now), lambda: ()
    )
    began = world.now
    world.waiting.append(SlotChannel(1, began))
    made.watch()
    world.pass_time(0.7)
    assert world.given_up and world.given_up[0] - began <= 0.6


def test_why_is_said_with_what_to_do(world):
    channel = SlotChannel(5, 0.0)
    code, text = world.outages.unavailable(channel)
    assert code is Code.OWNER_UNAVAILABLE and "for 8 s (unavailable_after_s)" in text and "cluster status" in text
    channel.shelve("it stops its leaders", 0.0)
    code, text = world.outages.unavailable(channel)
    assert code is Code.SLOT_SHELVED and "slot 5" in text and "cluster status" in text
