"""Owners are asked whether AUTO deliveries are settled: once a second, one question a slot, none to nobody."""

from __future__ import annotations

from typing import Any

import pytest

from broker.link.edge_side.auto_marks import MARK_S, AutoMarks
from broker.link.edge_side.slot_channel import SlotChannel

from .world import World


@pytest.fixture
def world() -> Any:
    made = World()
    made.sent = []
    made.marks = AutoMarks(made.later, lambda channel, question, nbytes: made.sent.append(channel.slot))
    return made


def slot_channel(slot: int) -> SlotChannel:
    channel = SlotChannel(slot, 0.0)
    channel.open()
    return channel


def test_many_deliveries_are_one_question(world):
    one, other = slot_channel(1), slot_channel(2)
    for _ in range(5):
        world.marks.given(one)
    world.marks.given(other)
    assert len(world.timers) == 1
    world.pass_time(MARK_S * 0.9)
    assert world.sent == []
    world.pass_time(MARK_S)
    assert world.sent == [1, 2]
    world.pass_time(10 * MARK_S)
    assert world.sent == [1, 2], "nothing was given since"


def test_the_next_question_waits_for_the_answer_to_the_first(world):
    channel = slot_channel(1)
    world.marks.given(channel)
    world.pass_time(MARK_S)
    world.marks.given(channel)
    world.pass_time(3 * MARK_S)
    assert world.sent == [1]
    channel.unmark(True)
    world.pass_time(MARK_S)
    assert world.sent == [1, 1]


def test_nobody_is_asked_while_nobody_leads(world):
    channel = SlotChannel(1, 0.0)
    world.marks.given(channel)
    world.pass_time(5 * MARK_S)
    assert world.sent == []
    channel.open()
    world.pass_time(MARK_S)
    assert world.sent == [1], "what was given is still to be asked for"
