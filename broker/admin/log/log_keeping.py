"""What is kept of the log for archives, and for how long: their marks, and the bound.

Rule: an archive that stands still never fills the disk. When what is kept for archives only passes the bound, or the
disk is short, the marks of the one that is furthest behind go, loudly; it finds OFFSET_EXPIRED then, and not a gap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import Final

from broker.core.errors import Code, RefusedError
from broker.core.metrics import Metric
from broker.journal.journal import Journal

log = logging.getLogger("stampede.reads")

MOST_ARCHIVES: Final = 16
LONGEST_NAME: Final = 128
LOOK_S: Final = 1.0


class LogRetention:
    """`begin()` it once; then `advance` and `forget` as archives say."""

    def __init__(self, journal: Journal, limit: int, pool: Executor) -> None:
        self._journal = journal
        self._marks = journal.marks
        self._limit = limit
        self._pool = pool
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost = 0
        self.kept = 0

    def begin(self) -> None:
        """Keeps what the marks of the last run say, from now on."""
        self._apply()
        self._look_soon()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    async def advance(self, name: str, offsets: Mapping[int, int]) -> None:
        """Everything before these offsets is safely elsewhere. Raises RefusedError, JournalError."""
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedError(Code.BAD_READ, f"the name of an archive has 1 to {LONGEST_NAME} printable characters")
        if name not in self._marks.names and len(self._marks.names) >= MOST_ARCHIVES:
            raise RefusedError(Code.READER_LIMIT, f"there are {MOST_ARCHIVES} archives; have one forgotten")
        async with self._lock:
            await self._replace(self._marks.advanced(name, offsets))

    async def forget(self, name: str) -> None:
        """This archive needs nothing any more."""
        async with self._lock:
            await self._replace(self._marks.without(name))

    async def _replace(self, table: dict[str, dict[int, int]]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pool, self._marks.save, table)
        self._marks.adopt(table)
        self._apply()

    def _apply(self) -> None:
        self.kept = self._journal.history.keep(self._marks.lowest())

    def _look_soon(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._look_soon()
        if not self._marks.names:
            return
        self._apply()
        if (self.kept > self._limit or self._journal.full) and (self._task is None or self._task.done()):
            self._task = asyncio.ensure_future(self._drop())

    async def _drop(self) -> None:
        """Forgets the archive for which most is kept."""
        history = self._journal.history
        kept = {name: history.keep(marks) for name, marks in self._marks.names.items()}
        self._apply()
        if not kept or not max(kept.values()):
            return
        name = max(kept, key=kept.__getitem__)
        why = "the disk is nearly full" if self._journal.full else f"log_reads.keep_bytes is {self._limit}"
        log.error(
            "archive %r has lost its mark: %d bytes of the log are kept for it only, and %s; what it has not read yet "
            "may be gone, see OFFSET_EXPIRED in docs/errors.md", name, kept[name], why,
        )  # fmt: skip
        self._lost += 1
        await self.forget(name)

    def metrics(self) -> Iterable[Metric]:
        yield Metric("stomp_log_kept_bytes", "gauge", "Bytes of the log kept for archives only.", [({}, self.kept)])
        yield Metric(
            "stomp_log_marks_lost_total", "counter", "Archives whose marks went because too much was kept for them.",
            [({}, self._lost)],
        )  # fmt: skip
