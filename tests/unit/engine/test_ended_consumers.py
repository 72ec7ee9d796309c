"""What a consumer held comes back in pieces, once a turn."""

from __future__ import annotations

from broker.core.effects import Turn
from broker.core.message import Run
from broker.engine.queue.ended_consumers import BACK, Leaving

from .world import run_of


def held(count: int) -> dict[int, Run]:
    return {i: run_of(b"x") for i in range(1, count + 1)}


def test_pieces_are_bounded_and_together_all_of_it_in_order():
    leaving = Leaving(held(BACK * 2 + 5), failed=False)
    pieces = []
    while leaving.left:
        pieces.append(leaving.next_piece())
    assert max(map(len, pieces)) <= BACK
    assert [i for piece in pieces for i in piece] == list(range(1, BACK * 2 + 6))


def test_one_piece_a_turn():
    leaving = Leaving(held(3), failed=True)
    turn, another = Turn(1, 0), Turn(2, 0)
    assert leaving.came(turn)
    assert not leaving.came(turn)
    assert leaving.came(another)
