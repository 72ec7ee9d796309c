"""Sums of what lives, which two replicas compare: of messages and their bytes, not of places or order."""

from __future__ import annotations

from itertools import permutations

import pytest

from broker.core.message import DURABLE
from broker.journal.replica.digest import DigestReader, QueueSums, _content, alive

from .support import open_journal, put, run_of, sent, settled


def sums(journal, slot: int = 1, budget: int = 1 << 30) -> dict[int, QueueSums]:
    reader = DigestReader(slot, journal._store, journal._live_index, journal._appender)
    while reader.read(budget):
        pass
    return reader.queues


def counted(*messages: tuple[int, int]) -> QueueSums:
    found = QueueSums()
    for id, content in messages:
        found.count(id, content)
    return found


def test_order_does_not_matter_and_each_message_does():
    messages = [(1, 5), (2, 6), (3, 7)]
    assert all(counted(*some) == counted(*messages) for some in permutations(messages))
    for other in ([(1, 5), (2, 6)], [(1, 5), (2, 6), (4, 7)], [(1, 5), (2, 6), (3, 8)], [*messages, (3, 7)]):
        assert counted(*other) != counted(*messages)


def test_two_wrong_ids_do_not_add_up_to_two_right_ones():
    assert counted((3, 0), (6, 0)).ids != counted((4, 0), (5, 0)).ids


def test_runs_that_are_cut_otherwise_have_the_same_sums():
    one, many = open_journal(), open_journal()
    put(one, sent(1, *(b"%d" % n for n in range(30)), queues=(1, 2)))
    for n in range(0, 30, 3):
        put(many, sent(1 + n, *(b"%d" % (n + k) for k in range(3)), queues=(1, 2)))
    assert sums(one) == sums(many) == sums(many, budget=1)
    assert {queue: found.messages for queue, found in sums(one).items()} == {1: 30, 2: 30}


def test_what_has_left_a_queue_does_not_count_in_it():
    here, there = open_journal(), open_journal()
    put(here, sent(1, b"a", b"b", b"c", queues=(1, 2)), settled(2, 2))
    put(there, sent(1, b"a", queues=(1, 2)), sent(2, b"b", queues=(2,)), sent(3, b"c", queues=(1, 2)))
    assert sums(here) == sums(there)


@pytest.mark.parametrize("more", [{"priority": 9}, {"expires": 5}, {"lines": b"x:1\n"}])
def test_whatever_a_client_would_see_differ_makes_the_content_differ(more):
    plain = _content(run_of(1, b"a"), 0, 1)
    assert _content(run_of(1, b"a"), 0, 1) == plain
    assert _content(run_of(1, b"a", flags=DURABLE, **more), 0, 1) != plain
    assert _content(run_of(1, b"b"), 0, 1) != plain != _content(run_of(2, b"a"), 0, 2)


def test_alive_are_those_that_no_span_covers():
    assert list(alive(run_of(5, b"a", b"b", b"c", b"d"), [(6, 6), (8, 9)])) == [(0, 5), (2, 7)]
