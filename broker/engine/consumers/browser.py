"""A browsing consumer: sees what was ready when it came and it asked for, once and in order, and takes nothing.

Rule: it looks at what was there at its SUBSCRIBE; what is consumed meanwhile may be shown all the same. It is put in
order, and its selector asked, a few messages at a time, no earlier than they can be shown: step() ends when it has cost
what it may. Must not know queues.
"""

# Example. A queue holds 1 … 3 in memory and 4 … 9 in the journal, at positions p and q. A browser with a selector
# comes.
#     SUBSCRIBE   feed: nothing; _unasked: the runs of 1 … 3; places: p, q, a snapshot of the index
#     step        asks 1 … 3 in pieces of 32, shows what matches, ends at `most` nanoseconds or when the client has no
#                 room
#     hungry      nothing left in memory: a page is read, p and q leave `places`
#     end         places are empty and all was asked: BrowseEnd
# Meanwhile a consumer may take 2: the browser shows it all the same. It takes nothing, so nothing can be lost by
# that, and what is shown needs no mark: it is not a delivery.

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from itertools import islice

from broker.core.effects import BrowseEnd, Deliver, Turn
from broker.core.message import Run
from broker.selector.heads import head_of

from ..messages.page_index import PageIndex
from ..messages.runs import pick
from .consumer import Consumer

_ASKED = 32
"""Messages its selector is asked of at a time."""
_LOOKED = 32
"""Runs of memory that are put in order at a time."""
_NUMBERED = 1024
"""Messages known by number that are put in order at a time."""
_QUESTION_NS, _SHOWN_NS = 1000, 2000
"""About what the simplest question costs, and to show a run."""
_ORDER_NS = 20_000
"""… and to put _LOOKED runs in order."""

Numbered = tuple[Iterator[tuple[int, int]], int]
"""(id, position) … in order, and how many: messages known by number."""


