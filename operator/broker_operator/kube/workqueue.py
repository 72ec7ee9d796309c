"""What is to be looked at: a queue of ids, each at most once.

Rule: an id that is added while it is being worked on is worked on again afterwards, never twice at the same time.
Failures wait longer and longer. Must not know what is done with an id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ..spec.names import Id

log = logging.getLogger("stampede.operator")

FIRST_RETRY_S = 0.25
LAST_RETRY_S = 30.0

Work = Callable[[Id], Awaitable[float | None]]
"""Returns in how many seconds it wants to be called again, None = when something happens."""


class WorkQueue:
    """`depth`: ids that wait. `done`: (kind, "ok" | "error") → how many."""

    def __init__(self, work: Work, workers: int = 4) -> None:
        self._work = work
        self._workers = workers
        self._ready: asyncio.Queue[Id] = asyncio.Queue()
        self._waiting: set[Id] = set()
        self._running: set[Id] = set()
        self._again: set[Id] = set()
        self._timers: dict[Id, asyncio.TimerHandle] = {}
        self._failures: dict[Id, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.done: dict[tuple[str, str], int] = {}

    @property
    def depth(self) -> int:
        return len(self._waiting) + len(self._again)

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._run(), name=f"worker {n}") for n in range(self._workers)]

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, id: Id, delay_s: float = 0.0) -> None:
        """To be looked at, after `delay_s` seconds; the earliest of several wishes counts."""
        if delay_s > 0:
            self._later(id, delay_s)
        elif id in self._running:
            self._again.add(id)
        elif id not in self._waiting:
            self._waiting.add(id)
            self._ready.put_nowait(id)

    def _later(self, id: Id, delay_s: float) -> None:
        loop = asyncio.get_running_loop()
        timer = self._timers.get(id)
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[id] = loop.call_later(delay_s, self._due, id)

    def _due(self, id: Id) -> None:
        self._timers.pop(id, None)
        self.add(id)

    async def _run(self) -> None:
        while True:
            id = await self._ready.get()
            self._waiting.discard(id)
            self._running.add(id)
            try:
                await self._once(id)
                await asyncio.sleep(0)  # work that waits for nothing is no reason for others to: the lease, for one
            finally:
                self._running.discard(id)
                if id in self._again:
                    self._again.discard(id)
                    self.add(id)

    async def _once(self, id: Id) -> None:
        result = "ok"
        try:
            delay_s = await self._work(id)
            self._failures.pop(id, None)
            if delay_s is not None:
                self.add(id, max(delay_s, 0.001))
        except (Exception, asyncio.CancelledError) as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            # A cancellation that is not ours is the failure of what was waited for: it must not end a worker.
            result = "error"
            failures = self._failures[id] = self._failures.get(id, 0) + 1
            wait_s = min(FIRST_RETRY_S * 2.0 ** min(failures - 1, 20), LAST_RETRY_S)
            # The first failures are usual: a conflict, a server that is just restarting.
            level = logging.WARNING if failures > 3 else logging.INFO
            log.log(level, "%s: %s; again in %.2g s", id, error or repr(error), wait_s)
            log.debug("%s", id, exc_info=True)
            self.add(id, wait_s)
        key = (id.kind, result)
        self.done[key] = self.done.get(key, 0) + 1
