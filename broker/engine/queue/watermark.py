"""How far a queue may hand out what lasts: before a durable message goes out, the log says that it may have been.

    cleared     durable messages up to this id may be delivered: the log says they may have been
    announced   last durable id that needs a mark before it goes out
    asked       the mark on its way to the disk, 0: none
    marked      the last one that is durable

Rule: nothing above `cleared` goes out, and `cleared` rises only by what is in the log: a mark that is durable, or a
record that says of itself that its messages were handed out at once.
"""

from __future__ import annotations


class DeliveryWatermark:
    """Of one queue."""

    __slots__ = ("announced", "asked", "cleared", "marked")

    def __init__(self) -> None:
        self.cleared = self.announced = self.asked = self.marked = 0

    def came(self, last: int, dispatched: bool) -> None:
        """Durable messages up to `last` were published. dispatched: their own record says that they may be out."""
        if dispatched and self.announced <= self.cleared:
            self.cleared = last
        elif last > self.cleared:
            self.announced = last

    def ask(self, mark: int) -> None:
        """The mark is on its way to the disk."""
        self.asked = mark

    def durable(self, mark: int) -> None:
        """The log knows that everything up to `mark` may have been handed out: so it may be, now."""
        self.cleared = max(self.cleared, mark)
        self.marked = mark
        self.asked = 0

    def replay(self, mark: int) -> None:
        """A restart: the log has this mark."""
        self.marked = mark

    def restart(self, last: int, clean: bool) -> int:
        """A restart is complete, and `last` came back. Returns the mark of the life before. clean: what was not settled
        was not delivered either, so that mark has said all it had to."""
        mark = self.marked
        self.announced = last
        if clean:
            self.marked = 0
        else:
            self.cleared = mark
        return mark
