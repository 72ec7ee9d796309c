"""Spans of ids against sets."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.spans import (
    add_span,
    append_ids,
    count_of,
    extend,
    insert_ids,
    inside,
    merged,
    spans_of,
    within,
    without,
)


def numbers(spans: list[tuple[int, int]]) -> list[int]:
    return [i for first, last in spans for i in range(first, last + 1)]


def test_spans_say_what_a_set_says():
    random = Random(1)
    for _ in range(300):
        ids = random.sample(range(1, 40), random.randint(1, 25))
        spans = spans_of(ids)
        assert numbers(spans) == sorted(ids) and count_of(spans) == len(ids)
        assert all(spans[n][1] + 1 < spans[n + 1][0] for n in range(len(spans) - 1)), "they do not touch"
        assert [i for i in range(45) if inside(spans, i)] == sorted(ids)
        first = random.randint(1, 40)
        more = (first, first + random.randint(0, 9))
        whole = list(spans)
        add_span(whole, more)
        assert whole == spans_of([*ids, *(i for i in range(more[0], more[1] + 1) if i not in ids)])
        assert within(more, spans) == set(range(more[0], more[1] + 1)).issubset(ids)
        assert numbers(without(more, spans)) == [i for i in range(more[0], more[1] + 1) if i not in ids]


def test_spans_of_a_range_and_of_one_id_need_no_sorting():
    assert spans_of(range(5, 9)) == [(5, 8)] and spans_of([7]) == [(7, 7)]


def test_what_comes_behind_is_joined_with_the_last_one():
    """It may begin within that, and end before it ends."""
    random = Random(2)
    for _ in range(300):
        ids = set(random.sample(range(1, 40), random.randint(1, 20)))
        spans, last = spans_of(sorted(ids)), max(ids)
        more = [(at, at + random.randint(0, 4)) for at in range(random.randint(last, last + 3), last + 30, 6)]
        more[:0] = [(spans[-1][0], random.randint(spans[-1][0], last))] * random.randint(0, 1)
        extend(spans, more)
        assert spans == spans_of(sorted(ids | set(numbers(more))))


def test_ids_in_the_order_of_delivery_are_joined_where_they_are_neighbours():
    spans: list[tuple[int, int]] = []
    append_ids(spans, range(4, 7))
    append_ids(spans, range(7, 9))
    append_ids(spans, [9, 2, 3])
    append_ids(spans, range(3, 1, -1))
    assert spans == [(4, 9), (2, 3), (3, 3), (2, 2)]


def test_ids_that_are_put_between_others_are_found_there():
    random = Random(3)
    for _ in range(300):
        left = random.sample(range(1, 60), 50)
        spans: list[tuple[int, int]] = []
        seen: set[int] = set()
        while left:
            ids = sorted(left.pop() for _ in range(min(len(left), random.randint(1, 12))))
            insert_ids(spans, ids)
            seen.update(ids)
            assert [i for i in range(65) if inside(spans, i)] == sorted(seen) == sorted(numbers(spans))
            assert spans == sorted(spans)


@pytest.mark.parametrize(
    ("ids", "spans"),
    [([4], [(4, 4)]), ([4, 5, 6], [(4, 6)]), ([4, 6, 7], [(4, 4), (6, 7)]), ([1, 3, 5], [(1, 1), (3, 3), (5, 5)])],
)
def test_neighbours_are_one_span(ids: list[int], spans: list[tuple[int, int]]) -> None:
    assert spans_of(ids) == spans


@pytest.mark.parametrize(
    ("spans", "result"),
    [
        ([], []),
        ([(4, 6), (1, 2)], [(1, 2), (4, 6)]),
        ([(3, 4), (1, 2)], [(1, 4)]),
        ([(1, 9), (2, 3)], [(1, 9)]),
        ([(1, 3), (2, 9)], [(1, 9)]),
        ([(1, 1), (3, 3), (2, 2)], [(1, 3)]),
    ],
)
def test_merged_spans_are_ascending_and_do_not_touch(
    spans: list[tuple[int, int]], result: list[tuple[int, int]]
) -> None:
    assert merged(spans) == result


@pytest.mark.parametrize("seed", range(20))
def test_very_many_are_appended_as_they_would_be_one_by_one(seed):
    """In pieces of 500: at their edges, across them, in any order."""
    chance = Random(seed)
    ids, at = [], chance.randrange(3)
    for _ in range(chance.choice([1, 5, 40])):
        at += chance.choice([0, 1, 2, 600])
        many = chance.choice([1, 2, 499, 500, 501, 1000])
        ids += range(at, at + many)
        at += many
    if seed % 3 == 0:
        cut = chance.randrange(len(ids))
        ids = ids[cut:] + ids[:cut]
    for spans in ([], [(ids[0] - 5, ids[0] - 1)], [(ids[0] + 10_000_000, ids[0] + 10_000_001)]):
        known, expected = list(spans), list(spans)
        append_ids(known, ids)
        for i in ids:
            append_ids(expected, [i])
        assert known == expected
