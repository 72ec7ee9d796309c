"""Conditions: what a status says, when it is written, and until when nothing is changed."""

from __future__ import annotations

import pytest
from broker_operator.spec.conditions import Condition, new_status, paused, ready, rfc3339, seconds_of
from broker_operator.spec.model import Resource
from broker_operator.spec.names import ADDRESS, PAUSED

from .builders import resource

NOW = 1_800_000_000.0


def test_a_status_is_written_only_when_it_says_something_new():
    one = resource(ADDRESS)
    wanted = (Condition("Accepted", True, "Accepted"), ready(Condition("Accepted", True, "Accepted")))
    status = new_status(one, wanted, {"address": "orders", "adopted": None}, NOW)
    assert status is not None and "adopted" not in status
    again = Resource({**one.raw, "status": status})
    assert new_status(again, wanted, {"address": "orders"}, NOW + 60) is None
    later = new_status(again, (Condition("Accepted", False, "Conflict"),), {"address": "orders"}, NOW + 60)
    assert later["conditions"][0]["lastTransitionTime"] == rfc3339(NOW + 60)
    assert later["conditions"][0]["observedGeneration"] == 1


def test_ready_says_what_the_first_missing_part_says():
    found = ready(Condition("A", True, "Fine"), Condition("B", None, "Unknown", "why"), Condition("C", False, "Bad"))
    assert found == Condition("Ready", None, "Unknown", "why")


@pytest.mark.parametrize(
    ("text", "left"),
    [("true", float("inf")), ("", None), ("false", None), (rfc3339(NOW + 60), 60), (rfc3339(NOW - 60), None),
     ("until tomorrow", float("inf"))],
)  # fmt: skip
def test_pauses(text, left):
    one = resource(ADDRESS)
    one.raw["metadata"]["annotations"] = {PAUSED: text}
    assert paused(one, NOW) == left


def test_times():
    assert seconds_of(rfc3339(NOW)) == NOW and seconds_of("never") is None and seconds_of("2026-01-01") is None
