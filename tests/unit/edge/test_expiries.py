"""Logins that end by themselves: on time, in pieces, and without what has gone before."""

from __future__ import annotations

from typing import Any

from broker.edge.session.expiries import PIECE, Expiries

from .clocked import Time


class Beats(Time):
    def __init__(self) -> None:
        super().__init__()
        self.later: list[Any] = []

    def soon(self, callback: Any) -> None:
        self.later.append(callback)


def made() -> tuple[Expiries, Beats, list[int]]:
    time, ended = Beats(), []
    return Expiries(time.monotonic, time, ended.append), time, ended


def test_each_ends_within_two_seconds_of_its_time_and_none_before() -> None:
    expiries, time, ended = made()
    for number in range(1, 10):
        expiries.note(number, time.now + number)
    for second in range(1, 12):
        time.run(1.0)
        assert ended == list(range(1, len(ended) + 1))
        assert second - 2 <= len(ended) <= second or len(ended) == 9
    assert len(ended) == 9 and not expiries._seconds and not time.due


def test_none_ends_a_part_of_a_second_before_its_time() -> None:
    expiries, time, ended = made()
    expiries.note(1, time.now + 3.9)
    time.now += 0.5
    time.run(3.3)
    assert ended == []
    time.run(2.0)
    assert ended == [1]


def test_who_has_gone_is_forgotten_and_nothing_waits() -> None:
    expiries, time, ended = made()
    expiries.note(1, time.now + 5)
    expiries.note(2, time.now + 5)
    expiries.forget(1)
    expiries.forget(7)
    time.run(10)
    assert ended == [2] and len(expiries) == 0 and not time.due


def test_what_is_past_already_ends_too_also_after_a_long_sleep() -> None:
    expiries, time, ended = made()
    expiries.note(1, time.now - 100)
    expiries.note(2, time.now + 50_000)
    time.run(3)
    assert ended == [1]
    time.now += 60_000
    time.run(3)
    assert ended == [1, 2]


def test_many_at_once_end_in_pieces() -> None:
    expiries, time, ended = made()
    for number in range(5 * PIECE):
        expiries.note(number, time.now + 1)
    turns = 0
    time.run(3)
    while time.later:
        assert len(ended) <= (turns + 1) * PIECE
        time.later.pop(0)()
        turns += 1
    assert sorted(ended) == list(range(5 * PIECE)) and turns == 4
