"""From a run to consumers: marks, shares, and what a delivery changes in what is counted.

Rule: nothing durable goes out beyond the queue's mark (the log must know first that it may have been delivered);
what is not dealt is returned, and its place is the caller's affair. Must not know where runs rest.
"""

# Example. Run 1 … 7; consumers A, B, C of one priority are ready, and it is B's turn (start 1).
#     all have room   B gets 1, 4, 7, C gets 2, 5, A gets 3, 6: three cuts of the run, no look at any message. Next is
#                     C
#     short credit    B can take one more message: B 1, C 2, A 3, C 4, A 5, … until none can. The rest is returned,
#                     and its first message is the next one to go out
# Marks: deliver() is called only where may_go() says yes. Durable 9 with cleared = 5: 9 is not handed out, a mark up
# to 9 or further is appended; when it is durable the queue is touched, and 9 goes. watermark.py has the proof.

from __future__ import annotations

from typing import Protocol

from broker.core.effects import Deliver, Turn
from broker.core.message import BLOB, DURABLE, REDELIVERED, Run
from broker.core.records import MetaRecord

from ..consumers.consumer import Consumer
from ..messages.runs import copy, pick
from ..queue.queue import Queue
from ..state.awaiting_commit import Held
from ..state.slot import Slot


class RoundRobin(Protocol):
    """Where the round robin goes on."""

    start: int


def may_go(slot: Slot, queue: Queue, run: Run, turn: Turn) -> bool:
    """May the run be delivered now? If not, the mark that allows it is on its way."""
    watermark = queue.watermark
    # Three questions, the cheapest first; with nothing announced, which is the usual case, one.
    if watermark.announced > watermark.cleared and run.flags & DURABLE and run.ids[-1] > watermark.cleared:
        if not watermark.asked:
            ask_mark(slot, queue, max(run.ids[-1], run.ids[0] + slot.mark_messages - 1), run.ids[-1], turn)
        return False
    return True


def ask_mark(slot: Slot, queue: Queue, mark: int, least: int, turn: Turn) -> None:
    """Announces delivery up to `mark`, but not further than what was published so far."""
    # Ahead of what there is it would make messages suspect that come later and never went out.
    mark = max(min(mark, queue.last), least)
    queue.watermark.ask(mark)
    turn.appends.append(MetaRecord(slot.number, "mark", {"queue": queue.id, "id": mark}))
    # Behind the record of this turn: durable(mark) is called when the disk (and the followers) have it.
    slot.pending.append(Held(turn.number, mark=(queue, mark)))


