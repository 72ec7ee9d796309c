"""Messages that stay when they are consumed: every consumer has its own place in the queue.

A consumer begins at the head and sees everything once, in the order of ids (priorities do not count), as long as it is
attached. ACK and NACK give back its credit and change nothing; messages leave by expiry, by a newer value of their key,
or when a ring is full. What memory has no room for is read from the journal for each consumer, a page at a time.

Rule: takes nothing out of the queue. Must not know why a message leaves it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import islice

from broker.core.effects import Turn
from broker.core.message import Run

from .browser import consumed
from .consumer import Consumer, Ledger
from .queue import Queue
from .round_robin import deliver
from .runs import Span, pick
from .slot import Slot
from .unloaded import ghost


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


class Cursors:
    """Of one queue."""

    __slots__ = ("_asked", "_dropped", "_order", "_places", "_reader")

    def __init__(self) -> None:
        self._places: dict[int, ConsumerCursor] = {}
        self._order: list[Run] | None = None
        """What is in memory, by id; None: not known."""
        self._dropped = 0
        """Positions that have left the page index."""
        self._reader: ConsumerCursor | None = None
        """Whose fetch is under way."""
        self._asked: array[int] = array("Q")

    # ── what happens to the queue ──────────────────────────────────────────────────────────────────

    def came(self, run: Run) -> None:
        """A run has entered memory."""
        order = self._order
        if order is not None:
            if not order or order[-1].ids[-1] < run.ids[0]:
                order.append(run)
            else:
                self._order = None
        if run.due:
            for cursor in self._places.values():
                _late(cursor, run)

    def left(self, run: Run) -> None:
        """A run has left memory."""
        order = self._order
        if order is not None:
            at = bisect_left(order, run.ids[0], key=_first_id)
            if at < len(order) and order[at] is run:
                del order[at]
            else:
                self._order = None

    def changed(self) -> None:
        """What is in memory has to be looked at anew."""
        self._order = None

    def unpaged(self, positions: int) -> None:
        """These have left the page index."""
        self._dropped += positions

    def fetched(self, runs: list[Run], used: Iterable[Run]) -> None:
        """The journal's answer to show(), and what of it is in the queue."""
        cursor, self._reader = self._reader, None
        if cursor is not None:
            cursor.at += consumed(self._asked, runs)
            for run in used:
                cursor.feed.append(run)
                if run.due:
                    cursor.ahead.update(run.ids)

    # ── consumers ──────────────────────────────────────────────────────────────────────────────────

    def attach(self, consumer: Consumer, held: list[Span], taken: list[Span]) -> None:
        """It comes again: what its client was given is behind it. What it holds is known by number only: whatever is
        said of it is accepted and does nothing."""
        cursor = self._places.setdefault(consumer.id, ConsumerCursor())
        cursor.seen = max([cursor.seen, *(last for _, last in [*held, *taken])])
        if held and consumer.ledger is not None:
            ledger: Ledger = {}
            for span in held:
                absent = ghost(span, own=True)
                ledger.update(dict.fromkeys(absent.ids, absent))
            consumer.adopt(ledger, True)

    def show(self, slot: Slot, queue: Queue, turn: Turn) -> None:
        """Everybody gets what is before him, as far as he can take it."""
        if len(self._places) > len(queue.consumers):
            here = {consumer.id for consumer in queue.consumers}
            self._places = {i: cursor for i, cursor in self._places.items() if i in here}
        for consumer in queue.consumers if queue.choice is None else queue.choice.active(queue):
            cursor = self._places.get(consumer.id)
            if cursor is None:
                cursor = self._places[consumer.id] = ConsumerCursor()
            if consumer.ready():
                self._show(slot, queue, consumer, cursor, turn)

    def _show(self, slot: Slot, queue: Queue, consumer: Consumer, cursor: ConsumerCursor, turn: Turn) -> None:
        while cursor.late and consumer.ready():
            run = _current(queue, cursor.late.popleft())
            rest = _give(slot, queue, consumer, run, turn)
            if rest is not None:
                cursor.late.appendleft(rest)
        order = self._order
        if order is None:
            order = self._order = sorted(queue.in_order(), key=_first_id)
        at = bisect_right(order, cursor.seen, key=_last_id)
        while at < len(order) and consumer.ready():
            if _walk(slot, queue, consumer, cursor, _unseen(order[at], cursor), turn) is None:
                at += 1
        while at == len(order) and cursor.feed and consumer.ready():
            run = _current(queue, cursor.feed.popleft())
            # What was scheduled stands behind younger messages, and is new all the same.
            rest = _walk(slot, queue, consumer, cursor, run if run.due else _unseen(run, cursor), turn)
            if rest is not None:
                cursor.feed.appendleft(rest)
        if at == len(order) and not cursor.feed and consumer.ready():
            self._read(slot, queue, cursor, turn)

    def _read(self, slot: Slot, queue: Queue, cursor: ConsumerCursor, turn: Turn) -> None:
        """Asks for what is behind memory; not if memory itself is about to be filled."""
        index = queue.index
        cursor.at = max(cursor.at, self._dropped)
        start = cursor.at - self._dropped
        if queue.fetching is not None or start >= len(index) or queue.nbytes * 2 <= slot.limit:
            return
        self._asked = array("Q", islice(index, start, start + slot.page_of(queue)))
        self._reader = cursor
        slot.fetch(queue, self._asked, turn)


