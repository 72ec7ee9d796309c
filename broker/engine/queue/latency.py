"""How long messages of a queue took: from when they were taken (or due) to their consumers, and to their ACKs.

Rule: counts in buckets, added to once a run; nobody is asked for the time. Must not know queues.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.core.message import Run
from broker.core.traceparent import said

BOUNDS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 10_000, 60_000, 600_000, 3_600_000)
"""Upper bounds of buckets; one more is above all of them."""
EXAMPLE_MS: Final = 1000
"""So often at most a message is looked at for its trace."""


class Example(NamedTuple):
    """A message of a trace: how long it took, and when that was."""

    trace: str
    took_ms: int
    at_ms: int


class Latency:
    """delivered, acked   messages by bucket.    sums   milliseconds of all delivered, of all acknowledged.
    examples   bucket → of the delivered, the last one whose trace is known."""

    __slots__ = ("_look", "acked", "delivered", "examples", "sums")

    def __init__(self) -> None:
        self.delivered = [0] * (len(BOUNDS_MS) + 1)
        self.acked = [0] * (len(BOUNDS_MS) + 1)
        self.sums = [0, 0]
        self.examples: dict[int, Example] = {}
        self._look = 0

    def came(self, run: Run, now: int) -> None:
        """Some message of the run says that it is of a trace: the first one is looked at, now and then."""
        if now < self._look or not run.records:
            return
        self._look = now + EXAMPLE_MS
        block = run.lines + run.records[0][:4096]
        _, context = said(block, block.find(b"\n\n") + 1)
        if context is not None:
            took = max(now - (run.due or run.time), 0)
            self.examples[bisect_left(BOUNDS_MS, took)] = Example(context.trace, took, now)

    def settled(self, runs: Iterable[Run], now: int) -> None:
        """A message of each was acknowledged. What was not taken in this process's memory of it (a stub) does not
        count."""
        counts, total = self.acked, 0
        for run in runs:
            since = run.due or run.time
            if since:
                took = now - since
                if took > 0:
                    total += took
                    counts[bisect_left(BOUNDS_MS, took)] += 1
                else:
                    counts[0] += 1
        self.sums[1] += total
