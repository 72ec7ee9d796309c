"""Waiting for a condition, never for a fixed time.

Rule: the limit only bounds a failure; it must be enough on a machine that is busy with other things.
"""

from __future__ import annotations

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


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a connection to that port is taken. What a log or an address in etcd says of it may come earlier."""
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True
