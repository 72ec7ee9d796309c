"""The watchdog: every step is counted once, slow ones are told of with what was ours, once a second."""

from __future__ import annotations

import logging

import pytest

from broker.seams.loop_watchdog import (
    BOUNDS_S,
    EVERY_S,
    MARK_S,
    PORTION,
    PORTION_MOST_S,
    PORTION_S,
    SLOW_S,
    StepKindStats,
    Steps,
    portion,
)

TINY = 1 / 1024
"""Exact in binary, as are its sums: bounds are met, not nearly met."""


class Machine:
    """A clock and a processor that the test turns."""

    def __init__(self) -> None:
        self.now, self.used, self.looks = 64.0, 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        raise AssertionError("a wall clock measures nothing")

    def cpu(self) -> float:
        self.looks += 1
        return self.used

    def step(self, kind: StepKindStats, seconds: float, computing: float = 0.0) -> bool:
        began = kind.begin()
        self.now += seconds
        self.used += computing
        return kind.took(began)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def steps(machine: Machine) -> Steps:
    return Steps(machine, machine.cpu)


def test_each_step_is_counted_once_where_it_belongs(machine, steps):
    kind = steps.kind("turn")
    lengths = [0.0, TINY, TINY * 2, TINY * 10, TINY * 30, TINY * 60, 0.5, 2.0]
    slow = [machine.step(kind, seconds) for seconds in lengths]
    assert slow == [seconds > SLOW_S for seconds in lengths]
    bounds, counts, total, _ = kind.histogram()
    assert bounds == list(BOUNDS_S) and counts == [2, 1, 1, 1, 1, 1, 1] and total == sum(lengths)
    assert (kind.slow, kind.longest, kind.span) == (3, 2.0, 2.0)


def test_a_quick_step_leaves_what_was_said_of_the_last_long_one(machine, steps):
    kind = steps.kind("turn")
    machine.step(kind, 0.5)
    machine.step(kind, 0.0)
    assert (kind.span, kind.longest, kind.quick) == (0.5, 0.5, 1)


def test_of_a_slow_step_is_said_how_much_of_it_was_computed(machine, steps, caplog):
    kind = steps.kind("turn")
    assert machine.step(kind, 0.5, computing=0.25)
    assert kind.ours == 0.25
    with caplog.at_level(logging.WARNING):
        kind.tell("Publish to 'orders'")
    assert caplog.messages == [
        "a turn took 500 ms (250 ms of them computing), everybody else has waited: Publish to 'orders'"
    ]


def test_what_was_computed_before_the_step_is_not_its_own(machine, steps):
    """The processor is looked at rarely: from the look on no more can have been used than time has passed."""
    kind = steps.kind("turn")
    machine.step(kind, MARK_S / 2, computing=MARK_S / 2)
    assert machine.step(kind, 0.5, computing=0.0)
    assert kind.ours < 1e-9, "all that was used since the look may have been used before"
    machine.step(kind, MARK_S / 2)
    assert machine.step(kind, 0.5, computing=0.5) and 0.5 - MARK_S <= kind.ours <= 0.5


def test_the_processor_is_asked_rarely_however_many_steps_and_kinds(machine, steps):
    kinds = [steps.kind("turn"), steps.kind("read")]
    for _ in range(100):
        for kind in kinds:
            machine.step(kind, 0.0)
    assert machine.looks == 1
    machine.now += 2 * MARK_S
    for kind in kinds:
        machine.step(kind, 0.0)
    assert machine.looks == 2


def test_it_is_told_once_a_second_and_what_was_not_told_is_counted(machine, steps, caplog):
    turn, read = steps.kind("turn"), steps.kind("read")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            machine.step(turn, EVERY_S / 8)
            turn.tell("a")
        machine.step(read, EVERY_S / 8)
        read.tell("b")
        machine.now += EVERY_S
        turn.tell("c")
        machine.now += EVERY_S
        turn.tell("d")
    said = [(line.split()[1], line.rsplit(": ", 1)[1]) for line in caplog.messages]
    assert said == [("turn", "a"), ("read", "b"), ("turn", "c (2 more slow ones since the last line)"), ("turn", "d")]
    assert "computing" not in caplog.text, "nothing of it was ours"


def test_all_kinds_are_metrics(machine, steps):
    machine.step(steps.kind("turn"), 0.5)
    machine.step(steps.kind("read"), 0.0)
    found = {metric.name: dict([(labels["step"], value) for labels, value in metric.samples])
             for metric in steps.metrics()}  # fmt: skip
    assert found["stomp_step_longest_seconds"] == {"turn": 0.5, "read": 0.0}
    assert found["stomp_steps_slow_total"] == {"turn": 1.0, "read": 0.0}
    assert sum(found["stomp_step_seconds"]["turn"][1]) == 1


def test_a_portion_ends_with_its_time_or_its_pieces(machine):
    done = []

    def work(seconds: float, pieces: int):
        for piece in range(pieces):
            machine.now += seconds
            done.append(piece)
            yield
        return "the answer"

    portion(work(PORTION_S * 2, 3), machine.monotonic)
    assert done == [0], "one at least, however long"
    done.clear()
    portion(work(PORTION_S / 4, 1000), machine.monotonic)
    assert 4 <= len(done) <= 5
    done.clear()
    portion(long := work(0.0, PORTION + 1), machine.monotonic)
    assert len(done) == PORTION, "a clock may stand still"
    with pytest.raises(StopIteration) as end:
        portion(long, machine.monotonic)
    assert end.value.value == "the answer"


def test_a_portion_grows_with_the_time_that_somebody_waits(machine):
    """A loop whose turns take a millisecond and that gives a tenth of one to an answer in each: an answer of two
    seconds would take twenty."""

    def work():
        for _ in range(20_000):
            machine.now += PORTION_S
            yield

    long, began, turns = work(), machine.now, 0
    with pytest.raises(StopIteration):
        while True:
            portion(long, machine.monotonic, began)
            machine.now += 0.001
            turns += 1
    assert machine.now - began < 4, "not 2 + 20"
    assert turns < 2000
    at = machine.now
    portion(work(), machine.monotonic, began)
    assert machine.now - at <= PORTION_MOST_S + 2 * PORTION_S, "and no longer"
