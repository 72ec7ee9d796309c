"""A StompAcceptor's connections: those of its own pods, written at a coarse step, and not at all while they stay."""

from __future__ import annotations

import pytest
from broker_operator.spec.names import ACCEPTOR, Id
from broker_operator.world import connection_counts
from broker_operator.world.connection_counts import EVERY_S, MINUTE_S, Counts

EDGE = Id(ACCEPTOR, "mq", "edge")


def test_only_pods_of_the_pool_count():
    loads = {
        "web-edge-5d9c7-x7x2p": 3, "web-edge-5d9c7-9kkld": 5, "web-edge-edge-5d9c7-9kkld": 7, "web-2-edge-5d9c7-ab": 9,
        "edge-1": 11,
    }  # fmt: skip
    assert sorted(connection_counts.of_pool("web", loads)) == [3, 5]
    assert connection_counts.of_pool("web-edge", loads) == [7]
    assert connection_counts.fields([3, 5]) == {"connections": 8, "connectionsPerPod": {"least": 3, "most": 5}}
    assert connection_counts.fields([]) == {"connections": 0}


def test_the_first_number_is_told_at_once_and_the_same_one_never_again():
    found, some = Counts(), connection_counts.fields([100])
    assert found.due(EDGE, {}, some, 0.0) == (some, None)
    assert found.due(EDGE, some, some, 1000.0) == (some, None)


@pytest.mark.parametrize(
    ("before", "after", "wait"),
    [(100, 111, EVERY_S), (100, 89, EVERY_S), (100, 105, MINUTE_S), (0, 1, EVERY_S), (1, 0, EVERY_S), (3, 4, MINUTE_S)],
)
def test_large_changes_wait_a_little_and_small_ones_a_minute(before, after, wait):
    found, old, new = Counts(), connection_counts.fields([before]), connection_counts.fields([after])
    assert found.due(EDGE, {}, old, 100.0) == (old, None)
    assert found.due(EDGE, old, new, 101.0) == (old, wait - 1)
    assert found.due(EDGE, old, new, 100.0 + wait) == (new, None)


def test_what_was_to_be_written_and_does_not_show_is_said_again_at_once():
    """The write failed, or what is known of the status is from before it."""
    found, old, new, newer = (
        Counts(),
        connection_counts.fields([100]),
        connection_counts.fields([400]),
        connection_counts.fields([401]),
    )
    assert found.due(EDGE, {}, old, 0.0) == (old, None)
    assert found.due(EDGE, old, new, 100.0) == (new, None)
    assert found.due(EDGE, old, new, 101.0) == (new, None)
    assert found.due(EDGE, old, newer, 102.0) == (new, MINUTE_S - 2), "nor does the number before come back"
    assert found.due(EDGE, old, old, 103.0) == (old, None)


def test_while_nobody_knows_the_old_numbers_stay():
    some = connection_counts.fields([100])
    assert Counts().due(EDGE, {"replicas": 2, **some}, {}, 0.0) == (some, None)


def test_numbers_that_swing_are_written_at_a_bounded_rate():
    found, said, writes = Counts(), {}, 0
    for tenth in range(3000):
        new = connection_counts.fields([1000 if tenth % 2 else 10])
        shown, _ = found.due(EDGE, said, new, tenth / 10)
        writes, said = writes + (shown != said), shown
    assert writes <= 300 / EVERY_S + 1
