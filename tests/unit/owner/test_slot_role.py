"""What an owner is to one slot: each change that callbacks of the old state must notice makes a new role."""

from __future__ import annotations

import pytest

from broker.core.states import IllegalMove
from broker.owner.slots.slot_role import LAST_RETRY_S, RETRY_S, RoleState, SlotRole


def leading():
    role = SlotRole.is_named(SlotRole.follows(1), 2)
    role.fences()
    role.leads()
    return role


def test_the_life_of_a_leader():
    following = SlotRole.follows(1)
    named = SlotRole.is_named(following, 2)
    assert named is not following and (named.state, named.epoch) == (RoleState.UNPROMISED, 2)
    named.fences()
    named.leads()
    named.hands_over()
    named.leads()
    named.suspends()
    stepping = named.steps_down(3)
    assert stepping is not named and (stepping.state, stepping.epoch) == (RoleState.STEPPING_DOWN, 3)
    assert named.state is RoleState.SUSPENDED, "whoever holds it sees by the identity that it is over"
    assert stepping.stands(4).state is RoleState.FOLLOWING


def test_nothing_is_led_before_it_is_fenced():
    with pytest.raises(IllegalMove):
        SlotRole.is_named(None, 2).leads()
    with pytest.raises(IllegalMove):
        SlotRole.follows(1).fences()


def test_who_steps_down_does_not_lead_again_without_following():
    stepping = leading().steps_down(3)
    for move in (stepping.leads, stepping.fences, stepping.hands_over, stepping.suspends):
        with pytest.raises(IllegalMove):
            move()
    with pytest.raises(IllegalMove):
        SlotRole.is_named(stepping, 4)


def test_a_transfer_that_is_not_answered_is_tried_ever_more_rarely():
    role = leading()
    waits = [role.waits_longer() for _ in range(12)]
    assert waits[:3] == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S] and waits[-1] == LAST_RETRY_S
