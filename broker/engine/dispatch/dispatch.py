"""Handing out: ready runs to consumers with room and credit, whole where possible.

Rule: order is message-exact, round robin among the consumers of the highest priority that can take something. Who may
not take everything is selective_dispatch.py's affair, how a run is dealt round_robin.py's. Must not know sessions.
"""

# One dispatch of a queue, in its order, and what each step is there for:
#     returning  what an ended consumer held, or a NACK gave back, is not all back: nothing goes out, or younger
#                messages would overtake it (I7)
#     returned   what came back in this turn goes to its places at the head, all at once
#     recalls    bytes of messages that go to the head have to be read first: again nothing goes out
#     tend       a queue with a kind brings itself in order (a replaced value must not be handed out)
#     hand out   whole runs while they fit, else message by message; until the turn has enough
#     settle     what `auto` consumed. DELIVERED records of this dispatch are put in front of it (hand_outs.py)
#     mark       the next one is asked for before the last one is used up, so that draining does not wait for the disk
#     trim       what rests now may be too much for a ring
#     sweep      expired messages that nobody consumes
#     fetch      the next page, last, when it is known how much memory is free
# A crash at any point leaves what the log has: nothing is settled before it is delivered, and what was delivered
# without being settled comes again, marked (I6).

from __future__ import annotations

from bisect import bisect_left
from itertools import islice

from broker.core.effects import Deliver, Turn
from broker.core.message import DURABLE, REDELIVERED, TRACED, TRANSIENT, Run

from ..consumers.browsers import TURN_NS
from ..consumers.consumer import Consumer
from ..queue.latency import BOUNDS_MS
from ..queue.queue import Queue
from ..routing.redelivery import bring_back, expire
from ..routing.returns import come_back, holds_up
from ..state import page_out
from ..state.slot import EXPIRED, LEAST, PIECE, SWEEP_MS, Slot, weight
from . import costly_selectors, hand_outs, queue_policies, selective_dispatch
from .page_in import read_on
from .round_robin import deal, deliver, deliver_part, foremost, mark_ahead, may_go


def dispatch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Everything that can go out goes out; asks for marks and pages in time. Browsers look on behind it."""
    if queue.browsers:
        slot.browsing[queue] = None
    # hand_out() has the next turn go on with it, without anybody asking.
    if queue.returning is not None and not come_back(slot, queue, turn) and holds_up(queue):
        _keep_bounds(slot, queue, turn)
        return
    if queue.returned:
        bring_back(queue)
    if queue.pages.recalls:
        slot.fetch_recalled(queue, turn)
        return
    kind, told = queue.kind, len(turn.effects)
    # Only where the log is to have deliveries: two numbers, and no record otherwise.
    before = (len(turn.effects), len(turn.appends)) if queue.settings.record_deliveries else None
    may = kind is None or queue_policies.tend(slot, queue, kind, turn)
    if may and (queue.count or queue.far) and queue.consumers:
        gone: list[Run] = []
        # `fresh` on top: as much as has come in may always go out, so handing out in pieces makes no queue longer.
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
    if slot.budget.latencies is not None and len(turn.effects) > told:
        first, latency = turn.effects[told], queue.latency
        # One run that is handed out in the turn in which it has come, as most are: in line, as that costs a tenth.
        if latency is not None and type(first) is Deliver and len(turn.effects) == told + 1 and (
            first.run.time == turn.now and not first.run.flags & TRACED
        ):  # fmt: skip
            latency.delivered[0] += len(first.run.records)
        else:
            _time(slot, queue, turn, told)
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


def _keep_bounds(slot: Slot, queue: Queue, turn: Turn) -> None:
    """What a queue does that may hand out nothing now: it gets no longer than it may."""
    if queue.kind is not None:
        queue_policies.tend(slot, queue, queue.kind, turn)
        queue_policies.trim(slot, queue, queue.kind, turn)
    if queue.expiry and queue.expiry <= turn.now and queue.swept + SWEEP_MS <= turn.now:
        sweep(slot, queue, turn)


def _time(slot: Slot, queue: Queue, turn: Turn, told: int) -> None:
    """How long what this dispatch has handed out has taken: a look at the clock of the turn for each run."""
    latency = queue.latency
    if latency is None:
        assert slot.budget.latencies is not None
        latency = slot.budget.latencies.of(slot.number, queue.address, queue.name, queue.tied)
        queue.timed(latency)
    now, counts, total = turn.now, latency.delivered, 0
    for effect in islice(turn.effects, told, None):
        if type(effect) is Deliver:
            run = effect.run
            took, count = now - (run.due or run.time), len(run.records)
            if took > 0:
                total += took * count
                counts[bisect_left(BOUNDS_MS, took)] += count
            else:
                counts[0] += count
            if run.flags & TRACED:
                latency.came(run, now)
    latency.sums[0] += total


def _wanted(slot: Slot, queue: Queue, turn: Turn) -> bool:
    """Has a consumer use for what is paged out? Thousands of subscriptions that are away must not fill the memory with
    what nobody takes. What expires among it is read when its time has come."""
    if queue.consumers or (queue.kind is not None and queue_policies.reads_ahead(queue, queue.kind)):
        return True
    # Nobody consumes: read only for what expires, and only when its time has come. A queue nobody takes from stays on
    # disk.
    if not queue.pages.stale:
        return False
    if queue.pages.stale > turn.now:
        slot.wake(queue, queue.pages.stale + 1)
        return False
    return True


def fetch(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for the next page when memory is half empty, or a consumer could have what is not in it."""
    hungry = queue.choice is not None and queue.choice.hungry
    # Half: with the bound itself the consumers would run dry before the page is there; with less, pages would be
    # small.
    if not len(queue.pages.index) or (queue.nbytes * 2 > slot.limit and not hungry):
        return
    if slot.pressed and not page_out.may_fetch(slot, queue):
        return
    # One request, however small the messages: the answer is one step of the loop, and enters memory at once.
    slot.fetch_front(queue, min(slot.page_of(queue), 1 << 15), turn)


