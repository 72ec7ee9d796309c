"""Waiting for a condition, never for a fixed time.

Rule: the limit only bounds a failure; it must be enough on a machine that is busy with other things.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

PATIENCE_S = 30.0


def until(condition: Callable[[], object], why: str | Callable[[], str], seconds: float = PATIENCE_S) -> None:
    """Returns when the condition holds. Raises AssertionError with `why` when it does not in so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, why if isinstance(why, str) else why()
        time.sleep(0.02)


async def eventually(condition: Callable[[], object]) -> None:
    """The same in a loop, for something that shows only in state."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (nothing here could set an event)
            await asyncio.sleep(0.001)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a connection to that port is taken. What a log or an address in etcd says of it may come earlier."""
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True
