"""Who is told when a move has ended is told once."""

from __future__ import annotations

from broker.core.effects import Move, Turn
from broker.core.message import Run


def move() -> Move:
    return Move(7, 1, range(1, 2), "DLQ", Run(range(1, 2), b"", [b"m"], 1))


def test_the_end_of_a_move_is_heard_once():
    heard: list[Turn] = []
    one, first, second = move(), Turn(1, 1), Turn(2, 2)
    one.is_heard_by(heard.append)
    one.ends(first)
    one.ends(second)
    assert heard == [first]


def test_nobody_has_to_hear_of_it():
    move().ends(Turn(1, 1))
