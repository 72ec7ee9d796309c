"""Message numbers as spans: (first, last), inclusive. The one place where they are joined, cut and searched.

Rule: pure functions of numbers. Where it says "spans", they ascend, do not overlap and do not touch, so that equal sets
are equal lists and a search is a bisection; where it says "any spans", nothing is promised.
"""

# Why spans: an engine, the journal, a follower and an edge all have to say which messages of a queue have left it, are
# held, or were handed out. Ids are given in order, so what a million of them say is mostly a few spans.
#
# Example. A client acknowledges 1, 2, 5 and 7 of the messages 1 … 8:
#     spans_of([1, 2, 5, 7])     (1, 2), (5, 5), (7, 7): what a SettleRecord says
#     without((1, 8), spans)     (3, 4), (6, 6), (8, 8): what is left
#     add_span(spans, (3, 4))    (1, 5), (7, 7)

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Sequence
from typing import Final

Span = tuple[int, int]
"""(first id, last id), inclusive."""
_MANY: Final = 500
"""Ids that are compared at once."""


def spans_of(ids: Sequence[int]) -> list[Span]:
    """The spans of any ids, of which none is there twice; at least one."""
    first, last = ids[0], ids[-1]
    # A run's own ids, or one message: no sort. For other sequences ends and length prove nothing before they are
    # sorted.
    if last - first + 1 == len(ids) and (type(ids) is range or len(ids) == 1):
        return [(first, last)]
    ordered = sorted(ids)
    first, last = ordered[0], ordered[-1]
    if last - first + 1 == len(ordered):
        return [(first, last)]
    spans: list[Span] = []
    last = first
    for i in ordered[1:]:
        # Ids of one queue are unique, so a gap is the only other case.
        if i != last + 1:
            spans.append((first, last))
            first = i
        last = i
    spans.append((first, last))
    return spans


def count_of(spans: Iterable[Span]) -> int:
    """How many ids they are, each as often as it is there."""
    return sum([last - first + 1 for first, last in spans])


def merged(spans: Iterable[Span]) -> list[Span]:
    """Any spans as spans."""
    result: list[Span] = []
    extend(result, sorted(spans))
    return result


def extend(spans: list[Span], more: Iterable[Span]) -> None:
    """Appends spans that stand behind these, or begin within the last one."""
    for first, last in more:
        # They come by ascending id: only the last one can touch.
        if spans and first <= spans[-1][1] + 1:
            if last > spans[-1][1]:
                spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))


def append_ids(spans: list[Span], ids: Iterable[int]) -> None:
    """Appends ids in their order to any spans; neighbours join."""
    if isinstance(ids, range) and ids.step == 1:
        first, last = ids[0], ids[-1]
        if spans and spans[-1][1] + 1 == first:
            first = spans.pop()[0]
        spans.append((first, last))
        return
    if isinstance(ids, Collection) and len(ids) > _MANY:
        _append_many(spans, list(ids))
        return
    for i in ids:
        # In the order of delivery, so a queue that is consumed in order is one span however much it is.
        if spans and spans[-1][1] + 1 == i:
            spans[-1] = (spans[-1][0], i)
        else:
            spans.append((i, i))


def _append_many(spans: list[Span], ids: list[int]) -> None:
    """The same in pieces: mostly neighbours, and to compare all of a piece takes a tenth of a look at each."""
    first, last = spans.pop() if spans else (ids[0], ids[0] - 1)
    for start in range(0, len(ids), _MANY):
        some = ids[start : start + _MANY]
        if some[0] == last + 1 and some[-1] == last + len(some) and some == [*range(last + 1, last + 1 + len(some))]:
            last = some[-1]
            continue
        for i in some:
            if i != last + 1:
                spans.append((first, last))
                first = i
            last = i
    spans.append((first, last))


def insert_ids(spans: list[Span], ids: Sequence[int]) -> None:
    """The same for ascending ids that are in none of the ascending spans, which may touch."""
    if not spans or ids[0] > spans[-1][1]:
        append_ids(spans, ids)
        return
    # Between others. Not joined with them: all they are for is to be found.
    more: list[Span] = []
    append_ids(more, ids)
    for span in more:
        insort(spans, span)


def add_span(spans: list[Span], span: Span) -> None:
    """Puts one more span into them, wherever it lies."""
    first, last = span
    # All spans that overlap or touch: they become one, so the list stays as short as there are gaps.
    low = bisect_left(spans, first - 1, key=_last)
    high = bisect_right(spans, last + 1, low, key=_start)
    if low < high:
        first, last = min(first, spans[low][0]), max(last, spans[high - 1][1])
    spans[low:high] = [(first, last)]


def inside(spans: Sequence[Span], i: int) -> bool:
    """Is `i` in one of the spans; they may touch."""
    # bisect by hand: with a key it calls Python for each step.
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][1] < i:
            low = middle + 1
        else:
            high = middle
    return low < len(spans) and spans[low][0] <= i


def within(span: Span, spans: Sequence[Span]) -> bool:
    """Is all of it in one of the spans."""
    first, last = span
    at = bisect_left(spans, first, key=_last)
    return at < len(spans) and spans[at][0] <= first and last <= spans[at][1]


def without(span: Span, gone: Sequence[Span]) -> list[Span]:
    """What is left of a span without the spans `gone`."""
    first, last = span
    result: list[Span] = []
    # Only those that can reach into the span: log n, and what is found.
    for low, high in gone[bisect_left(gone, first, key=_last) : bisect_right(gone, last, key=_start)]:
        if low > first:
            result.append((first, low - 1))
        first = max(first, high + 1)
    if first <= last:
        result.append((first, last))
    return result


def _start(span: Span) -> int:
    return span[0]


def _last(span: Span) -> int:
    return span[1]
