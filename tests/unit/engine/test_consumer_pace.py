"""What consumers took since a period began: of those alone that had something to take."""

from __future__ import annotations

from types import SimpleNamespace

from broker.engine.consumers.consumer_pace import ConsumerPace

ONE, TWO, LATE = (SimpleNamespace(id=number) for number in (1, 2, 3))


def test_only_those_are_counted_that_could_take_something_when_it_began():
    pace = ConsumerPace()
    pace.begin(500, [ONE, TWO])
    pace.settled(ONE, 3)
    pace.settled(ONE, 2)
    pace.settled(LATE, 9)
    assert (pace.ends, pace.taken) == (500, {1: 5, 2: 0})


def test_a_new_period_begins_with_nothing():
    pace = ConsumerPace()
    pace.begin(500, [ONE, TWO])
    pace.settled(ONE, 3)
    pace.begin(900, [TWO, LATE])
    pace.settled(ONE, 1)
    assert (pace.ends, pace.taken) == (900, {2: 0, 3: 0})
