"""Messages known by number only: after a restart a consumer may hold again what memory does not have.

Rule: a stub can be settled at once; for anything that needs the bytes they are read back first (`Queue.recall`).
Must not know commands or turns.
"""

# Example. After a restart a client says it holds 4, 5 and 6; 4 is paged at position p, 5 was settled, 6 never reached
# the disk.
#     4     a stub: position p. An ACK settles it by number; a NACK needs its bytes: read back first, then given back
#     5     a ghost: an ACK of it succeeds, and does nothing
#     6     a ghost as well: it died with the leader that only had it in memory. An ACK succeeds: its client has
#           processed it
# own and firm tell what may be believed of a ghost in doubt (already_settled.py).

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from broker.core.message import DURABLE, NO_IDS, Run
from broker.core.spans import Span, count_of, spans_of

MOST_GHOSTS: Final = 1 << 20
"""A client that is said to have more messages than so many: no ghosts are made of those that are not here."""


class Stub(Run):
    """Messages without bytes. `nbytes` is their share of a mean, `position` where the journal has them.

    A ghost (not DURABLE, position 0) stands for messages that are not in the queue any more, but which the client
    may still name. own: what became of them its consumer has asked for itself, of this very leader: whatever it says
    of them again is accepted and does nothing. firm: no leader's end took them. More in already_settled.py."""

    __slots__ = ("firm", "own")

    def __init__(self, ids: range, position: int = 0, nbytes: int = 0, flags: int | None = None) -> None:
        known = (DURABLE if position else 0) if flags is None else flags
        super().__init__(ids, b"", [], nbytes, known, position=position)
        self.own = self.firm = False

    def size_of(self, index: int) -> int:
        # A mean, whatever the message: credit in bytes is about right, and comes back as it was taken.
        return self.nbytes // len(self.ids)


class Restored:
    """Which ids stand at which place of the page index after a restart: 12 bytes per run until it is read back.

    Runs of one queue come by ascending id and their ids do not interleave. They stand so in the index, unless
    arrange() says otherwise (4 bytes more)."""

    __slots__ = ("_firsts", "_lengths", "_places", "_sparse", "read")

    def __init__(self) -> None:
        self.read = 0
        """So many of them have left the index."""
        self._firsts = array("Q")
        self._lengths = array("I")
        self._sparse: dict[int, array[int]] = {}
        self._places: array[int] | None = None

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, ids: Sequence[int]) -> None:
        """The next run of the index."""
        length = ids[-1] - ids[0] + 1
        if length != len(ids):
            self._sparse[len(self._firsts)] = array("Q", ids)
        self._firsts.append(ids[0])
        self._lengths.append(length)

    def extend(self, firsts: Sequence[int], counts: Sequence[int]) -> None:
        """add() for runs of consecutive ids."""
        self._firsts.extend(firsts)
        self._lengths.extend(counts)

    def arrange(self, order: Sequence[int]) -> None:
        """The index has them in this order: numbers of runs, counted by ascending id. Call it before any is read."""
        self._places = array("I", bytes(4 * len(order)))
        for place, at in enumerate(order):
            self._places[at] = place

    def has_read(self, positions: int) -> bool:
        """So many more have left the index. Were they the last."""
        self.read += positions
        return self.read >= len(self._firsts)

    def find(self, first: int, last: int) -> Iterator[tuple[int, Span]]:
        """What is not read back yet of first … last: (place in the index as it is now, span) …"""
        places = self._places
        # The run that begins at or before the first id; log n, then as many runs as the span touches.
        at = max(bisect_right(self._firsts, first) - 1, self.read if places is None else 0)
        while at < len(self._firsts) and self._firsts[at] <= last:
            place = at if places is None else places[at]
            low = max(first, self._firsts[at])
            high = min(last, self._firsts[at] + self._lengths[at] - 1)
            ids = self._sparse.get(at)
            # It has been read back: then it is in memory, and found there.
            if low > high or place < self.read:
                spans: list[Span] = []
            elif ids is None:
                spans = [(low, high)]
            else:
                named = ids[bisect_left(ids, low) : bisect_right(ids, high)]
                spans = spans_of(named) if named else []
            for span in spans:
                yield place - self.read, span
            at += 1


def ghost(span: Span, own: bool = False, firm: bool = False) -> Stub:
    """For messages that are gone."""
    absent = Stub(range(span[0], span[1] + 1) if span[1] >= span[0] else NO_IDS)
    absent.own, absent.firm = own, firm
    return absent


def may_be_ghosts(spans: Iterable[Span]) -> bool:
    """Are these so few that ghosts may be made of them, one by one. An edge says them, and may say any number: two of
    them may be 2**40 messages, which nobody was ever given."""
    return count_of(spans) <= MOST_GHOSTS


def unread(messages: Mapping[int, Run]) -> bool:
    """Are there some of which memory has the number only."""
    return Stub in map(type, messages.values())


def is_ghost(run: Run) -> bool:
    """Does it stand for messages that are gone."""
    return type(run) is Stub and not run.position


def is_firm(run: Run) -> bool:
    """Does it stand for messages that did not die with a leader."""
    return type(run) is Stub and run.firm


def is_strange(run: Run) -> bool:
    """The same, and it is not known to be its consumer's own doing."""
    return type(run) is Stub and not run.position and not run.own
