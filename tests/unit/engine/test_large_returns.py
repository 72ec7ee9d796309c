"""What is given back at once comes back in pieces; who waits for it is told when it is all back."""

from __future__ import annotations

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.effects import Done, Turn
from broker.core.message import Run
from broker.engine.queue.large_returns import BACK, LargeReturn, ReturningSessions

from .world import run_of


def seqs(told: list) -> list[int]:
    return [effect.seq for effect in told]


def held(count: int) -> dict[int, Run]:
    return {i: run_of(b"x") for i in range(1, count + 1)}


def test_pieces_are_bounded_and_together_all_of_it_in_order():
    returning = LargeReturn(held(BACK * 2 + 5), failed=False)
    pieces = []
    while returning.left:
        pieces.append(returning.pop()[0])
    assert max(map(len, pieces)) <= BACK
    assert [i for piece in pieces for i in piece] == list(range(1, BACK * 2 + 6))


def test_a_piece_may_be_smaller_and_says_what_it_counts_as():
    returning = LargeReturn(held(BACK), failed=False)
    piece, runs = returning.pop(4)
    assert len(piece) == runs == 4 and returning.left == BACK - 4


def test_one_piece_a_turn():
    returning = LargeReturn(held(3), failed=True)
    turn, another = Turn(1, 0), Turn(2, 0)
    assert returning.came(turn)
    assert not returning.came(turn)
    assert returning.came(another)


def test_who_waits_for_a_session_waits_for_all_that_it_gives_back():
    sessions = ReturningSessions()
    one, other = (LargeReturn(held(1), True, Outcome.NACK, False, -1, Settle(3, 7, n, 9, [1])) for n in (1, 2))
    sessions.begins(one)
    sessions.begins(other)
    assert not sessions.tells_later(8, Done(8, 1)), "another session"
    behind = Done(7, 3)
    assert sessions.tells_later(7, behind)
    assert seqs(sessions.ends(other)) == [2], "the first is not back yet"
    assert seqs(sessions.ends(one)) == [1, 3]
    assert not sessions.tells_later(7, behind)


def test_what_a_consumer_held_that_has_ended_has_nobody_who_waits():
    sessions = ReturningSessions()
    returning = LargeReturn(held(1), False)
    sessions.begins(returning)
    assert not sessions.tells_later(0, Done(0, 1)) and sessions.ends(returning) == []


def test_a_session_that_ends_very_many_from_the_last_one_on():
    """Each was looked for in a list, and what waited for it was handed on one by one: the square of them."""
    sessions, many = ReturningSessions(), 3000
    begun = [LargeReturn(held(1), True, Outcome.NACK, False, -1, Settle(3, 7, n, 9, [1])) for n in range(1, many + 1)]
    for n, returning in enumerate(begun, 1):
        sessions.begins(returning)
        assert sessions.tells_later(7, Done(7, many + n))
    for returning in reversed(begun[1:]):
        assert len(sessions.ends(returning)) == 1
    assert seqs(sessions.ends(begun[0])) == [1, *range(many + 1, 2 * many + 1)]
    assert not sessions.tells_later(7, Done(7, 1))
