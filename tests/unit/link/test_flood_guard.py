"""What is too often, and that nothing of a name stays."""

from __future__ import annotations

from broker.link.owner_side.flood_guard import FLOOD, FLOOD_S, FloodGuard


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


def test_so_many_in_that_time_are_too_many_and_one_less_is_not():
    clock = Clock()
    guard = FloodGuard(clock)
    for _ in range(FLOOD):
        assert not guard.flooded("edge-1")
        guard.count("edge-1")
        clock.now += FLOOD_S / FLOOD / 2
    assert guard.flooded("edge-1") and not guard.flooded("edge-2")


def test_it_is_over_when_the_first_of_them_is_old():
    clock = Clock()
    guard = FloodGuard(clock)
    for _ in range(FLOOD):
        guard.count("edge-1")
        clock.now += 0.1
    clock.now = 100.0 + FLOOD_S - 0.01
    assert guard.flooded("edge-1")
    clock.now = 100.0 + FLOOD_S
    assert not guard.flooded("edge-1")


def test_names_that_are_silent_are_forgotten():
    clock = Clock()
    guard = FloodGuard(clock)
    for n in range(1000):
        guard.count(f"host {n}")
        clock.now += 0.1
    assert len(guard._events) <= FLOOD_S / 0.1 + 1
