"""The wake-up of the owner, on a virtual loop whose wall clock is set forth and back."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import pytest

from broker.app.process.alarm import LOOK_S, Alarm


class Timer:
    def __init__(self, callback: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.callback, self.args, self.cancelled = callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """Both a loop (monotonic) and a wall clock, which a step sets."""

    def __init__(self) -> None:
        self.now, self.step_ms, self.woken = 0.0, 1_000_000_000, 0
        self.timers: list[tuple[float, int, Timer]] = []
        self.fired: list[float] = []

    def wall_ms(self) -> int:
        return int(self.now * 1000) + self.step_ms

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Timer:
        timer = Timer(callback, args)
        heappush(self.timers, (self.now + delay, id(timer), timer))
        return timer

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            self.now, _, timer = heappop(self.timers)
            if not timer.cancelled:
                self.woken += 1
                timer.callback(*timer.args)
        self.now = end

    def ring(self) -> None:
        self.fired.append(self.now)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def alarm(world: World) -> Alarm:
    return Alarm(world, world.wall_ms)  # type: ignore[arg-type]


def test_it_comes_at_its_time_and_not_again(world, alarm):
    alarm.set(world.wall_ms() + 3_600_500, world.ring)
    world.run(7200)
    assert world.fired == [pytest.approx(3600.5, abs=0.01)]
    assert world.woken <= 3602


@pytest.mark.parametrize("left", [0, -5_000])
def test_a_time_that_has_passed_comes_at_once(world, alarm, left):
    alarm.set(world.wall_ms() + left, world.ring)
    world.run(0)
    assert len(world.fired) == 1


def test_a_clock_set_forth_is_seen_within_a_second(world, alarm):
    alarm.set(world.wall_ms() + 60_000, world.ring)
    world.run(10)
    world.step_ms += 3_600_000
    world.run(LOOK_S)
    assert len(world.fired) == 1


def test_a_clock_set_back_and_forth_again_delays_nobody(world, alarm):
    """A message due in 4 s had not come after 49 s."""
    world.step_ms -= 3_600_000
    alarm.set(world.wall_ms() + 3_604_000, world.ring)
    world.run(2)
    world.step_ms += 3_600_000
    world.run(2 + LOOK_S)
    assert len(world.fired) == 1


def test_a_later_call_replaces_an_earlier_one_also_after_it_has_looked(world, alarm):
    alarm.set(world.wall_ms() + 5_000, world.ring)
    world.run(2.5)
    alarm.set(world.wall_ms() + 10_000, world.ring)
    world.run(20)
    assert world.fired == [pytest.approx(12.5, abs=0.01)]


def test_none_comes_after_the_end(world, alarm):
    alarm.set(world.wall_ms() + 5_000, world.ring)
    world.run(2.5)
    alarm.stop()
    alarm.set(world.wall_ms(), world.ring)
    world.run(20)
    assert world.fired == []
