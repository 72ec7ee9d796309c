"""Which queues of a slot have changed, for those that look on: they read these again, and no others.

Rule: whatever an operator sees of a queue (queue_views.py) changes with a mark of it before the turn ends: what was
touched, what waits for the log, whose consumer came or went, and the queue that came or went itself. Costs a question a
turn where nobody looks; at most MOST marks between two looks.
"""

# Example. Somebody asks for the longest queues, every two seconds.
#     begin()      at 7: from here on changes are marked. All queues are read once
#     mark(3)      8: a message for queue 3
#     mark(5)      9
#     mark(3)      10; 3 is behind 5 now, and there once
#     since(8)     5 and 3. Who had seen all that was marked up to 8 reads these two again
#     MOST + 1     too many: off(). since(8) says None: all of them are read, and marked again from there on

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..queue.queue import Queue

MOST: Final = 500
"""Queues that are marked. With more of them changed a slot is read as a whole: it has some thousand."""


class QueueChanges:
    """on   somebody looks.    count   marks ever made.    addresses   how often an address, or a queue of one, came or
    went."""

    __slots__ = ("_began", "_marks", "addresses", "count", "on")

    def __init__(self) -> None:
        self.on = False
        self.count = self.addresses = 0
        self._began = 0
        self._marks: dict[int, int] = {}

    # ── by whom changes it ─────────────────────────────────────────────────────────────────────────

    def mark(self, queue: Queue) -> None:
        """It has changed, or is about to in this step."""
        if not self.on:
            return
        marks, id = self._marks, queue.id
        marks.pop(id, None)  # the order is that of the last change
        self.count += 1
        marks[id] = self.count
        if len(marks) > MOST:
            self.off()

    def mark_all(self, queues: Iterable[Queue]) -> None:
        """As many as a turn has touched."""
        for queue in queues:
            if not self.on:
                return  # too many already
            self.mark(queue)

    def came_or_went(self, queue: Queue) -> None:
        """The queue has: there it counts as changed. A hidden one is shown nowhere, and a COMMIT over several slots
        makes one in each."""
        if queue.hidden:
            return
        self.addresses += 1
        self.mark(queue)

    def address(self) -> None:
        """One came or went that has no queue."""
        self.addresses += 1

    # ── by whom looks ──────────────────────────────────────────────────────────────────────────────

    def begin(self) -> int:
        """Changes are marked from now on. What to ask since() with."""
        if not self.on:
            self.on = True
            self._began = self.count
        return self.count

    def since(self, mark: int) -> list[tuple[int, int]] | None:
        """(mark, id of the queue) of all that were marked behind that, the oldest first; None: nobody knows, read all
        that there are."""
        if not self.on or mark < self._began:
            return None
        changed: list[tuple[int, int]] = []
        for id, at in reversed(self._marks.items()):
            if at <= mark:
                break
            changed.append((at, id))
        changed.reverse()
        return changed

    def off(self) -> None:
        """Nobody looks on."""
        # What was seen up to here has a mark of before whatever begins next: all that goes unmarked is between the two.
        self.count += 1
        self.on = False
        self._marks = {}
