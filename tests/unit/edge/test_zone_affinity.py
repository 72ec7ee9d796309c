"""Slots that are led in the edge's own zone."""

from __future__ import annotations

from broker.edge.destinations.zone_affinity import ZoneAffinity


def test_where_none_is_near_all_are_as_good():
    near = ZoneAffinity()
    assert near.among((3, 5, 9)) == (3, 5, 9)
    near.led(4, True)
    assert near.among((3, 5, 9)) == (3, 5, 9)


def test_only_those_that_are_near_and_in_their_order():
    near = ZoneAffinity()
    near.led(9, True)
    near.led(3, True)
    assert near.among((3, 5, 9)) == (3, 9)
    near.led(3, False)
    assert near.among((3, 5, 9)) == (9,)


def test_another_number_says_that_something_has_changed_and_only_then():
    near = ZoneAffinity()
    near.led(3, False)
    assert near.version == 0
    near.led(3, True)
    near.led(3, True)
    assert near.version == 1
    near.led(3, False)
    assert near.version == 2
