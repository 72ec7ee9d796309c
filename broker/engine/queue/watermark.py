"""How far a queue may hand out what lasts: before a durable message goes out, the log says that it may have been.

    cleared     durable messages up to this id may be delivered: the log says they may have been
    announced   last durable id that needs a mark before it goes out
    asked       the mark on its way to the disk, 0: none
    marked      the last one that is durable

Rule: nothing above `cleared` goes out, and `cleared` rises only by what is in the log: a mark that is durable, or a
record that says of itself that its messages were handed out at once.
"""

# Example. Durable 1 … 10 wait in a queue; a consumer comes.
#     may_go(1)     1 > cleared 0: a record "mark 10" is appended, asked = 10, nothing goes out
#     durable(10)   cleared = 10: 1 … 10 go out, without another record
#     11            comes while the consumer waits and nothing is in front of it: its own record says "dispatched", so
#                   cleared = 11
#     12            comes when the consumer's window is full: announced = 12, above cleared: it needs a mark first
#     crash         suspect are what is not settled of 1 … 10 (the mark) and 11 (its record); 12 never went out
# Proof (I6): nothing is handed out above `cleared`; `cleared` rises only by durable(), whose mark is in the log, and
# by came(), whose run is handed out only when its record is durable (gate.py). So whatever was handed out is below a
# mark of the log or in a record that says so, and after a crash it comes again with `redelivered`. The other way
# round a message may be marked without having been out: harmless. Why not a record per delivery: it would cost a
# write and a wait for each message.

from __future__ import annotations


class DeliveryWatermark:
    """Of one queue."""

    __slots__ = ("announced", "asked", "cleared", "marked")

    def __init__(self) -> None:
        self.cleared = self.announced = self.asked = self.marked = 0

    def came(self, last: int, dispatched: bool) -> None:
        """Durable messages up to `last` were published. dispatched: their own record says that they may be out."""
        # Only with nothing announced: its record speaks of itself, and raising `cleared` over older ones would let
        # those out of which no record says anything.
        if dispatched and self.announced <= self.cleared:
            self.cleared = last
        elif last > self.cleared:
            self.announced = last

    def ask(self, mark: int) -> None:
        """The mark is on its way to the disk."""
        self.asked = mark

    def durable(self, mark: int) -> None:
        """The log knows that everything up to `mark` may have been handed out: so it may be, now."""
        # came() may have raised it further while the mark was on its way.
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
        # All that came back needs a mark, or is covered by the old one: this life's log has said nothing yet.
        self.announced = last
        if clean:
            self.marked = 0
        else:
            self.cleared = mark
        return mark