def mark_ahead(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for the next mark when half of the last one is used, so that draining does not wait for it."""
    if queue.sent + slot.mark_messages // 2 > queue.watermark.cleared:
        # A message that needs no mark may have been sent far beyond it: ids leap at every restart.
        reached = max(queue.watermark.cleared, queue.sent)
        ask_mark(slot, queue, reached + slot.mark_messages, queue.watermark.cleared + 1, turn)


def deliver(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn, gone: list[Run]) -> None:
    """All of the run; what is consumed at once (AckMode.AUTO) is added to `gone`."""
    if consumer.haunted:
        unheld = _unheld(slot, queue, consumer, run, turn)
        if unheld is None:
            return
        run = unheld
    turn.effects.append(Deliver(consumer.id, run, consumer.charge(run)))
    count = len(run.records)
    counters = slot.counters
    counters.delivered += count
    if run.attempts or run.flags & REDELIVERED:
        counters.redelivered += count
    # What is `auto` without confirmation is consumed by being handed out (C41).
    flight = consumer.flight
    held = flight is not None or consumer.ledger is not None
    if flight is not None:
        if run.flags & BLOB:
            consumer.launch(run)
        else:
            flight.append(run)  # launch(), in line
    elif not held:
        gone.append(run)
        if queue.pace is not None:
            queue.pace.settled(consumer, count)
    queue.hand_out(count, run.nbytes, run.ids[-1], held)


def _unheld(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn) -> Run | None:
    """What of the run its client does not hold: the rest is its own again, and is not handed out a second time."""
    # Its edge had been given up, others were given what it held, and gave it back. A second copy would have the id of
    # the first, and an ACK could not say which one it means: a cumulative one covers what came between the two, or not.
    embodied = consumer.embody(dict.fromkeys(run.ids, run))
    if not embodied:
        return run
    at = [n for n, i in enumerate(run.ids) if i in embodied]
    whole = len(at) == len(run.ids)
    mine = copy(run) if whole else run.pick(at)
    mine.note_held()
    # Its edge is told, or the next leader would find fewer attempts there than in the log, and take them for others'
    # (reattach._lost). It is as much work as a delivery, and takes as much room until it is granted again.
    cost = mine.nbytes + len(at) * consumer.overhead
    consumer.withhold(cost)
    turn.effects.append(Deliver(consumer.id, mine, cost))
    slot.counters.add("delivered", len(at))
    slot.counters.add("redelivered", len(at))
    # They have counted as its own since it came again, without weighing anything.
    queue.no_longer_delivering(len(at))
    queue.hand_out(len(at), mine.nbytes, run.ids[-1], True)
    return None if whole else run.pick([n for n, i in enumerate(run.ids) if i not in embodied])


def deliver_part(slot: Slot, queue: Queue, consumer: Consumer, run: Run, turn: Turn, gone: list[Run]) -> Run | None:
    """As much of the run as the consumer may get; returns the rest."""
    fitting = consumer.prefix(run)
    if fitting == len(run.records):
        deliver(slot, queue, consumer, run, turn, gone)
        return None
    deliver(slot, queue, consumer, run.cut(slice(fitting)), turn, gone)
    return run.cut(slice(fitting, None))


def foremost(consumers: list[Consumer]) -> list[Consumer]:
    """Those of the highest priority (the list is sorted by it)."""
    if len(consumers) > 1 and consumers[0].priority != consumers[-1].priority:
        top = consumers[0].priority
        return [consumer for consumer in consumers if consumer.priority == top]
    return consumers


def deal(
    slot: Slot, queue: Queue, turns: RoundRobin, consumers: list[Consumer], run: Run, turn: Turn, gone: list[Run]
) -> Run | None:
    """The run to consumers that are ready, one message each in turn; returns what they cannot take."""
    ways = len(consumers)
    if ways == 1:
        return deliver_part(slot, queue, consumers[0], run, turn, gone)
    count = len(run.records)
    start = turns.start % ways
    if count == 1:
        turns.start = start + 1
        deliver(slot, queue, consumers[start], run, turn, gone)
        return None
    # Who gets anything: with fewer messages than consumers not all are asked.
    served = [consumers[(start + n) % ways] for n in range(min(ways, count))]
    # All of the run, though each gets a share: asked in one comparison, and mostly true.
    if all([consumer.fits(count, run.nbytes) for consumer in served]):
        turns.start = start + count
        for n, consumer in enumerate(served):
            deliver(slot, queue, consumer, run.cut(slice(n, None, ways)), turn, gone)
    else:
        turns.start = start
        return _message_by_message(slot, queue, turns, consumers, run, turn, gone)
    return None


def _message_by_message(
    slot: Slot, queue: Queue, turns: RoundRobin, consumers: list[Consumer], run: Run, turn: Turn, gone: list[Run]
) -> Run | None:
    """Deals a run while credits are short."""
    # consumers + messages steps: whoever cannot take more leaves the circle, and is not asked again.
    hands: list[list[int]] = [[] for _ in consumers]
    left = [list(consumer.allowance()) for consumer in consumers]
    ways, dealt, place = len(consumers), 0, 0
    # Who can take more, in turn: who cannot is asked once, not once a message.
    able = [who % ways for who in range(turns.start, turns.start + ways)]
    able = [who for who in able if left[who][0] > 0 and left[who][1] > 0]
    for at in range(len(run.records)):
        if not able:
            break
        who = able[place]
        hands[who].append(at)
        left[who][0] -= 1
        left[who][1] -= run.size_of(at) + consumers[who].overhead
        turns.start = (who + 1) % ways
        if left[who][0] > 0 and left[who][1] > 0:
            place += 1
        else:
            del able[place]
        if place >= len(able):
            place = 0
        dealt = at + 1
    for consumer, hand in zip(consumers, hands, strict=True):
        if hand:
            deliver(slot, queue, consumer, pick(run, hand), turn, gone)
    return run.cut(slice(dealt, None)) if dealt < len(run.records) else None
