"""Where each consumer of a queue whose messages stay is."""

from __future__ import annotations

from broker.engine.consumers.consumer_cursors import ConsumerCursor, Cursors

from .test_policy_state import Ready, numbered


def test_a_cursor_sees_what_is_before_it_and_what_came_late():
    cursor = ConsumerCursor()
    cursor.passes(5)
    cursor.passes(3)
    assert cursor.seen == 5
    assert list(cursor.unseen(numbered(5, 6)).ids) == [6]
    late = numbered(2)
    late.due = 1
    cursor.came_late(late)
    assert [list(run.ids) for run in cursor.late] == [[2]]


def test_the_place_of_a_consumer_moves_with_what_leaves_the_index():
    cursors = Cursors()
    cursor = cursors.of(7)
    cursors.unpaged(3)
    assert cursors.behind(cursor) == 0 and cursor.at == 3
    assert list(cursors.ask(cursor, Ready(4, 5, 6).index, 2)) == [4, 5]
    cursors.keep([])
    assert cursors.of(7) is not cursor
