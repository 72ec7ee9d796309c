"""A line now and then of what takes long, and none of what does not: our own loops, and the tasks of Spark.

Rule: says what has been done, never what is hoped for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from broker.seams.clock import Clock, SystemClock

Say = Callable[[str], object]
EVERY_S: Final = 10.0


class Progress:
    """`at` may be called as often as one likes, from one thread at a time."""

    def __init__(self, say: Say, total: int, what: str, clock: Clock | None = None) -> None:
        """what: such as "messages sent"."""
        self._say, self._total, self._what = say, total, what
        self._clock = clock or SystemClock()
        self._last = self._clock.monotonic()

    def at(self, done: int) -> None:
        now = self._clock.monotonic()
        if now - self._last >= EVERY_S:
            self._last = now
            self._say(f"{done} of {self._total} {self._what}")


def _idle(stage: Any) -> str:
    """A cluster without room for us says so in Spark's log only, as a warning, and waits for ever."""
    if stage.numActiveTasks or stage.numCompletedTasks == stage.numTasks:
        return ""
    return (
        ": none is at work, as Spark's cluster gives no executor; are its workers there, with cores and memory left? "
        "(on Kubernetes: kubectl describe pods -l spark-role=executor)"
    )


@contextmanager
def tasks(spark: Any, say: Say, what: str) -> Iterator[None]:
    """While Spark works on it: how many of the tasks of each stage are done. what: such as "of the archive"."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def tell() -> None:
        while not over.wait(EVERY_S):
            for stage in sorted(tracker.getActiveStageIds()):
                if info := tracker.getStageInfo(stage):
                    say(f"{info.numCompletedTasks} of {info.numTasks} tasks {what}{_idle(info)}")

    thread = threading.Thread(target=tell, name="stampede-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