def _late(cursor: ConsumerCursor, run: Run) -> None:
    """Something scheduled has entered memory: what was given ahead is not new, what was only read ahead is here now."""
    twice = [fed for fed in cursor.feed if fed.due and not set(run.ids).isdisjoint(fed.ids)]
    for fed in twice:
        cursor.feed.remove(fed)
        cursor.ahead.difference_update(fed.ids)
    at = [at for at, i in enumerate(run.ids) if i not in cursor.ahead]
    cursor.ahead.difference_update(run.ids)
    if at and cursor.seen >= run.ids[at[0]]:
        cursor.late.append(run if len(at) == len(run.ids) else pick(run, at))


def _current(queue: Queue, run: Run) -> Run:
    """Those of its messages that have not been replaced since it was read or set aside."""
    last_value = queue.kind.last_value if queue.kind is not None else None
    return run if last_value is None else last_value.current(run)


def _unseen(run: Run, cursor: ConsumerCursor) -> Run:
    """Those of its messages that are before the consumer."""
    if not run.ids or run.ids[0] > cursor.seen:
        return run
    return pick(run, [at for at, i in enumerate(run.ids) if i > cursor.seen])


def _walk(slot: Slot, queue: Queue, consumer: Consumer, cursor: ConsumerCursor, run: Run, turn: Turn) -> Run | None:
    """Gives the run to the consumer, as far as it can take it, and returns the rest."""
    if not run.ids:
        return None
    rest = _give(slot, queue, consumer, run, turn)
    cursor.seen = max(cursor.seen, run.ids[-1] if rest is None else rest.ids[0] - 1)
    return rest


def _give(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn) -> Run | None:
    """Returns what it could not take."""
    if not run.ids or (run.expires and run.expires <= turn.now):
        return None
    if consumer.bit and queue.choice is not None:
        found, _, _ = queue.choice.look(run)
        if isinstance(found, int):
            at = list(range(len(run.ids))) if found & consumer.bit else []
        else:
            at = sorted(n for bits, some in found.items() if bits & consumer.bit for n in some)
        run = pick(run, at) if len(at) < len(run.ids) else run
        if not run.ids:
            return None
    fitting = consumer.prefix(run)
    deliver(slot, queue, consumer, run.cut(slice(fitting)) if fitting < len(run.ids) else run, turn, [])
    return run.cut(slice(fitting, None)) if fitting < len(run.ids) else None


def _first_id(run: Run) -> int:
    return run.ids[0]


def _last_id(run: Run) -> int:
    return run.ids[-1]
