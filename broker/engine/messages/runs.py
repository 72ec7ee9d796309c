"""Cutting and regrouping of runs.

Rule: pure functions; bytes are shared, never copied (a dead letter's new headers excepted, see redelivery.py).
Must not know queues or consumers.
"""

# Example. A client gives back 3 and 6 of runs A (1 … 4) and B (5 … 8).
#     regroup({3: A, 6: B})     two runs of one message each; {3: A, 4: A} would be one of two

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from broker.core.message import Run
from broker.core.spans import Span, spans_of

LOOK_UP: Final = 20
"""To look one id up takes as long as to pass so many."""


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


def spans_of_runs(runs: Iterable[Run]) -> list[Span]:
    """Ids of many runs as ascending, disjoint spans (core/spans.py); linear when they come in order."""
    spans: list[Span] = []
    for run in runs:
        for span in spans_of(run.ids):
            if spans and spans[-1][1] + 1 == span[0]:
                spans[-1] = (spans[-1][0], span[1])
            else:
                spans.append(span)
    spans.sort()
    return spans


def head_of(run: Run, count: int, nbytes: int) -> int:
    """How many messages of its head are `count` messages and have `nbytes` bytes, or all."""
    if run.nbytes <= nbytes:
        return len(run.records)
    at = 0
    while at < len(run.records) and (at < count or nbytes > 0):
        nbytes -= run.size_of(at)
        at += 1
    return at


def regroup(messages: dict[int, Run]) -> list[Run]:
    """Messages (id → a run that holds it) as runs in the order of their ids.

    Neighbours of the same source run stay together. A few of a large run cost their looking up, not its length: a
    thousand NACKs of one message each walked along runs of 640 a thousand times."""
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
    located = [(i, at, run) for run, wanted in sources.values() for at, i in _places(run.ids, wanted)]
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


def _places(ids: Sequence[int], wanted: set[int]) -> list[tuple[int, int]]:
    """Where they stand among ids, which ascend; as (place, id)."""
    if len(wanted) * LOOK_UP < len(ids):
        return [(bisect_left(ids, i), i) for i in sorted(wanted)]
    return [(at, i) for at, i in enumerate(ids) if i in wanted]


def _first(item: tuple[int, int, Run]) -> int:
    return item[0]
