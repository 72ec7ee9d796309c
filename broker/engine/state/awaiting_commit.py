"""What waits in a slot for a commit: one entry of Slot.pending.

Rule: a value, made when the turn that it waits for is under way and read once, when that is durable
(commit_release.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.core.effects import Effect
from broker.core.message import Run

from ..consumers.consumer import Consumer
from ..queue.queue import Queue

WITHHELD: Final = 1 << 63
"""Taken off the room of a consumer that may not begin yet: more than it may ever have (commands.UNLIMITED)."""


class Held:
    """What waits for a commit: runs to enter queues (paged: into the index), an effect to tell, a mark, a consumer
    that may begin. front: the runs are of one queue, have been in it, and enter before all others of its index."""

    __slots__ = ("consumer", "due", "effect", "entries", "front", "mark", "number")

    def __init__(
        self,
        number: int,
        effect: Effect | None = None,
        entries: Sequence[tuple[Queue, Run, bool]] = (),
        mark: tuple[Queue, int] | None = None,
        consumer: Consumer | None = None,
        due: Queue | None = None,
        front: bool = False,
    ) -> None:
        self.front = front
        self.number = number
        self.effect = effect
        self.entries = entries
        self.mark = mark
        self.consumer = consumer
        self.due = due
