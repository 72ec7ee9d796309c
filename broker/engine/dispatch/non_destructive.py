"""Messages that stay when they are consumed: every consumer has its own place in the queue.

A consumer begins at the head and sees everything once, in the order of ids (priorities do not count), as long as it is
attached. ACK and NACK give back its credit and change nothing; messages leave by expiry, by a newer value of their key,
or when a ring is full. What memory has no room for is read from the journal for each consumer, a page at a time.

Rule: takes nothing out of the queue. Where each consumer is stands in consumer_cursors.py.
"""

from __future__ import annotations

from bisect import bisect_right

from broker.core.effects import Turn
from broker.core.message import Run

from ..consumers.consumer import Consumer
from ..consumers.consumer_cursors import ConsumerCursor, Cursors
from ..messages.runs import pick
from ..queue.queue import Queue
from ..state.slot import Slot
from .round_robin import deliver


def show(slot: Slot, queue: Queue, cursors: Cursors, turn: Turn) -> None:
    """Everybody gets what is before him, as far as he can take it."""
    cursors.keep(queue.consumers)
    for consumer in queue.consumers if queue.choice is None else queue.choice.active(queue):
        cursor = cursors.of(consumer.id)
        if consumer.ready():
            _show(slot, queue, cursors, consumer, cursor, turn)


def _show(slot: Slot, queue: Queue, cursors: Cursors, consumer: Consumer, cursor: ConsumerCursor, turn: Turn) -> None:
    while cursor.late and consumer.ready():
        run = _current(queue, cursor.late.popleft())
        rest = _give(slot, queue, consumer, run, turn)
        if rest is not None:
            cursor.late.appendleft(rest)
    order = cursors.order
    if order is None:
        order = cursors.sort(queue.in_order())
    # Log n to the first run that is not wholly behind it; a run in the middle is cut by unseen().
    at = bisect_right(order, cursor.seen, key=_last_id)
    while at < len(order) and consumer.ready():
        if _walk(slot, queue, consumer, cursor, cursor.unseen(order[at]), turn) is None:
            at += 1
    # Only when memory has nothing more for it: what is in the journal is younger.
    while at == len(order) and cursor.feed and consumer.ready():
        run = _current(queue, cursor.feed.popleft())
        # What was scheduled stands behind younger messages, and is new all the same.
        rest = _walk(slot, queue, consumer, cursor, run if run.due else cursor.unseen(run), turn)
        if rest is not None:
            cursor.feed.appendleft(rest)
    if at == len(order) and not cursor.feed and consumer.ready():
        _read(slot, queue, cursors, cursor, turn)


def _read(slot: Slot, queue: Queue, cursors: Cursors, cursor: ConsumerCursor, turn: Turn) -> None:
    """Asks for what is behind memory; not if memory itself is about to be filled."""
    index = queue.pages.index
    # One fetch of a queue at a time: consumers that are far behind are served in turn, by pages.
    if cursors.behind(cursor) >= len(index) or queue.pages.fetching is not None or queue.nbytes * 2 <= slot.limit:
        return
    slot.fetch(queue, cursors.ask(cursor, index, slot.page_of(queue)), turn)


def _current(queue: Queue, run: Run) -> Run:
    """Those of its messages that have not been replaced since it was read or set aside."""
    last_value = queue.kind.last_value if queue.kind is not None else None
    return run if last_value is None else last_value.current(run)


def _walk(slot: Slot, queue: Queue, consumer: Consumer, cursor: ConsumerCursor, run: Run, turn: Turn) -> Run | None:
    """Gives the run to the consumer, as far as it can take it, and returns the rest."""
    if not run.ids:
        return None
    rest = _give(slot, queue, consumer, run, turn)
    # Also what its selector did not want and what had expired: passed, and not asked again.
    cursor.passes(run.ids[-1] if rest is None else rest.ids[0] - 1)
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


def _last_id(run: Run) -> int:
    return run.ids[-1]
