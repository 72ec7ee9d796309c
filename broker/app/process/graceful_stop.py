"""The end of an edge, alone or beside an owner: clients finish what they have begun, then they are cut off.

Rule: an edge is stopped by this alone; no connection is accepted any more when it is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Drains(Protocol):
    """An edge."""

    def drain(self, done: Callable[[], None]) -> None: ...
    def cut_off(self, done: Callable[[], None]) -> None: ...


async def drained(edge: Drains, within_s: float) -> None:
    """Returns when no connection is left: by itself within so many seconds, else cut off."""
    over = asyncio.Event()
    edge.drain(over.set)
    try:
        await asyncio.wait_for(over.wait(), within_s)
    except TimeoutError:
        cut = asyncio.Event()
        edge.cut_off(cut.set)
        await cut.wait()
