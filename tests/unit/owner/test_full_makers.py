"""Who may keep no more in the queues that he has made: as told last, and only as long as somebody tells it."""

from __future__ import annotations

from collections.abc import Callable

from broker.engine.state.budget import Budget
from broker.owner.shard.full_makers import LONGEST_S, FullMakers


class Time:
    """A clock whose alarms ring when it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.alarms: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.alarms.append((self.now + seconds, callback))

    def move(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.alarms if each[0] <= self.now]
        self.alarms = [each for each in self.alarms if each[0] > self.now]
        for _, callback in due:
            callback()


def made() -> tuple[FullMakers, Budget, Time]:
    budget, time = Budget(9), Time()
    return FullMakers(budget, lambda: time.now, time.later), budget, time


def test_it_holds_as_long_as_it_is_told_and_has_one_alarm():
    full, budget, time = made()
    for _ in range(5):
        full.told(["ada"], 4.0)
        time.move(1.0)
    assert budget.full_makers == {"ada"} and len(time.alarms) == 1
    time.move(2.9)
    assert budget.full_makers == {"ada"}
    time.move(0.2)
    assert not budget.full_makers and not time.alarms


def test_who_is_told_last_is_believed():
    full, budget, time = made()
    full.told(["ada"], 4.0)
    full.told([], 4.0)
    assert not budget.full_makers
    time.move(4.0)
    assert not time.alarms, "where nobody is full nothing is waited for"


def test_what_edges_say_that_look_for_seconds_holds_until_their_next_look():
    full, budget, time = made()
    looks = 5.0
    full.told(["ada"], 4 * 20 * looks)
    time.move(21 * looks)
    assert budget.full_makers == {"ada"}


def test_nobody_can_say_that_it_holds_for_ever():
    full, budget, time = made()
    full.told(["ada"], 1e9)
    time.move(LONGEST_S)
    assert not budget.full_makers
