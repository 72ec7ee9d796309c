"""Numbers of the vocabulary go to disks and to other releases: they stay what they are."""

from __future__ import annotations

from broker.core.address import RECURRING, TEMPORARY, AckMode, Outcome, Routing


def test_numbers_and_names_that_others_have_stored():
    assert [(one.name, one.value) for one in Routing] == [("UNSET", 0), ("ANYCAST", 1), ("MULTICAST", 2)]
    assert [(one.name, one.value) for one in AckMode] == [("AUTO", 0), ("CLIENT", 1), ("INDIVIDUAL", 2)]
    assert {one.name: one.value for one in Outcome} == {"ACK": 1, "NACK": 2, "RETURN": 3, "REJECT": 4, "UNREADABLE": 5}
    assert (TEMPORARY, RECURRING) == ("$temp.", "$scheduled.")
