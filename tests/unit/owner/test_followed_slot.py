"""A slot that is followed: whose items count, and whether what is here is whole."""

from __future__ import annotations

import pytest

from broker.core.states import IllegalMove
from broker.owner.replication.following.followed_slot import FollowedSlot, FollowedState

OLD, NEW, STREAM, OTHER = "old standby", "new standby", "stream", "other stream"


@pytest.fixture
def followed():
    return FollowedSlot(OLD)


def test_it_begins_with_what_is_here_and_nobodys_items(followed):
    assert followed.state is FollowedState.UNLED and not followed.partial
    assert followed.standby == OLD and followed.source is None and followed.counted is None


def test_a_newer_leader_takes_the_place_of_an_older_one(followed):
    followed.led_by(STREAM)
    followed.led_by(OTHER)
    assert followed.state is FollowedState.LED and followed.source == OTHER
    followed.left_alone()
    assert followed.state is FollowedState.UNLED and followed.source is None and followed.standby == OLD


def test_what_counts_never_becomes_less(followed):
    followed.led_by(STREAM)
    for lsn, counted in ((0, 0), (7, 7), (5, 7), (9, 9)):
        followed.counts(lsn)
        assert followed.counted == counted
    followed.left_alone()
    assert followed.counted == 9, "it was told to somebody"


def test_a_copy_replaces_what_was_here(followed):
    followed.led_by(STREAM)
    followed.counts(7)
    followed.copies(NEW)
    assert followed.partial and followed.standby == NEW and followed.counted is None
    followed.copies(OLD)
    assert followed.state is FollowedState.COPYING and followed.standby == OLD, "and may begin once more"
    followed.is_whole()
    assert followed.state is FollowedState.LED and not followed.partial


def test_half_a_copy_stays_half_until_it_is_forgotten(followed):
    followed.led_by(STREAM)
    followed.copies(NEW)
    followed.left_alone()
    assert followed.state is FollowedState.HALF and followed.partial
    followed.empties(OLD)
    followed.led_by(OTHER)
    assert followed.state is FollowedState.LED and followed.standby == OLD and followed.source == OTHER


def test_a_leader_that_asks_while_a_copy_comes_ends_the_copy(followed):
    followed.led_by(STREAM)
    followed.copies(NEW)
    followed.led_by(OTHER)
    assert followed.state is FollowedState.LED


def test_nobody_sends_a_copy_whose_items_do_not_count(followed):
    with pytest.raises(IllegalMove):
        followed.copies(NEW)
    assert followed.standby == OLD


def test_whom_nobody_leads_nobody_leaves(followed):
    with pytest.raises(IllegalMove):
        followed.left_alone()
