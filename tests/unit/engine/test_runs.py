"""Runs that are cut and put together again."""

from __future__ import annotations

import random

import pytest

from broker.core.message import Run
from broker.engine.messages.runs import copy, prefixed, regroup, spans_of_runs


def run(ids: list[int] | range) -> Run:
    return Run(ids, b"a:b\n", [b"\n%d\0" % i for i in ids], sum(len(b"\n%d\0" % i) + 4 for i in ids))


def test_spans_of_many_runs_are_one_list():
    assert spans_of_runs([run(range(1, 3)), run(range(3, 5)), run([9, 7])]) == [(1, 4), (7, 7), (9, 9)]


def test_messages_are_put_together_in_order_and_neighbours_of_a_run_stay_together():
    a, b = run([1, 2, 5, 6]), run([3, 4, 9])
    made = regroup({i: a for i in (1, 2, 6)} | {i: b for i in (3, 9)})
    assert [list(part.ids) for part in made] == [[1, 2], [3], [6], [9]]
    assert [part.records for part in made] == [[b"\n1\0", b"\n2\0"], [b"\n3\0"], [b"\n6\0"], [b"\n9\0"]]
    assert sum(part.nbytes for part in made) == sum(run([1, 2, 6, 3, 9]).nbytes for _ in (0,))
    assert regroup({i: a for i in a.ids}) == [a], "a whole run is itself"


@pytest.mark.parametrize("ids", [range(100, 740), [*range(100, 400), *range(500, 840)]])
@pytest.mark.parametrize("few", [1, 7, 31, 32, 33, 600])
def test_a_few_of_a_large_run_are_looked_up_and_many_are_passed(ids, few):
    whole = Run(ids, b"", [b"%d" % i for i in ids], 640 * 3)
    wanted = sorted(random.Random(few).sample([*ids], few))
    runs = regroup(dict.fromkeys(wanted, whole))
    assert [i for run in runs for i in run.ids] == wanted
    assert [bytes(record) for run in runs for record in run.records] == [b"%d" % i for i in wanted]


def test_one_of_a_large_run_does_not_walk_along_it():
    """300 NACKs of one message each are a turn; each of them looked at the 640 messages of its run."""

    class Ids(list):
        looked = 0

        def __getitem__(self, at):
            Ids.looked += 1
            return super().__getitem__(at)

        def __iter__(self):
            raise AssertionError("all of it is looked at")

    regroup({700: Run(Ids(range(300, 940)), b"", [b"x"] * 640, 640)})
    assert 0 < Ids.looked < 20


def test_a_copy_shares_bytes_and_header_lines_in_front_are_counted():
    one = run([1, 2])
    other = copy(one)
    other.flags, other.attempts = 9, 3
    assert (one.flags, one.attempts) == (0, 0) and other.records is one.records
    front = prefixed(one, b"x:y\n")
    assert front.lines == b"x:y\na:b\n" and front.nbytes == one.nbytes + 2 * len(b"x:y\n") and one.lines == b"a:b\n"
