"""Full addresses over the link: an edge forgets what an owner said of a slot when anybody else may lead it."""

from __future__ import annotations

import pytest

from broker.core.effects import AddressBlocked
from tests.unit.link.two import SLOT, TOKEN, Two, publish


@pytest.fixture
def two():
    two = Two()
    two.submit(publish(1))
    return two


def tell(two, owner, full, session=1, passing=False):
    owner.effects(AddressBlocked(TOKEN << 40 | session, SLOT, "a", full, passing))
    two.world.run()


def told(two):
    return [(c.session, c.slot, c.address, c.full) for c in two.edge.of(AddressBlocked)]


def test_the_edge_hears_of_it_and_of_its_end(two):
    tell(two, two.a, True)
    tell(two, two.a, False)
    assert told(two) == [(1, SLOT, "a", True), (1, SLOT, "a", False)]


def test_a_new_leader_ends_what_the_last_one_said(two):
    tell(two, two.a, True)
    tell(two, two.a, True, session=2)
    two.fail_over()
    assert sorted(told(two)[2:]) == [(1, SLOT, "a", False), (2, SLOT, "a", False)]


def test_a_stream_that_broke_may_have_lost_the_end_of_it(two):
    tell(two, two.a, True)
    two.world.cut()
    two.world.pass_time(0.5)
    assert told(two)[-1] == (1, SLOT, "a", False)


def test_both_reasons_end_with_their_leader(two):
    for passing in (False, True):
        tell(two, two.a, True, passing=passing)
    two.fail_over()
    ended = [told.passing for told in two.edge.of(AddressBlocked) if not told.full]
    assert sorted(ended) == [False, True]


def test_who_is_not_read_for_an_owner_is_read_when_that_has_gone(two):
    tell(two, two.a, True)
    tell(two, two.a, True, passing=True)
    two.world.cut()
    two.world.run()
    assert [(told.full, told.passing) for told in two.edge.of(AddressBlocked)][2:3] == [(False, True)]


def test_an_old_leader_is_not_heard(two):
    two.fail_over()
    tell(two, two.a, True)
    assert told(two) == []
