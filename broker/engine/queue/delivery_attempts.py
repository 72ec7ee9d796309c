"""How often messages of a queue were out in vain, and when those come again, as far as the log says so.

Rule: set, never added to, so a record that is replayed twice does no harm; a message that is settled has no entry.
`counts` and `due` are read by anybody (a call for each message would show), and changed here only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from broker.core.spans import Span


class DeliveryAttempts:
    """counts   id → attempts in vain; 0: it was out, and nobody failed.    due   id → when it comes again, if later."""

    __slots__ = ("counts", "due")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.due: dict[int, int] = {}

    def note(self, ids: Sequence[int], attempts: int, due: int) -> None:
        """The log says so of these. due: 0, at once."""
        noted = dict.fromkeys(ids, attempts)
        if self.counts:
            self.counts.update(noted)
        else:
            self.counts = noted
        if due:
            self.due.update(dict.fromkeys(ids, due))
        elif self.due:
            for i in ids:
                self.due.pop(i, None)

    def forget(self, spans: Iterable[Span]) -> None:
        """Settled messages need no delivery count any more."""
        counts, due = self.counts, self.due
        for first, last in spans:
            # The shorter walk of two: over the span, or over what is counted.
            if last - first < len(counts):
                gone: Iterable[int] = range(first, last + 1)
            else:
                gone = [i for i in counts if first <= i <= last]
            for i in gone:
                counts.pop(i, None)
                due.pop(i, None)

    def keep(self, lives: Callable[[int], bool]) -> None:
        """Only of those."""
        for i in [i for i in self.counts if not lives(i)]:
            del self.counts[i]
            self.due.pop(i, None)
