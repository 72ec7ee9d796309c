"""Handing out: ready runs to consumers with room and credit, whole where possible.

Rule: nothing durable goes out beyond the queue's mark (the log must know first that it may have been delivered);
order is message-exact, round robin among the consumers of the highest priority that can take something.
Must not know sessions or settling of ledgers.
"""

from __future__ import annotations

from broker.core.effects import Deliver, Fetch, Turn
from broker.core.message import DURABLE, REDELIVERED, Run
from broker.core.records import MetaRecord

from .consumer import Consumer
from .queue import Queue
from .redelivery import bring_back, expire
from .runs import pick
from .slot import SWEEP_MS, Held, Slot

_RECALLED = 1024
"""Positions asked for at a time, of messages known by number only."""


def dispatch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Everything that can go out goes out; asks for marks and pages in time."""
    if queue.returned:
        bring_back(queue)
    if queue.recalls:
        _recall(slot, queue, turn)
        return
    if queue.browsers:
        _browse(slot, queue, turn)
    if queue.count and queue.consumers:
        gone: list[Run] = []
        if len(queue.consumers) == 1:
            _to_one(slot, queue, queue.consumers[0], turn, gone)
        else:
            _to_many(slot, queue, turn, gone)
        if gone:
            slot.counters.acked += sum([len(run.records) for run in gone])
            slot.settle_runs(queue, gone, turn)
        if queue.announced > queue.cleared and not queue.mark_asked:
            _mark_ahead(slot, queue, turn)
    if queue.expiry:
        if queue.expiry <= turn.now and queue.swept + SWEEP_MS <= turn.now:
            sweep(slot, queue, turn)
        elif queue.count:
            slot.watch_expiry(queue)
    if queue.paging and queue.fetching is None:
        fetch(slot, queue, turn)


def fetch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for the next page when memory is half empty."""
    index = queue.index
    if not len(index) or queue.nbytes * 2 > slot.limit:
        return
    mean = queue.paged_bytes // len(index) + 1
    count = min(max(slot.page_bytes // mean, 1), 1 << 15)
    positions = index.first(count)
    queue.fetching = len(positions)
    turn.fetches.append(Fetch(slot.number, queue.id, positions))


def _recall(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for messages of which only the number is known."""
    if queue.fetching is None:
        positions = list(queue.recalls)[:_RECALLED]
        queue.fetching = -len(positions)
        turn.fetches.append(Fetch(slot.number, queue.id, positions))


def sweep(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Takes all expired messages out of memory."""
    now = turn.now
    queue.swept = now
    earliest = 0
    for level in queue.levels or (queue.ready,):
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
    queue.expiry = earliest
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
        if queue.announced > queue.cleared and run.flags & DURABLE and run.ids[-1] > queue.cleared:
            if not queue.mark_asked:
                _ask_mark(slot, queue, max(run.ids[-1], run.ids[0] + slot.mark_messages - 1), run.ids[-1], turn)
            return None
        level.popleft()
        queue.left(run)
        return run
    return None


def _ask_mark(slot: Slot, queue: Queue, mark: int, least: int, turn: Turn) -> None:
    """Announces delivery up to `mark`, but not further than what was published so far."""
    mark = max(min(mark, queue.last), least)
    queue.mark_asked = mark
    turn.appends.append(MetaRecord(slot.number, "mark", {"queue": queue.id, "id": mark}))
    slot.pending.append(Held(turn.number, mark=(queue, mark)))


def _mark_ahead(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for the next mark when half of the last one is used, so that draining does not wait for it."""
    if queue.sent + slot.mark_messages // 2 > queue.cleared:
        # A message that needs no mark may have been sent far beyond it: ids leap at every restart.
        reached = max(queue.cleared, queue.sent)
        _ask_mark(slot, queue, reached + slot.mark_messages, queue.cleared + 1, turn)


def _deliver(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn, gone: list[Run]) -> None:
    turn.effects.append(Deliver(consumer.id, run, consumer.charge(run)))
    count = len(run.records)
    counters = slot.counters
    counters.delivered += count
    if run.attempts or run.flags & REDELIVERED:
        counters.redelivered += count
    if consumer.flight is not None:
        consumer.flight.append(run)
        queue.delivering += count
    elif consumer.ledger is None:
        gone.append(run)
    else:
        queue.delivering += count
    if run.ids[-1] > queue.sent:
        queue.sent = run.ids[-1]


def _part_to(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn, gone: list[Run]) -> None:
    """As much of the run as the consumer may get; the rest stays in front."""
    fitting = consumer.prefix(run)
    if fitting < len(run.records):
        queue.enter_front(run.cut(slice(fitting, None)))
        run = run.cut(slice(fitting))
    _deliver(slot, queue, consumer, run, turn, gone)


def _to_one(slot: Slot, queue: Queue, consumer: Consumer, turn: Turn, gone: list[Run]) -> None:
    if (
        queue.levels is None
        and not queue.expiry
        and queue.announced <= queue.cleared
        and consumer.fits(queue.count, queue.nbytes)
        and consumer.ready()
    ):
        runs = list(queue.ready)
        queue.ready.clear()
        queue.count = queue.nbytes = 0
        for run in runs:
            _deliver(slot, queue, consumer, run, turn, gone)
        return
    while consumer.ready() and (front := _front(slot, queue, turn)) is not None:
        _part_to(slot, queue, consumer, front, turn, gone)


def _eligible(queue: Queue) -> list[Consumer]:
    """Consumers that can take a message, of the highest priority among them (the list is sorted by it)."""
    ready = [consumer for consumer in queue.consumers if consumer.ready()]
    if len(ready) > 1 and ready[0].priority != ready[-1].priority:
        top = ready[0].priority
        ready = [consumer for consumer in ready if consumer.priority == top]
    return ready


def _to_many(slot: Slot, queue: Queue, turn: Turn, gone: list[Run]) -> None:
    while consumers := _eligible(queue):
        run = _front(slot, queue, turn)
        if run is None:
            return
        ways = len(consumers)
        if ways == 1:
            _part_to(slot, queue, consumers[0], run, turn, gone)
            continue
        count = len(run.records)
        start = queue.start % ways
        queue.start = start + count
        if count == 1:
            _deliver(slot, queue, consumers[start], run, turn, gone)
        elif all([consumer.fits(count, run.nbytes) for consumer in consumers]):
            for n in range(min(ways, count)):
                _deliver(slot, queue, consumers[(start + n) % ways], run.cut(slice(n, None, ways)), turn, gone)
        else:
            queue.start = start
            _message_by_message(slot, queue, consumers, run, turn, gone)


def _message_by_message(
    slot: Slot, queue: Queue, consumers: list[Consumer], run: Run, turn: Turn, gone: list[Run]
) -> None:
    """Deals a run while credits are short; what nobody can take goes back to the front."""
    hands: list[list[int]] = [[] for _ in consumers]
    messages = [c.credit_messages if c.ledger is not None else len(run.records) for c in consumers]
    nbytes = [min(c.room, c.credit_bytes) if c.sized else c.room for c in consumers]
    turn_of, ways, dealt = queue.start, len(consumers), 0
    for at in range(len(run.records)):
        size = run.size_of(at)
        for _ in range(ways):
            who = turn_of % ways
            turn_of += 1
            if messages[who] > 0 and nbytes[who] > 0:
                hands[who].append(at)
                messages[who] -= 1
                nbytes[who] -= size + consumers[who].overhead
                break
        else:
            break
        dealt = at + 1
    queue.start = turn_of % ways
    if dealt < len(run.records):
        queue.enter_front(run.cut(slice(dealt, None)))
    for consumer, hand in zip(consumers, hands, strict=True):
        if hand:
            _deliver(slot, queue, consumer, pick(run, hand), turn, gone)


def _browse(slot: Slot, queue: Queue, turn: Turn) -> None:
    for browser in queue.browsers:
        browser.show(turn)
    if queue.fetching is None:
        for browser in queue.browsers:
            if not browser.feed and browser.positions:
                mean = queue.paged_bytes // (len(queue.index) or 1) + 1
                count = min(max(slot.page_bytes // mean, 1), len(browser.positions))
                positions = browser.next_positions(count)
                queue.fetching = 0
                browser.fetching = True
                turn.fetches.append(Fetch(slot.number, queue.id, positions))
                return
