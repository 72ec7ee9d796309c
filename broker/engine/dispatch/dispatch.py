"""Handing out: ready runs to consumers with room and credit, whole where possible.

Rule: order is message-exact, round robin among the consumers of the highest priority that can take something. Who may
not take everything is selective_dispatch.py's affair, how a run is dealt round_robin.py's. Must not know sessions.
"""

from __future__ import annotations

from broker.core.effects import Deliver, Turn
from broker.core.message import DURABLE, REDELIVERED, TRANSIENT, Run

from ..consumers.browsers import TURN_NS
from ..consumers.consumer import Consumer
from ..queue.queue import Queue
from ..routing.redelivery import bring_back, come_back, expire
from ..state import page_out
from ..state.slot import LEAST, PIECE, SWEEP_MS, Slot
from . import costly_selectors, hand_outs, queue_policies, selective_dispatch
from .page_in import read_on
from .round_robin import deal, deliver, deliver_part, foremost, mark_ahead, may_go

_RECALLED = 1024
"""Positions asked for at a time, of messages known by number only."""


def dispatch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Everything that can go out goes out; asks for marks and pages in time. Browsers look on behind it."""
    if queue.browsers:
        slot.browsing[queue] = None
    if queue.leaving is not None and not come_back(slot, queue, turn):
        slot.unfinished[queue] = None
        return
    if queue.returned:
        bring_back(queue)
    if queue.pages.recalls:
        _recall(slot, queue, turn)
        return
    kind = queue.kind
    before = (len(turn.effects), len(turn.appends)) if queue.settings.record_deliveries else None
    may = kind is None or queue_policies.tend(slot, queue, kind, turn)
    if may and (queue.count or queue.far) and queue.consumers:
        gone: list[Run] = []
        slot.stop = len(turn.effects) + (LEAST if slot.unfinished else PIECE) + slot.fresh
        if queue.choice is not None:
            selective_dispatch.dispatch(slot, queue, queue.choice, turn, gone)
        elif len(queue.consumers) == 1:
            _to_one(slot, queue, queue.consumers[0], turn, gone)
        else:
            _to_many(slot, queue, turn, gone)
        if gone:
            slot.counters.acked += sum([len(run.records) for run in gone])
            slot.settle_runs(queue, gone, turn)
        mark = queue.watermark
        if mark.announced > mark.cleared and not mark.asked:
            mark_ahead(slot, queue, turn)
    if before is not None:
        hand_outs.record(slot, queue, turn, *before)
    if kind is not None:
        queue_policies.trim(slot, queue, kind, turn)
    if queue.expiry:
        if queue.expiry <= turn.now and queue.swept + SWEEP_MS <= turn.now:
            sweep(slot, queue, turn)
        elif queue.count:
            slot.watch_expiry(queue)
    if queue.pages.paging and queue.pages.fetching is None and _wanted(slot, queue, turn):
        fetch(slot, queue, turn)


def _wanted(slot: Slot, queue: Queue, turn: Turn) -> bool:
    """Has anybody use for what is paged out? Thousands of subscriptions that are away must not fill the memory with
    what nobody takes. What expires among it is read when its time has come."""
    if queue.consumers or (queue.kind is not None and queue_policies.reads_ahead(queue, queue.kind)):
        return True
    if not queue.pages.stale:
        return False
    if queue.pages.stale > turn.now:
        slot.wake(queue, queue.pages.stale + 1)
        return False
    return True


def fetch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for the next page when memory is half empty, or somebody could take what is not in it."""
    hungry = queue.choice is not None and queue.choice.hungry
    if not len(queue.pages.index) or (queue.nbytes * 2 > slot.limit and not hungry):
        return
    if slot.pressed and not page_out.may_fetch(slot, queue):
        return
    slot.fetch_front(queue, min(slot.page_of(queue), 1 << 15), turn)


