"""Where each consumer of a queue is whose messages stay when they are consumed.

Rule: places and what has been read ahead for them; which consumer is shown what is non_destructive.py's. Knows runs,
not queues.
"""

# Example. A non-destructive queue: 1 … 5 in memory, 6 … 9 in the journal. Consumer A has been shown 1 … 3, B is new.
#     A            seen = 3: goes on with 4 and 5, then asks for 6
#     B            seen = 0: begins at 1
#     scheduled    message 2 was due only now, and comes behind 9: A has passed it, so came_late() puts it into A's
#                  `late`; B will meet it in memory in the order of ids
#     A's answer   6 … 9 arrive for A alone (`feed`): memory does not keep them, B asks for them itself later

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from itertools import islice

from broker.core.message import Run
from broker.core.spans import Span

from ..messages.page_index import PageIndex
from ..messages.runs import pick
from ..messages.unloaded import ghost, may_be_ghosts
from .browser import consumed
from .consumer import Consumer, Ledger


class ConsumerCursor:
    """seen   ids up to this one are behind it.    late   runs with lower ids that came after all (schedules).
    at     so many positions of the page index are behind it, counted from the first there ever was.
    feed   read from the journal for this one.    ahead   scheduled messages among that, which memory will see later."""

    __slots__ = ("ahead", "at", "feed", "late", "seen")

    def __init__(self) -> None:
        self.seen = self.at = 0
        self.late: deque[Run] = deque()
        self.feed: deque[Run] = deque()
        self.ahead: set[int] = set()

    def unseen(self, run: Run) -> Run:
        """Those of the messages that are before the consumer."""
        if not run.ids or run.ids[0] > self.seen:
            return run
        return pick(run, [at for at, i in enumerate(run.ids) if i > self.seen])

    def passes(self, last: int) -> None:
        """Everything up to this id is behind it."""
        self.seen = max(self.seen, last)

    def fed(self, positions: int, runs: Iterable[Run]) -> None:
        """So many positions of the page index have been read for it, and these live."""
        self.at += positions
        for run in runs:
            self.feed.append(run)
            if run.due:
                self.ahead.update(run.ids)

    def came_late(self, run: Run) -> None:
        """Something scheduled has entered memory: what was given ahead is not new, what was only read ahead is here
        now."""
        # At most a page of feed; only for scheduled messages.
        twice = [fed for fed in self.feed if fed.due and not set(run.ids).isdisjoint(fed.ids)]
        for fed in twice:
            self.feed.remove(fed)
            self.ahead.difference_update(fed.ids)
        at = [at for at, i in enumerate(run.ids) if i not in self.ahead]
        self.ahead.difference_update(run.ids)
        if at and self.seen >= run.ids[at[0]]:
            self.late.append(run if len(at) == len(run.ids) else pick(run, at))


class Cursors:
    """Of one queue.    order   what is in memory, by id; None: not known."""

    __slots__ = ("_asked", "_dropped", "_places", "_reader", "order")

    def __init__(self) -> None:
        self.order: list[Run] | None = None
        self._places: dict[int, ConsumerCursor] = {}
        self._dropped = 0
        """Positions that have left the page index."""
        self._reader: ConsumerCursor | None = None
        """Whose fetch is under way."""
        self._asked: array[int] = array("Q")

    # ── what happens to the queue ──────────────────────────────────────────────────────────────────

    def came(self, run: Run) -> None:
        """A run has entered memory."""
        order = self.order
        if order is not None:
            # In order is the rule: then `order` needs no sort. Anything else makes the next show() sort once, n log
            # n, however many came.
            if not order or order[-1].ids[-1] < run.ids[0]:
                order.append(run)
            else:
                self.order = None
        if run.due:
            for cursor in self._places.values():
                cursor.came_late(run)

    def left(self, run: Run) -> None:
        """A run has left memory."""
        order = self.order
        if order is not None:
            at = bisect_left(order, run.ids[0], key=first_id)
            if at < len(order) and order[at] is run:
                del order[at]
            else:
                self.order = None

    def changed(self) -> None:
        """What is in memory has to be looked at anew."""
        self.order = None

    def sort(self, runs: list[Run]) -> list[Run]:
        """This is in memory."""
        self.order = order = sorted(runs, key=first_id)
        return order

    def unpaged(self, positions: int) -> None:
        """These have left the page index."""
        self._dropped += positions

    # ── reading what memory has no room for ────────────────────────────────────────────────────────

    def behind(self, cursor: ConsumerCursor) -> int:
        """The place in the page index, as it is now, from which on the consumer has to be shown what is there."""
        # What left the index was read into memory, where `seen` says what is new: nothing is passed over.
        cursor.at = max(cursor.at, self._dropped)
        return cursor.at - self._dropped

    def ask(self, cursor: ConsumerCursor, index: PageIndex, count: int) -> array[int]:
        """The next positions to be read for it, at most so many. They come to fetched()."""
        start = self.behind(cursor)
        self._asked = array("Q", islice(index, start, start + count))
        self._reader = cursor
        return self._asked

    def fetched(self, runs: list[Run], used: Iterable[Run]) -> None:
        """The journal's answer to ask(), and what of it is in the queue."""
        cursor, self._reader = self._reader, None
        if cursor is not None:
            cursor.fed(consumed(self._asked, runs), used)

    # ── consumers ──────────────────────────────────────────────────────────────────────────────────

    def of(self, consumer: int) -> ConsumerCursor:
        """Where it is; a new one is at the head."""
        cursor = self._places.get(consumer)
        if cursor is None:
            cursor = self._places[consumer] = ConsumerCursor()
        return cursor

    def keep(self, consumers: list[Consumer]) -> None:
        """Only these are there still."""
        if len(self._places) > len(consumers):
            here = {consumer.id for consumer in consumers}
            self._places = {i: cursor for i, cursor in self._places.items() if i in here}

    def attach(self, consumer: Consumer, held: list[Span], taken: list[Span]) -> None:
        """It comes again: what its client was given is behind it. What it holds is known by number only: whatever is
        said of it is accepted and does nothing."""
        cursor = self.of(consumer.id)
        # All its client ever got is behind the highest of it: it was shown in the order of ids.
        for _, last in [*held, *taken]:
            cursor.passes(last)
        if held and consumer.ledger is not None and may_be_ghosts(held):
            ledger: Ledger = {}
            for span in held:
                absent = ghost(span, own=True)
                ledger.update(dict.fromkeys(absent.ids, absent))
            consumer.adopt(ledger, True)


def first_id(run: Run) -> int:
    return run.ids[0]
