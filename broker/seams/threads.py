"""Threads that wait for what is not ours: a server, a function of the user's.

Rule: a process that ends does not wait for them. (Those of concurrent.futures are joined at the end of the interpreter:
one question without an answer, and SIGTERM would not be obeyed.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

Found = TypeVar("Found")


class WaitingThreads:
    """At most so many, made when there is work for them; what comes meanwhile waits in its order."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._made = 0
        self._work: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def run(self, work: Callable[[], Found]) -> asyncio.Future[Found]:
        """What it returns or raises, in this loop. Cancelled before its turn: it is not done."""
        answer: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._work.put((answer, work))
        if self._made < self._most:
            self._made += 1
            Thread(target=self._serve, name=f"{self._name}-{self._made}", daemon=True).start()
        return answer

    def close(self) -> None:
        """They end, each after what it is doing."""
        for _ in range(self._made):
            self._work.put(None)

    def _serve(self) -> None:
        while self._next():
            pass

    def _next(self) -> bool:
        # A function of its own: what it was about (a passcode, an error with frames) must not live until the next one.
        item = self._work.get()
        if item is None:
            return False
        answer, work = item
        if answer.cancelled():
            return True
        try:
            settle = partial(_found, answer, work())
        except BaseException as error:
            settle = partial(_failed, answer, error)
        try:
            answer.get_loop().call_soon_threadsafe(settle)
        except RuntimeError:
            return False  # the loop has ended meanwhile
        return True


def _found(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():  # somebody waits still
        answer.set_result(found)


def _failed(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
