"""What becomes of a record when an owner comes back without its disk, and with it."""

from __future__ import annotations

import pytest

from broker.cluster.identity import check_name, ghost, is_ghost, revived, without
from broker.core.errors import ConfigError
from broker.core.slots import SlotRecord


def record(leader, replicas, isr, target=""):
    return SlotRecord(7, 4, leader, tuple(replicas), tuple(isr), target, 9)


def test_a_follower_leaves_and_the_leader_stays():
    assert without(record("a", "abc", "abc"), "b", "old") == record("a", "ac", "ac")
    assert without(record("a", "abc", "ac"), "b", "old") == record("a", "ac", "ac")


def test_a_leader_that_knows_nothing_leads_no_more():
    new = without(record("a", "abc", "abc", "b"), "a", "old")
    assert (new.leader, new.epoch, new.isr, new.target) == ("", 5, ("b", "c"), "b")


def test_a_target_that_knows_nothing_is_none():
    assert without(record("a", "abc", "abc", "b"), "b", "old").target == ""


def test_who_is_not_in_a_record_is_not_concerned():
    assert without(record("a", "ab", "ab"), "c", "old") is None
    assert revived(record("a", "ab", "ab"), "a", "disk") is None


def test_the_last_copy_stays_in_the_isr_as_a_ghost_of_its_disk():
    new = without(record("a", "ab", "a"), "a", "old")
    assert new.isr == ("a@old",) and new.replicas == ("b", "a@old") and new.leader == ""
    assert without(new, "a", "old") is None
    assert revived(new, "a", "other") is None
    back = revived(new, "a", "old")
    assert back.isr == ("a",) and back.replicas == ("b", "a")


@pytest.mark.parametrize("name", ["owner-0", "a", "stampede-owner-0.zone_1"])
def test_names(name):
    check_name(name)
    assert not is_ghost(name) and is_ghost(ghost(name, ""))


@pytest.mark.parametrize("name", ["", "a/b", "a@b", "-a", "a b", "ä", "a" * 129])
def test_names_that_could_be_mistaken_are_refused(name):
    with pytest.raises(ConfigError, match=r"cluster\.id"):
        check_name(name)
