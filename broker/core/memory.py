"""What a process holds in memory for its clients, by kind, and the bound of all of it.

Two numbers are known, and both are too large: what is counted (a message in a thousand queues counts a thousand times,
though its bytes are there once), and by how much the process has grown (memory that was freed is not given back at
once). What is used is the smaller one. Growth is asked for only when the count alone is near the bound.

Rule: plain sums; which holder is made to let go of what is decided elsewhere (owner/shard/memory_pressure.py,
edge/transport/connection_memory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .metrics import Metric

NEVER: Final = 1 << 62
"""A bound that is not there."""

RUN: Final = 480
"""Bytes that a run takes beside those of its messages: measured, 100,000 runs of one message in a queue."""
MESSAGE: Final = 48
"""… and each message of it: the head of its bytes object, and its place in a list."""
UNACKNOWLEDGED: Final = 140
"""… and each one that a consumer has not acknowledged: its number, and its place in a ledger."""
COUNT: Final = 100
"""… and each one of which it is known how often it was out."""


LIMIT = "Bytes that messages may take in this process, in queues and connections together; 0: no bound."
STATE = "0: enough memory; 1: short, those who hold most give way; 2: full."
USED = "Bytes that messages take, as counted: one in several queues counts several times."


class Memory:
    """limit    bytes, all kinds together.
    near     from there on those who hold most let go.    low   below it everybody may have as much as ever again.
    wall     from there on messages are refused: to make producers wait was in vain.
    queues, sessions   bytes at present, in queues (or with consumers), and in connections."""

    __slots__ = ("_grown", "limit", "low", "near", "queues", "sessions", "wall")

    def __init__(self, limit: int = NEVER, grown: Callable[[], int] | None = None) -> None:
        """grown: bytes that the process has more than when it had nothing; None: nobody can tell."""
        self.limit = limit
        self.near = limit // 10 * 8
        self.low = limit // 10 * 6
        self.wall = limit + limit // 4
        self.queues = self.sessions = 0
        self._grown = grown

    def free(self, nbytes: int) -> None:
        """A queue is gone, and what it held."""
        self.queues -= nbytes

    @property
    def counted(self) -> int:
        """All kinds together, as counted."""
        return self.queues + self.sessions

    def told(self, used: int) -> str:
        """For people."""
        return (
            f"{used >> 20:,} of {self.limit >> 20:,} MiB are used (memory.limit_bytes; counted: queues "
            f"{self.queues >> 20:,} MiB, connections {self.sessions >> 20:,} MiB)"
        )

    def details(self) -> dict[str, str]:
        """For /readyz: near the bound only."""
        if self.counted <= self.near or (used := self.used()) <= self.near:
            return {}
        return {"memory": f"{'full' if used >= self.limit else 'short'}: {self.told(used)}"}

    def metrics(self) -> list[Metric]:
        kinds = {"queues": self.queues, "connections": self.sessions}
        used = self.used()
        state = (used > self.near) + (used >= self.limit)
        return [
            Metric("stomp_memory_limit_bytes", "gauge", LIMIT, [({}, float(self.limit if self.limit < NEVER else 0))]),
            Metric("stomp_memory_state", "gauge", STATE, [({}, float(state))]),
            Metric("stomp_memory_used_bytes", "gauge", USED, [({"kind": k}, float(n)) for k, n in kinds.items()]),
        ]

    def used(self) -> int:
        """The smaller one of what is counted and of what the process has grown by."""
        counted = self.queues + self.sessions
        if counted < self.low or self._grown is None:
            return counted
        return min(counted, self._grown())
