"""What the consumers of one queue took since a period began.

Rule: counts only; which consumer is slow, and what happens then, is decided in slow_consumers.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from .consumer import Consumer


class ConsumerPace:
    """What the consumers of one queue took since the period began.

    ends    epoch milliseconds.    taken   consumer → messages; those that had something to take."""

    __slots__ = ("ends", "taken")

    def __init__(self) -> None:
        self.ends = 0
        self.taken: dict[int, int] = {}

    def begin(self, ends: int, able: Iterable[Consumer]) -> None:
        """A period that ends then; `able` are those that have something to take."""
        self.ends = ends
        self.taken = {consumer.id: 0 for consumer in able}

    def settled(self, consumer: Consumer, count: int) -> None:
        """It has settled so many, or been given them in ack mode auto."""
        if consumer.id in self.taken:
            self.taken[consumer.id] += count
