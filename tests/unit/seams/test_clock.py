"""The clock that delays are counted by: steps of the system's move nothing, and it comes after all."""

from __future__ import annotations

import pytest

from broker.seams.clock import FAR_S, RATE, STEP_S, SteadyClock

HOUR = 3_600_000


class System:
    """Of a machine whose wall clock is set."""

    def __init__(self) -> None:
        self.wall, self.passed = 1_700_000_000_000, 50.0

    def run(self, clock: SteadyClock, seconds: int) -> int:
        """Looked at every second."""
        for _ in range(seconds):
            self.wall += 1000
            self.passed += 1
            clock.wall_ms()
        return clock.wall_ms()


@pytest.fixture
def system() -> System:
    return System()


@pytest.fixture
def clock(system: System) -> SteadyClock:
    return SteadyClock(lambda: system.wall / 1000, lambda: system.passed)


def test_it_is_the_wall_clock_where_that_is_left_alone(system, clock):
    assert system.run(clock, 100) == system.wall and clock.ahead == 0


@pytest.mark.parametrize("step", [-HOUR, -5_000, 5_000, HOUR])
def test_a_length_of_time_is_right_to_the_rate_whatever_is_set(system, clock, step):
    begun = clock.wall_ms()
    system.wall += step
    passed = system.run(clock, 60) - begun
    assert abs(passed - 60_000) <= 60_000 * RATE + 1
    assert abs(clock.ahead - (clock.wall_ms() - system.wall)) <= 1
    assert abs(clock.ahead + step) <= 60_000 * RATE + 1


def test_it_comes_to_be_the_wall_clock_again(system, clock):
    system.wall -= 60_000
    now = system.run(clock, int(60 / RATE) + 1)
    assert abs(now - system.wall) <= 1 and clock.ahead == 0


def test_it_never_goes_back(system, clock):
    seen = [clock.wall_ms()]
    for step in (-HOUR, HOUR, -7_000, 3, -3):
        system.wall += step
        for _ in range(20):
            system.wall += 10
            system.passed += 0.01
            seen.append(clock.wall_ms())
    assert seen == sorted(seen)


def test_seconds_that_it_was_not_asked_count(system, clock):
    system.wall += 90_000
    system.passed += 90
    assert clock.wall_ms() == system.wall


def test_what_had_not_been_set_is_set_at_once(system, clock):
    """A machine that begins in 1970 and hears of the time later: what is due this year must not wait for it."""
    for days in (2, -2):
        system.wall += days * int(FAR_S * 1000)
        assert clock.wall_ms() == system.wall and clock.ahead == 0


def test_small_corrections_are_no_step(system, clock):
    system.wall -= int(STEP_S * 1000) - 1
    clock.wall_ms()
    assert clock.ahead == 0
