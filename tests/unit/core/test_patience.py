"""A silence is borne longer after false alarms, and only then, and not for ever."""

from __future__ import annotations

import pytest

from broker.core.patience import ANSWER_S, CALM_S, MOST, SHORTLY_S, Patience, stood_still


def alarm(patience: Patience, now: float, after: float = 0.1) -> bool:
    patience.judged(now)
    return patience.answered(now + after)


def test_at_first_it_is_what_the_settings_say():
    patience = Patience(0.5)
    assert patience.silence(1e6) == 0.5 and patience.answer(1e6) == ANSWER_S
    assert Patience(4.0).answer(0) == 4.0
    assert not patience.answered(10), "nobody was given up"
    assert patience.silence(10) == 0.5


def test_each_false_alarm_doubles_it_up_to_a_bound():
    patience = Patience(0.5)
    for factor in (2, 4, 8, 8, 8):
        assert alarm(patience, 100)
        assert patience.silence(101) == 0.5 * factor
    assert patience.answer(101) == ANSWER_S * MOST and patience.stretched(0.3, 101) == 0.3 * MOST


def test_one_alarm_is_learned_from_once():
    patience = Patience(0.5)
    patience.judged(100)
    patience.judged(101)
    assert patience.answered(102) and not patience.answered(103)
    assert patience.silence(104) == 1.0


def test_every_calm_minute_halves_it():
    patience = Patience(0.5)
    for _ in range(3):
        alarm(patience, 100, after=0)
    expected = ((100 + CALM_S - 1, 4.0), (101 + CALM_S, 2.0), (101 + 2 * CALM_S, 1.0), (101 + 9 * CALM_S, 0.5))
    assert [patience.silence(at) for at, _ in expected] == [silence for _, silence in expected]
    alarm(patience, 101 + 2 * CALM_S)
    assert patience.silence(102 + 2 * CALM_S) == 2.0, "it goes on from where it had fallen to"


@pytest.mark.parametrize("after", [SHORTLY_S + 1, 3600])
def test_who_was_away_for_long_was_judged_rightly(after):
    patience = Patience(0.5)
    assert not alarm(patience, 100, after)
    assert patience.silence(100 + after) == 0.5


def test_a_process_that_was_restarted_was_judged_rightly():
    patience = Patience(0.5)
    patience.judged(100, "one boot")
    assert not patience.answered(101, "another")
    patience.judged(100)
    patience.ended()
    assert not patience.answered(101)
    assert patience.silence(102) == 0.5


def test_only_what_a_tick_is_late_was_our_own_standing_still():
    assert stood_still(10.0, 10.08, 0.08) == pytest.approx(0)
    assert stood_still(10.0, 10.05, 0.08) == 0
    assert stood_still(10.0, 11.0, 0.08) == pytest.approx(0.92)
