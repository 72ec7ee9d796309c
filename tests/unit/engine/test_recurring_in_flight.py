"""A message that is sent again and again is on its way, comes back, or is not to."""

from __future__ import annotations

from broker.core.message import Run
from broker.engine.queue.recurring_in_flight import MOST, OnTheirWay


def test_what_is_taken_back_meanwhile_does_not_come_again():
    queue = OnTheirWay()
    for id in (1, 2):
        queue.left(Run([id], b"", [b"\n\0"], 2))
    assert set(queue.flying) == {1, 2}
    queue.doom([2])
    assert queue.back(1) and not queue.back(2) and queue.flying == {}
    assert queue.back(2), "it was said once"


def test_of_very_many_that_are_taken_back_the_latest_are_remembered():
    queue = OnTheirWay()
    queue.doom(range(MOST))
    queue.doom([MOST])
    assert queue.ends(MOST) and queue.ends(MOST - 1) and queue.ends(1)
    assert not queue.ends(0)
