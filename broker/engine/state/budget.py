"""What all slots of a process share: how many queues there may be, its memory, and what is to be freed bit by bit.

Rule: counts and an account; to make a queue or free memory is decided elsewhere. Must not know queues.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.memory import NEVER, Memory
from broker.core.message import Run
from broker.core.metrics import Metric

from .latencies import Latencies

_GRAVE = 1000
"""Runs freed at a time."""


class Budget:
    """What all slots of a process share: how many queues there may be and are, and the account of its memory.

    used, estates   queues there are; those that are gone, whose dead letters are not all where they go (estates.py).
    latencies   whose messages are timed; None: nobody's.
    full_makers   users whose queues nobody may send to for now (makers.py).
    room   bytes that a queue may keep in memory at present, if that is less than its setting.
    graves   runs of queues that are gone: to free 100,000 of them at once takes 30 ms."""

    __slots__ = ("estates", "full_makers", "graves", "latencies", "limit", "memory", "room", "used")

    def __init__(self, limit: int, memory: Memory | None = None, timed: int = 0) -> None:
        self.limit = limit
        self.latencies = Latencies(timed) if timed else None
        self.used = self.estates = 0
        self.memory = memory or Memory()
        self.room = NEVER
        self.graves: list[list[Run]] = []
        self.full_makers: frozenset[str] = frozenset()

    def queue_made(self) -> None:
        """There is one more."""
        self.used += 1

    def forget_slot(self, slot: int) -> None:
        """It is not led here any more."""
        if self.latencies is not None:
            self.latencies.drop(slot)

    def metrics(self) -> Iterable[Metric]:
        if self.latencies is not None:
            yield from self.latencies.metrics()
        yield Metric(
            "stomp_deleted_queues", "gauge",
            "Deleted queues and subscriptions whose dead letters are not all where they go yet.",
            [({}, float(self.estates))],
        )  # fmt: skip

    def fill_makers(self, users: Iterable[str]) -> None:
        """They alone may keep no more."""
        self.full_makers = frozenset(users)

    def queue_gone(self) -> None:
        """There is one less."""
        self.used -= 1

    def estate_made(self) -> None:
        """One that was deleted has left dead letters."""
        self.estates += 1

    def estate_gone(self) -> None:
        """They are where they go."""
        self.estates -= 1

    def give(self, room: int) -> None:
        """So many bytes a queue may keep in memory from now on; Slot.make_room() follows."""
        self.room = room

    def bury(self, runs: list[Run]) -> None:
        """Nobody needs these any more: forget() them, bit by bit."""
        # Fewer are freed by Python at once, here and now.
        if len(runs) > _GRAVE:
            self.graves.append(runs)

    def forget(self) -> bool:
        """A bit of that. True: there is more."""
        if self.graves:
            # From the end: a list gives that back without moving the rest.
            del self.graves[-1][-_GRAVE:]
            if not self.graves[-1]:
                self.graves.pop()
        return bool(self.graves)
