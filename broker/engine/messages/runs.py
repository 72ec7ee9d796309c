"""Cutting and regrouping of runs, and id spans.

Rule: pure functions; bytes are shared, never copied (a dead letter's new headers excepted, see redelivery.py).
Must not know queues or consumers.
"""

# Example. A client acknowledges 1, 2, 5 and 7 of runs A (1 … 4) and B (5 … 8), and gives back 3 and 6.
#     spans_of([1, 2, 5, 7])    (1, 2), (5, 5), (7, 7): what a SettleRecord says
#     regroup({3: A, 6: B})     two runs of one message each; {3: A, 4: A} would be one of two
#     without((1, 8), spans)    (3, 4), (6, 6), (8, 8)

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from broker.core.message import Run

Span = tuple[int, int]
"""(first id, last id), inclusive."""


def pick(run: Run, indices: Sequence[int]) -> Run:
    """The messages at ascending `indices` as a run of their own; without ids if they have none yet."""
    return run.pick(indices)


def copy(run: Run) -> Run:
    """Another run with the same messages, so that flags, ids or attempts may differ."""
    return Run(
        run.ids, run.lines, run.records, run.nbytes, run.flags, run.priority, run.expires, run.time,
        run.attempts, run.position, run.blob, run.due,
    )  # fmt: skip


def prefixed(run: Run, front: bytes) -> Run:
    """The same messages with header lines in front: first of repeated names wins. The journal has them without."""
    made = copy(run)
    made.in_front(front)
    return made


def spans_of(ids: Sequence[int]) -> list[Span]:
    """Any ids as ascending, disjoint, not touching spans."""
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


def spans_of_runs(runs: Iterable[Run]) -> list[Span]:
    """Ids of many runs as ascending, disjoint spans; linear when they come in order."""
    spans: list[Span] = []
    for run in runs:
        for span in spans_of(run.ids):
            if spans and spans[-1][1] + 1 == span[0]:
                spans[-1] = (spans[-1][0], span[1])
            else:
                spans.append(span)
    spans.sort()
    return spans


def regroup(messages: dict[int, Run]) -> list[Run]:
    """Messages (id → a run that holds it) as runs in the order of their ids.

    Neighbours of the same source run stay together; linear in the size of the source runs plus one sort."""
    sources: dict[int, tuple[Run, set[int]]] = {}
    for i, run in messages.items():
        entry = sources.get(id(run))
        if entry is None:
            sources[id(run)] = (run, {i})
        else:
            entry[1].add(i)
    if len(sources) == 1:
        ((run, wanted),) = sources.values()
        if len(wanted) == len(run.ids):
            return [run]
    located = [(i, at, run) for run, wanted in sources.values() for at, i in enumerate(run.ids) if i in wanted]
    # By id alone: runs are not comparable, and need not be.
    located.sort(key=_first)
    result: list[Run] = []
    indices: list[int] = []
    current: Run | None = None
    for _, at, run in located:
        if run is not current:
            if current is not None:
                result.append(pick(current, indices))
            current, indices = run, []
        indices.append(at)
    if current is not None:
        result.append(pick(current, indices))
    return result


def _first(item: tuple[int, int, Run]) -> int:
    return item[0]


def inside(spans: Sequence[Span], i: int) -> bool:
    """Is `i` in one of the ascending spans."""
    # bisect by hand: with a key it calls Python for each step.
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][1] < i:
            low = middle + 1
        else:
            high = middle
    return low < len(spans) and spans[low][0] <= i


def add_span(spans: list[Span], span: Span) -> None:
    """Puts one more span into ascending, disjoint, not touching ones."""
    first, last = span
    # All spans that overlap or touch: they become one, so the list stays as short as there are gaps.
    low = bisect_left(spans, first - 1, key=_last)
    high = bisect_right(spans, last + 1, low, key=_start)
    if low < high:
        first, last = min(first, spans[low][0]), max(last, spans[high - 1][1])
    spans[low:high] = [(first, last)]


def without(span: Span, gone: Sequence[Span]) -> list[Span]:
    """What is left of a span without the ascending spans `gone`."""
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
