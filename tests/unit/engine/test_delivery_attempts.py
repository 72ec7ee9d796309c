"""How often messages were out in vain: set by the log, forgotten when they are settled."""

from __future__ import annotations

import pytest

from broker.engine.queue.delivery_attempts import DeliveryAttempts


def noted() -> DeliveryAttempts:
    tries = DeliveryAttempts()
    tries.note(range(1, 6), 2, 900)
    tries.note([10], 0, 0)
    return tries


def test_to_replay_a_record_twice_does_no_harm_and_the_last_word_counts():
    tries = noted()
    tries.note(range(1, 6), 2, 900)
    assert tries.counts == {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 10: 0} and tries.due == dict.fromkeys(range(1, 6), 900)
    tries.note([2, 3], 3, 0)
    assert (tries.counts[2], tries.counts[4]) == (3, 2)
    assert set(tries.due) == {1, 4, 5}, "it came at once the last time"


@pytest.mark.parametrize(
    ("spans", "left"),
    [([(2, 3)], [1, 4, 5, 10]), ([(0, 1 << 60)], []), ([(5, 10), (1, 1)], [2, 3, 4]), ([], [1, 2, 3, 4, 5, 10])],
)
def test_what_is_settled_is_forgotten_whichever_walk_is_shorter(spans, left):
    tries = noted()
    tries.forget(spans)
    assert list(tries.counts) == left and set(tries.due) == set(left) - {10}


def test_after_a_restart_only_those_stay_that_live():
    tries = noted()
    tries.keep(lambda i: i in (3, 10))
    assert tries.counts == {3: 2, 10: 0} and tries.due == {3: 900}
