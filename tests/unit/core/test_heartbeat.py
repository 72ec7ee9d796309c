"""A process at rest wakes up seldom and once for all it has to say; who listens never waits for longer than before."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from broker.core.heartbeat import CALM_S, LATE, SHORT, Heartbeat, pause, until_look

PERIOD = 0.08
SILENCE = 0.5


def looks(count: int, since: float = 1000.03) -> list[float]:
    """When a process looks that began at that time."""
    found = [since]
    for _ in range(count):
        found.append(found[-1] + until_look(found[-1], PERIOD, SILENCE))
    return found[1:]


def spoken(said: list[bool], times: list[float], every: int) -> list[int]:
    """The looks that had a heart-beat sent."""
    beat = Heartbeat(PERIOD, every)
    return [n for n, (was, now) in enumerate(zip(said, times, strict=True)) if beat.due(was, now)]


def test_all_that_look_do_so_at_the_same_moments_whenever_they_began():
    one, other = looks(10, 1000.03), looks(10, 1000.07)
    assert one == pytest.approx(other) and one[1] - one[0] == pytest.approx(PERIOD)


def test_a_timer_that_is_early_or_late_changes_no_later_look():
    due = 1000.0
    assert until_look(due - SHORT * PERIOD / 2, PERIOD, SILENCE) == pytest.approx(PERIOD * (1 + SHORT / 2)), "not twice"
    assert until_look(due + PERIOD / 2, PERIOD, SILENCE) == pytest.approx(PERIOD / 2)
    assert 0 < until_look(due, PERIOD, SILENCE) <= PERIOD * (1 + SHORT)


def test_at_rest_every_second_look_has_a_heart_beat_and_all_streams_of_a_process_the_same_ones():
    times = looks(100)
    began = spoken([False] * 100, times, 2)
    later = spoken([True] + [False] * 98, times[1:], 2)
    assert len(began) == pytest.approx(50, abs=1)
    assert began[-20:] == [n + 1 for n in later][-20:]


def test_where_there_is_no_room_for_pauses_every_look_has_one_unless_something_was_said():
    assert spoken([False, True, True, False, False], looks(5), 1) == [0, 3, 4]


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_is_never_silent_for_more_than_two_periods_whatever_is_said_on_it(seed):
    random = Random(seed)
    times = looks(400)
    said = [random.random() < random.choice((0.0, 0.1, 0.5)) for _ in times]
    beats = set(spoken(said, times, 2))
    # Within a period it may have been said at its very beginning: the look before.
    words = [n - 1 for n, was in enumerate(said) if was] + sorted(beats)
    heard = [-1, *sorted(words), len(times)]
    assert max(b - a for a, b in pairwise(heard)) <= 2


def test_a_pause_is_only_where_silence_and_promise_leave_room_for_it():
    assert pause(0.08, 0.5) == pause(0.08, 0.5, 0.25) == 2, "what the settings say where nobody has changed them"
    assert pause(0.1, 0.5) == 1, "a heart-beat that is lost must not be a third of all that are waited for"
    assert pause(0.08, 0.5, 0.16) == 1, "the promise would run out before it is renewed"
    assert pause(0.1, 10.0) == 2
    assert until_look(1000.03, 0.1, 0.5) == 0.1, "there all goes on as without pauses"


def test_no_pause_is_longer_than_other_settings_bear():
    """One whose settings had been raised fourfold was silent for 640 ms, which the others took for its death."""
    assert pause(0.08, 0.5) == pause(0.1, 0.7) == 2
    assert pause(0.101, 10.0) == pause(0.32, 2.0) == pause(0.8, 5.0) == pause(0.5, 3.0) == 1


def test_who_was_late_leaves_nothing_out_until_it_was_punctual_for_a_while():
    times = looks(20)
    late = times[-1] + PERIOD * (1 + 1.1 * LATE)
    times += [late, *looks(100, late)]
    beats = spoken([False] * len(times), times, 2)
    assert len([n for n in beats if n < 20]) == 10
    restless = [n for n in range(20, len(times)) if times[n] - late < CALM_S]
    assert [n for n in beats if n in restless] == restless
    after = [n for n in beats if times[n] > late + CALM_S + PERIOD]
    assert {b - a for a, b in pairwise(after)} == {2} and len(after) > 20


def test_so_does_who_is_answered_late():
    beat = Heartbeat(PERIOD, 2)
    beat.late(LATE * PERIOD / 2, 999.9)
    times = looks(10)
    assert sum(beat.due(False, now) for now in times) == 5
    beat.late(LATE * PERIOD * 1.1, times[-1])
    assert all(beat.due(False, now) for now in looks(10, times[-1]))