def sweep(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Takes all expired messages out of memory, as many as a turn may; the rest with the next one."""
    now = turn.now
    earliest = 0
    left, sent_on = EXPIRED - turn.expired, bool(queue.settings.expiry_address)
    # As long as what is in memory; once a second at most (SWEEP_MS), and only when something has expired by its time.
    for level in queue.stores():
        if left <= 0:
            break  # another queue had all of the turn, too: then nothing here is looked at
        if not level:
            continue
        runs = list(level)
        level.clear()
        for at, run in enumerate(runs):
            if run.expires and run.expires <= now:
                if left <= 0:
                    # In one piece: to look at each of them in each turn would be the square of what has expired.
                    level.extend(runs[at:])
                    break
                cost = weight(run, sent_on)
                left -= cost
                turn.expires(cost)
                queue.left(run)
                expire(slot, queue, run, turn)
            else:
                level.append(run)
                if run.expires and (not earliest or run.expires < earliest):
                    earliest = run.expires
    if left <= 0:
        queue.swept_out(0, now)
        slot.unfinished[queue] = None
        slot.watch_expiry(queue)  # one that nobody dispatches comes again with its time
        return
    queue.swept_out(now, earliest)
    if earliest:
        slot.watch_expiry(queue)
    slot.watch_idle(queue, now)


def _front(slot: Slot, queue: Queue, turn: Turn) -> Run | None:
    """Takes the next run out, if it may be delivered now."""
    while queue.count:
        # Asked anew each time: what expired may have been the last of its priority.
        level = queue.front()
        run = level[0]
        if run.expires and run.expires <= turn.now:
            if turn.expired >= EXPIRED:
                slot.unfinished[queue] = None
                return None
            turn.expires(weight(run, bool(queue.settings.expiry_address)))
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
        # All of this in one look is the usual state: one priority, nothing that expires, no mark to wait for, and the
        # consumer has room for everything. Then nothing is looked at run by run.
        queue.levels is None
        and not queue.expiry
        and queue.watermark.announced <= queue.watermark.cleared
        # Otherwise a backlog of a million runs would go out in one step.
        and len(queue.ready) <= PIECE
        and (
            # fits() of one that has no credit to keep, in line.
            consumer.room >= queue.nbytes + queue.count * consumer.overhead
            if consumer.ledger is None
            else consumer.fits(queue.count, queue.nbytes) and consumer.ready()
        )
    ):
        if consumer.ledger is None and consumer.flight is None and queue.pace is None:
            _direct(slot, queue, consumer, turn)
            return
        for run in queue.hand_out_all():
            deliver(slot, queue, consumer, run, turn, gone)
        return
    while consumer.ready() and (front := _front(slot, queue, turn)) is not None:
        # Whole runs as long as they fit; the one that does not is cut, and its rest stands where it stood.
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
        # Whether anything of it lasts: decided once for all, since settle_runs() walks through them again.
        flags |= run.flags
        if run.attempts or run.flags & REDELIVERED:
            counters.redelivered += len(run.records)
    if flags & (DURABLE | TRANSIENT) or queue.usage is not None:
        slot.settle_runs(queue, runs, turn)


def _to_many(slot: Slot, queue: Queue, turn: Turn, gone: list[Run]) -> None:
    while consumers := foremost([consumer for consumer in queue.consumers if consumer.ready()]):
        while True:
            run = _front(slot, queue, turn)
            if run is None:
                return
            # Who is about to get the first message: only that one can have run out of room by a run of one message.
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
    # Its bound is what it keeps: put off, the ring would drop what a consumer was waiting for.
    if queue.kind is not None:
        return False
    slot.unfinished[queue] = None
    return True


def browse(slot: Slot, turn: Turn) -> None:
    """Browsers look on, of one queue after the other, until that has cost what it may in a turn."""
    spent, waiting = 0, slot.browsing
    # Each look costs something by its browser's own estimate (two microseconds at least), so it ends.
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