def _recall(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for messages of which only the number is known."""
    if queue.pages.fetching is None:
        positions = list(queue.pages.recalls)[:_RECALLED]
        slot.fetch(queue, positions, turn, -len(positions))


def sweep(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Takes all expired messages out of memory."""
    now = turn.now
    earliest = 0
    for level in queue.stores():
        if not level:
            continue
        runs = list(level)
        level.clear()
        for run in runs:
            if run.expires and run.expires <= now:
                queue.left(run)
                expire(slot, queue, run, turn)
            else:
                level.append(run)
                if run.expires and (not earliest or run.expires < earliest):
                    earliest = run.expires
    queue.swept_out(now, earliest)
    if earliest:
        slot.watch_expiry(queue)
    slot.watch_idle(queue, now)


def _front(slot: Slot, queue: Queue, turn: Turn) -> Run | None:
    """Takes the next run out, if it may be delivered now."""
    while queue.count:
        level = queue.front()
        run = level[0]
        if run.expires and run.expires <= turn.now:
            level.popleft()
            queue.left(run)
            expire(slot, queue, run, turn)
            continue
        if not may_go(slot, queue, run, turn):
            return None
        level.popleft()
        queue.left(run)
        return run
    return None


def _to_one(slot: Slot, queue: Queue, consumer: Consumer, turn: Turn, gone: list[Run]) -> None:
    if (
        queue.levels is None
        and not queue.expiry
        and queue.watermark.announced <= queue.watermark.cleared
        and len(queue.ready) <= PIECE
        and consumer.fits(queue.count, queue.nbytes)
        and (consumer.ledger is None or consumer.ready())
    ):
        if consumer.ledger is None and consumer.flight is None and queue.pace is None:
            _direct(slot, queue, consumer, turn)
            return
        for run in queue.hand_out_all():
            deliver(slot, queue, consumer, run, turn, gone)
        return
    while consumer.ready() and (front := _front(slot, queue, turn)) is not None:
        rest = deliver_part(slot, queue, consumer, front, turn, gone)
        if rest is not None:
            queue.enter_front(rest)
        if len(turn.effects) >= slot.stop and enough(slot, queue):
            return


def _direct(slot: Slot, queue: Queue, consumer: Consumer, turn: Turn) -> None:
    """All that is ready, which fits, to one that consumes what it is handed: round_robin.deliver() for each run, and
    what that makes of the queue, in one step. Most queues are so most of the time."""
    overhead, counters, effects = consumer.overhead, slot.counters, turn.effects
    count = queue.count
    consumer.room -= queue.nbytes + count * overhead
    runs = queue.hand_out_all()
    counters.delivered += count
    counters.acked += count
    flags = 0
    for run in runs:
        effects.append(Deliver(consumer.id, run, run.nbytes + len(run.records) * overhead))
        flags |= run.flags
        if run.attempts or run.flags & REDELIVERED:
            counters.redelivered += len(run.records)
    if flags & (DURABLE | TRANSIENT) or queue.book is not None:
        slot.settle_runs(queue, runs, turn)


def _to_many(slot: Slot, queue: Queue, turn: Turn, gone: list[Run]) -> None:
    while consumers := foremost([consumer for consumer in queue.consumers if consumer.ready()]):
        while True:
            run = _front(slot, queue, turn)
            if run is None:
                return
            served = consumers[queue.start % len(consumers)]
            rest = deal(slot, queue, queue, consumers, run, turn, gone)
            if rest is not None:
                queue.enter_front(rest)
            if len(turn.effects) >= slot.stop and enough(slot, queue):
                return
            # Nobody becomes ready by being served: to ask all of them once a message is consumers × messages.
            if len(run.records) > 1 or not served.ready():
                break


def enough(slot: Slot, queue: Queue) -> bool:
    """The rest of what the queue has goes out with the next turn. Not of a queue that keeps less than it is given (a
    ring): what could go out was never resting."""
    if queue.kind is not None:
        return False
    slot.unfinished[queue] = None
    return True


def browse(slot: Slot, turn: Turn) -> None:
    """Browsers look on, of one queue after the other, until that has cost what it may in a turn."""
    spent, waiting = 0, slot.browsing
    while waiting and spent < TURN_NS:
        queue = next(iter(waiting))
        del waiting[queue]
        if queue.deleted or not queue.browsers:
            continue
        if queue.browsers.unfinished:
            cost, consumer, why = queue.browsers.step(turn)
            spent += cost
            if why:
                costly_selectors.note(slot, [consumer], why)
        if queue.browsers.unfinished:
            waiting[queue] = None
        read_on(slot, queue, turn)
