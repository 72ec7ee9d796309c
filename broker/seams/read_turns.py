"""Turns of the loop that reads nobody is in a hurry for take: of the log, and what consoles watch.

Rule: one read at a time, however many there are, and between two of their steps the rest of the broker has the loop;
where that has used it, reads rest: a message passes the loop some five times on its way, and would find a step of a
read before it each time. An idle broker is read as fast as it goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Final

from .loop_watchdog import portion

UNHURRIED: Final = "unhurried"
"""Field of a question (JSON): nobody waits for the answer, it is asked again and again."""
IN_USE_S: Final = 30e-6
"""An iteration of the loop that took longer had other work than reads."""
REST_S: Final = 0.001
"""The shortest that a loop's timer can; a step of a read is about a third of it."""


async def in_portions(work: Generator[Any, None, Any], now: Callable[[], float], since: float | None = None) -> Any:
    """What the work returns, with turns of the loop between its portions. since: see portion()."""
    while True:
        try:
            portion(work, now, since)
        except StopIteration as end:
            return end.value
        await asyncio.sleep(0)


class ReadTurns:
    """One for all reads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._next = asyncio.Lock()

    async def next(self) -> None:
        """Returns when this read may take a step; call it before each."""
        async with self._next:
            began = self._now()
            await asyncio.sleep(0)
            if self._now() - began > IN_USE_S:
                await asyncio.sleep(REST_S)
