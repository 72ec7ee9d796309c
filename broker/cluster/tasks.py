"""Background tasks of one object: started together, ended together, never failing in silence.

Rule: an exception nobody expected goes to the loop's exception handler (which logs it, and ends a simulation).
Must not know what the tasks do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def report(error: BaseException, what: str) -> None:
    """Tells the loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": f"unexpected error in {what}", "exception": error})


def shielded(callback: Callable[..., None], *args: Any) -> None:
    """Calls a listener; its error is reported and does not keep the next listener from being told."""
    try:
        callback(*args)
    except Exception as error:
        report(error, getattr(callback, "__qualname__", "a listener"))


def heed() -> None:
    """Behind a call of a library that may swallow a cancellation: raises it, if our task was cancelled. (Until Python
    3.11 asyncio.wait_for returns an answer that comes at the same moment, and the task would go on for ever.)"""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Tasks:
    """Tasks that live until close()."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}  # ordered: a simulation must repeat itself

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Runs `work` in the background."""
        task = asyncio.get_running_loop().create_task(work, name=what)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            report(error, task.get_name())

    async def close(self) -> None:
        """Cancels all of them and waits until they have ended."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
