"""Changes, one at a time, each of which goes on to its end when the request that asked for it does not wait any more.

Rule: what is cancelled is the waiting, never the work; a failure that no request waits for any more is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger("stampede")

T = TypeVar("T")


class Uncancelled:
    """Carries out changes: a thread that writes a file cannot be called back, so nobody else has his turn before."""

    __slots__ = ("_tasks", "_turn")

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        """A loop alone does not keep them."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What it returns or raises. It begins when those before it have ended."""
        task = asyncio.get_running_loop().create_task(self._in_turn(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_tell)
            raise

    async def _in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with self._turn:
                return await work
        finally:
            work.close()  # of one that never began, because the loop ends


def _tell(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a change that nobody waited for was not made: %s", error)
