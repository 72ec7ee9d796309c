"""What a queue knows of the messages that came back at the restart.

    settled      spans that are gone
    suspects     spans that may have been delivered
    suspect_to   the mark at the last unclean start
    restored     last id that came back; newer runs need no look at those spans
    grouped      some message that came back belongs to a group

Rule: it is filled while the log is read, and only shrinks afterwards: messages are looked at one by one when their
page comes back, and when the last page has come nothing of the spans is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.spans import Span, add_span, extend


class RestartState:
    """Of one queue."""

    __slots__ = ("grouped", "restored", "settled", "suspect_to", "suspects")

    def __init__(self) -> None:
        self.settled: list[Span] = []
        self.suspects: list[Span] = []
        self.restored = self.suspect_to = 0
        self.grouped = False

    def came_back(self, last: int, grouped: bool) -> None:
        """Messages up to `last` are in the queue again."""
        self.restored = last
        self.grouped = self.grouped or grouped

    def gone(self, spans: Iterable[Span]) -> None:
        """These were settled in the life before."""
        extend(self.settled, spans)

    def withdrawn(self, span: Span) -> None:
        """A consumer that came back holds these: they are in the queue no more."""
        add_span(self.settled, span)

    def suspect_up_to(self, mark: int) -> bool:
        """An unclean start: the mark stood there. Is that new."""
        new = mark > self.suspect_to
        self.suspect_to = max(self.suspect_to, mark)
        return new

    def replay(self, mark: int) -> None:
        """The log says where the mark stood at the last unclean start."""
        self.suspect_to = mark

    def suspect(self, dispatched: Iterable[Span]) -> None:
        """All is back. These, and what the mark covered, may have been delivered."""
        # Everything up to the mark of the last unclean start: it may have been delivered, so it says `redelivered`
        # (I6). Wrong only to the safe side, by as much as marks run ahead.
        self.suspects = [(1, self.suspect_to)] if self.suspect_to else []
        extend(self.suspects, dispatched)

    def looked_at(self) -> None:
        """Everything that came back has been looked at."""
        self.settled, self.suspects = [], []