class Browser:
    """feed   runs to be shown.    places   journal positions still to be read.
    done   it has seen everything.    overran   over what its selector would have cost too much; empty: nothing."""

    __slots__ = (
        "_address", "_coming", "_far", "_far_left", "_front", "_some", "_unasked", "asked", "consumer", "done", "feed",
        "overran", "places",
    )  # fmt: skip

    def __init__(self, consumer: Consumer, address: str, runs: Iterator[Run], places: PageIndex, far: Numbered) -> None:
        """`address`: of the messages, for AMQAddress. `runs`: in order, of a snapshot. `places`: a snapshot, its own.
        `far`: of a snapshot; read before `places`."""
        self.consumer = consumer
        self.feed: deque[Run] = deque()
        self._unasked: deque[Run] = deque()
        """Runs of which the selector has still to be asked; without one there is nothing to ask."""
        self._coming: Iterator[Run] | None = runs
        self._far, self._far_left = far
        self._front = 0
        """The first of `places` that come from there."""
        self._some: dict[int, set[int]] = {}
        """Of these only some messages are in the queue."""
        self.overran = ""
        self._address = address
        self.places = places
        self.done = False
        self.asked: array[int] = array("Q")

    def next_positions(self, count: int) -> array[int]:
        """The next positions to read, in order."""
        if self._far_left and not self._front:
            self._some = {}
            some = min(self._far_left, _NUMBERED)
            self._far_left -= some
            for i, position in islice(self._far, some):
                self._some.setdefault(position, set()).add(i)
            self.places.prepend(list(self._some))
            self._front = len(self._some)
        if self._front:
            count = min(count, self._front)
        self.asked = self.places.first(count)
        return self.asked

    def fetched(self, answer: list[Run], runs: list[Run]) -> None:
        """The journal's answer, and what of it is in the queue; positions not covered are asked for again."""
        # An answer that stops early is no end: the rest is asked for again, so a page may be as short as the journal
        # likes.
        covered = consumed(self.asked, answer)
        self.places.drop(covered)
        self._feed([self._present(run) for run in runs])
        self._front = max(self._front - covered, 0)

    def emptied(self, queue: int) -> None:
        """There is nothing left to see; the queue of that number stands for its own now."""
        self.feed.clear()
        self._unasked.clear()
        self.places = PageIndex()
        self._coming, self._far_left, self._front = None, 0, 0
        self.consumer.move(queue)

    def take_overran(self) -> str:
        """Takes out why its selector was given up; empty: it was not."""
        overran, self.overran = self.overran, ""
        return overran

    def can_go_on(self) -> bool:
        """It has something to ask, to show or to say, and nothing has to happen before."""
        if self.done:
            return False
        if self.feed:
            return self.consumer.room > 0
        return bool(self._unasked) or self._coming is not None or not self._waits()

    def is_hungry(self) -> bool:
        """It can only go on with a page of the journal."""
        return not (self.done or self.feed or self._unasked) and self._coming is None and self._waits()

    def _waits(self) -> bool:
        """Something of it is still to be read."""
        return self.places.size > 0 or self._far_left > 0

    def _present(self, run: Run) -> Run:
        """Those messages of a run that was read back which are in the queue."""
        ids = self._some.get(run.position) if self._front else None
        return run if ids is None else pick(run, [at for at, i in enumerate(run.ids) if i in ids])

    def _feed(self, runs: list[Run]) -> None:
        (self._unasked if self._selective() else self.feed).extend([run for run in runs if run.ids])

    def _selective(self) -> bool:
        filter = self.consumer.filter
        return filter is not None and filter[0] is not None

    def step(self, turn: Turn, most: int) -> int:
        """Asks, delivers what there is room for, and tells when that was all. Ends when it has cost about `most`
        nanoseconds; returns what it has cost."""
        spent = _SHOWN_NS
        while spent < most:
            if not self.feed and not self._unasked and self._coming is not None:
                spent += self._come(self._coming)
            # Asked only when there is nothing to show: no earlier than needed, since a client that reads slowly may
            # leave before.
            if not self.feed and self._unasked:
                spent += self._ask(self._unasked.popleft())
            if self.feed:
                if self.consumer.room <= 0:
                    return spent
                spent += self._show(turn, self.feed.popleft())
            elif not self._unasked and self._coming is None:
                if not self._waits() and not self.done:
                    self.done = True
                    turn.effects.append(BrowseEnd(self.consumer.id))
                return spent
        return spent

    def _come(self, coming: Iterator[Run]) -> int:
        """The next runs of memory. Returns nanoseconds, about."""
        some = list(islice(coming, _LOOKED))
        if len(some) < _LOOKED:
            self._coming = None
        self._feed(some)
        return _ORDER_NS

    def _ask(self, run: Run) -> int:
        """The selector of the first messages of a run: those it wants are to be shown. Returns nanoseconds, about."""
        filter = self.consumer.filter
        selector = None if filter is None else filter[0]
        assert selector is not None, "without a selector everything is shown"
        count = len(run.ids)
        if count > _ASKED:
            # A run may hold thousands of messages: 32 questions, then the caller's budget is looked at again.
            self._unasked.appendleft(run.cut(slice(_ASKED, None)))
            run = run.cut(slice(_ASKED))
        cost = len(run.ids) * (_QUESTION_NS + selector.heavy * len(head_of(run, 0)))
        wanted = selector.select(run, self._address)
        if len(wanted):
            self.feed.append(pick(run, wanted))
        if selector.meter is not None:
            self.overran = selector.meter.overran() or self.overran
        return cost

    def _show(self, turn: Turn, run: Run) -> int:
        """Delivers of this run what there is room for. Returns nanoseconds, about."""
        # Not taken out here: it is not the browser's to take. sweep() does that for the queue.
        if run.expires and run.expires <= turn.now:
            return _SHOWN_NS
        consumer = self.consumer
        fitting = consumer.prefix(run)
        if fitting < len(run.records):
            self.feed.appendleft(run.cut(slice(fitting, None)))
            run = run.cut(slice(fitting))
        turn.effects.append(Deliver(consumer.id, run, consumer.charge(run)))
        return _SHOWN_NS


def consumed(asked: array[int], runs: list[Run]) -> int:
    """How many of the asked positions an answer of the journal covers. It may stop early, and skips what is dead."""
    return asked.index(runs[-1].position) + 1 if runs else len(asked)
