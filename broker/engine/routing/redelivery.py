"""What happens to messages that were not consumed: back to the head, later, or to another address.

Rule: original order (by id) is restored whichever consumer gave back first; delivery counts of durable messages are in
the log before a consumer hears of them; a message on its way to another address is out of sight until the owner has
published it. Must not know ledgers.
"""

# Example. Consumer 7 holds 1 … 6 of queue a (max_delivery_attempts 2, redelivery_delay 1 s); 7, 8 are ready. It says
# NACK 2 and NACK 5, where 5 failed once before, and then it unsubscribes.
#     NACK 2    attempts 1: "count" in the log, delayed for 1 s. The log first: a crash must not make a poison message
#               new again
#     NACK 5    attempts 2: a dead letter, moved by the owner
#     the end   1, 3, 4, 6 come back, nobody has failed: no attempt is counted, "they were out" is noted
#     merge     they stand before 7 and 8: 1, 3, 4, 6, 7, 8. With 2, in a second, before those that are still there
#               (I7)
# `redelivered` is told of each that comes again (I6).

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any, Final
from zlib import crc32

from broker.config.addressing import AddressSettings
from broker.core.address import Outcome, Routing
from broker.core.effects import Move, Turn
from broker.core.message import (
    DURABLE,
    ESCAPED,
    LABELS,
    ORIGINAL_ID,
    PART,
    REDELIVERED,
    TRANSIENT,
    UNIQUE,
    WAS_DURABLE,
    Run,
)
from broker.core.records import Left, MetaRecord, SettleRecord
from broker.core.spans import spans_of
from broker.selector.heads import escaped

from ..messages.runs import copy, pick, regroup
from ..messages.unloaded import unread
from ..queue.large_returns import LargeReturn
from ..queue.queue import Queue
from ..state.slot import Slot
from . import advisories, dead_letter_queues

REJECTED: Final = "rejected"
FAILED: Final = "delivery-limit"
OVERFLOW: Final = "maxlen"
"""Why what a full queue or address did not keep is a dead letter: RabbitMQ's word."""


def give_back(
    slot: Slot,
    queue: Queue,
    messages: dict[int, Run],
    delay: int | None,
    turn: Turn,
    failed: bool = True,
    of: LargeReturn | None = None,
) -> None:
    """Messages a consumer held and did not consume: they come again. A failure is counted; too many: dead letter.

    delay: milliseconds, -1 = by the settings, None = at once whatever the settings say.
    failed: False = nobody has tried in vain, its consumer has just ended. Nothing is counted, they were out before.
    of: what they are given back with, so that who waits for it waits for what has to be read back."""
    if not messages or queue.stays():
        return
    slot.touched[queue] = None
    # Stubs have no bytes: their part follows when these are read back, and the queue hands out nothing until then.
    if unread(messages):
        messages = queue.recall(messages, of or LargeReturn({}, failed, delay=delay))
    most = queue.settings.max_delivery_attempts
    back: dict[int, list[Run]] = {}
    for part in regroup(messages):
        # Consumers may share a run with others: attempts of one must not show at the other.
        run = copy(part)
        if not failed and (run.attempts or run.flags & REDELIVERED):
            queue.returned.append(run)  # the log says already that it comes again
            continue
        run.came_back(failed)
        # Below 0: never. 0: the first failure.
        if failed and 0 <= most <= run.attempts:
            dead_letter(slot, queue, run, FAILED, turn)
        else:
            # By attempts: one record of the log for all that failed alike.
            back.setdefault(run.attempts, []).append(run)
    for attempts, runs in back.items():
        for wait, group in _waits(queue.settings, attempts, runs, delay):
            due = turn.now + wait if wait > 0 else 0
            _record(slot, queue, group, attempts, due, turn)
            if due:
                for run in group:
                    postpone(slot, queue, run, due)
            else:
                queue.came_back(group)


def nack(
    slot: Slot, queue: Queue, messages: dict[int, Run], delay: int, turn: Turn, of: LargeReturn | None = None
) -> None:
    """A consumer could not deal with them. `delay`: milliseconds, -1 = by the settings."""
    slot.counters.add("nacked", len(messages))
    if queue.settings.nack_policy == "discard":
        if not queue.stays():
            slot.settle_ids(queue, messages, turn, Left.DISCARDED)
    else:
        give_back(slot, queue, messages, max(delay, -1), turn, of=of)


def postpone(slot: Slot, queue: Queue, run: Run, due: int) -> None:
    """Ready again at `due`."""
    queue.delayed.postpone(run, due)
    slot.wake(queue, due)


def bring_back(queue: Queue) -> None:
    """What came back in this turn, all at once: one by one, a thousand NACKs would sort the head a thousand times."""
    to_head(queue, queue.take_returned())


def to_head(queue: Queue, runs: list[Run]) -> None:
    """Before everything younger of the same priority, in the order of ids.

    Runs of a level stand by ascending id and do not interleave."""
    levels: dict[int, list[Run]] = {}
    for run in runs:
        levels.setdefault(run.priority, []).append(run)
    for priority, returned in levels.items():
        level = queue.level(priority)
        returned.sort(key=_first)
        # What was scheduled stands by its time: then nothing is known of the order of ids.
        placed = _merge(queue, level, returned) if queue.agenda is None else _sort(queue, level, returned)
        for run in reversed(placed):
            queue.added(run)


def _merge(queue: Queue, level: deque[Run], returned: list[Run]) -> list[Run]:
    """One walk along the level: what is passed is rotated to its end, and back when all have their places. Only runs
    that lie across each other are taken apart: 100,000 runs between two that come back are passed, not looked at."""
    placed: list[Run] = []
    passed = at = 0
    while at < len(returned):
        # Runs that end before the first one that comes back are passed by turning the deque, not by taking them
        # apart.
        ahead = _before(level, len(level) - passed, returned[at].ids[0])
        level.rotate(-ahead)
        passed += ahead
        here, newest = [returned[at]], returned[at].ids[-1]
        at += 1
        # Whatever lies across: from the level or from what came back, the one that begins first, as long as it begins
        # before the end of what is here.
        while True:
            if len(level) > passed and level[0].ids[0] < newest:
                run = level.popleft()
                queue.left(run)
            elif at < len(returned) and (len(level) == passed or returned[at].ids[0] < level[0].ids[0]):
                run = returned[at]
                at += 1
            else:
                break
            here.append(run)
            newest = max(newest, run.ids[-1])
        if len(here) > 1:
            here = regroup({i: run for run in here for i in run.ids})
        level.extend(here)
        passed += len(here)
        placed += here
    # All that was passed went to the end, in order: turned back, it stands as it stood. Rotating costs as many steps
    # as runs passed, twice.
    level.rotate(passed)
    return placed


def _before(level: deque[Run], count: int, id: int) -> int:
    """How many of the first `count` runs end before that id. The place is mostly near: the middle of a deque is far."""
    low, step = 0, 1
    # Doubling steps from the front: deque[i] costs up to i, and what comes back mostly belongs near the head.
    while low + step <= count and level[low + step - 1].ids[-1] < id:
        low += step
        step *= 2
    return bisect_right(level, id, low, min(low + step - 1, count), key=_last)


def _sort(queue: Queue, level: deque[Run], returned: list[Run]) -> list[Run]:
    """The same where the level is in no order: everything at its head that is not younger than all that comes back."""
    newest = max([run.ids[-1] for run in returned])
    while level and level[0].ids[0] <= newest:
        run = level.popleft()
        queue.left(run)
        returned.append(run)
    if len(returned) > 1:
        returned = regroup({i: run for run in returned for i in run.ids})
    level.extendleft(reversed(returned))
    return returned


def _first(run: Run) -> int:
    return run.ids[0]


def _last(run: Run) -> int:
    return run.ids[-1]


def _waits(settings: AddressSettings, attempts: int, runs: list[Run], delay: int | None) -> list[tuple[int, list[Run]]]:
    """Milliseconds until messages are ready again, and which they are: all at once, unless there is jitter."""
    if delay != -1:
        return [(delay or 0, runs)]
    if settings.redelivery_delay_ms <= 0:
        return [(0, runs)]
    # The same delay for all: they stay one run.
    if not settings.redelivery_jitter:
        return [(_delay(settings, attempts, 0.0), runs)]
    groups: dict[int, list[Run]] = {}
    for run in runs:
        waits: dict[int, list[int]] = {}
        for at, i in enumerate(run.ids):
            waits.setdefault(_delay(settings, attempts, _share(i, attempts)), []).append(at)
        for wait, chosen in waits.items():
            groups.setdefault(wait, []).append(pick(run, chosen))
    return list(groups.items())


def _delay(settings: AddressSettings, attempts: int, share: float) -> int:
    """Artemis' formula: delay × multiplier^(attempts-1), more or less by a share of the jitter, bounded."""
    base = settings.redelivery_delay_ms
    bound = settings.max_redelivery_delay_ms or 10 * base
    try:
        delay = base * settings.redelivery_multiplier ** (attempts - 1)
    except OverflowError:
        return bound
    return int(min(delay + delay * settings.redelivery_jitter * share, bound))


def _share(i: int, attempts: int) -> float:
    """-1 … 1: chance that is the same on every replica."""
    # Not random(): replay and the simulation must find the same time.
    return crc32(b"%d.%d" % (i, attempts)) / 0x7FFFFFFF - 1


def _record(slot: Slot, queue: Queue, runs: list[Run], attempts: int, due: int, turn: Turn) -> None:
    """What is known of durable messages that were out survives a restart: how often in vain, and that they were."""
    if not queue.durable:
        return
    ids = [i for run in runs if run.flags & DURABLE for i in run.ids]
    if not ids:
        return
    queue.tries.note(ids, attempts, due)
    # In this turn's records, before any effect of the turn is told: whoever gets it next finds the count in the log.
    data: dict[str, Any] = {"queue": queue.id, "attempts": attempts, "spans": spans_of(ids), "due": due}
    turn.appends.append(MetaRecord(slot.number, "count", data))


def reject(
    slot: Slot, queue: Queue, messages: dict[int, Run], turn: Turn, of: LargeReturn | None = None, why: str = REJECTED
) -> None:
    """Messages a consumer will have nothing to do with, or that have failed too often."""
    if queue.stays():
        return
    if unread(messages):
        messages = queue.recall(messages, of or LargeReturn({}, True, Outcome.REJECT))
    for run in regroup(messages):
        dead_letter(slot, queue, run, why, turn)
    slot.touched[queue] = None


def unreadable(slot: Slot, queue: Queue, messages: dict[int, Run], turn: Turn) -> None:
    """Messages whose bodies are lost. As a dead letter one is still there to be looked at; a dead letter that somebody
    has tried to look at goes, or it would come back for ever."""
    if queue.stays():
        return
    if unread(messages):
        messages = queue.recall(messages, LargeReturn({}, True, Outcome.UNREADABLE))
    for run in regroup(messages):
        # A DLQ whose letters go to itself.
        if queue.settings.dead_letter_address == queue.address:
            slot.settle_runs(queue, [run], turn)
        else:
            dead_letter(slot, queue, run, "unreadable", turn)
    slot.touched[queue] = None
    slot.watch_idle(queue, turn.now)


def dead_letter(slot: Slot, queue: Queue, run: Run, reason: str, turn: Turn) -> None:
    """To the dead letter address, or dropped if there is none."""
    slot.counters.add("dead_lettered", len(run.records))
    queue.dead(len(run.records))
    settings = queue.settings
    if settings.message_advisories:
        advisories.tell(slot, advisories.DEAD, queue.address, queue.routing, run.ids, len(run.records), turn)
    to = dead_letter_queues.dead_letter_queue(settings, queue.address)
    _leave(slot, queue, run, settings.dead_letter_address, to, _reason(reason), Left.DEAD_LETTERED, turn)


def failed(move: Move) -> bool:
    """Is it of messages that have failed too often."""
    return move.run.lines.endswith(_reason(FAILED).encode())


def _reason(reason: str) -> str:
    return f"dead-letter-reason:{reason}\n"


def expire(slot: Slot, queue: Queue, run: Run, turn: Turn) -> None:
    """To the expiry address, or dropped if there is none."""
    slot.counters.add("expired", len(run.records))
    header = f"_AMQ_ACTUAL_EXPIRY:{turn.now}\n{_reason('expired')}"
    settings = queue.settings
    if settings.message_advisories:
        advisories.tell(slot, advisories.EXPIRED, queue.address, queue.routing, run.ids, len(run.records), turn)
    to = dead_letter_queues.expiry_queue(settings, queue.address)
    _leave(slot, queue, run, settings.expiry_address, to, header, Left.EXPIRED, turn)


def _leave(
    slot: Slot, queue: Queue, run: Run, address: str, to: str | None, header: str, why: Left, turn: Turn
) -> None:
    """`to`: only the queue of this name gets it, made if need be; None: as the address has it."""
    # No dead letter address: as the settings say it is dropped, and the log says why it left.
    if not address:
        slot.settle_runs(queue, [run], turn, why)
        slot.watch_idle(queue, turn.now)
        return
    if run.flags & TRANSIENT and queue.spilled and run.blob is None and not queue.deleted:
        # Forgotten at a restart anyway: needs no place in the owner's atomic group.
        turn.appends.append(SettleRecord(slot.number, queue.id, spans_of(run.ids), durable=False))
    if queue.usage is not None:
        # Its room is free now: where it goes it may wait long, and counts there.
        queue.usage.leave_runs([run], slot.number, turn)
    routing = Routing.UNSET if to is None else Routing.MULTICAST
    # Not settled here: the owner publishes it and settles it in one group, so a crash leaves it in one of the two
    # queues (I10).
    move = Move(slot.number, queue.id, run.ids, address, _relabelled(queue, run, header), to, routing, why)
    turn.moves.append(move)
    queue.sends(move)


def moved(slot: Slot, move: Move, turn: Turn) -> None:
    """The owner has published it: the source may forget."""
    queue = slot.queues.get(move.queue)
    if queue is None:
        return
    # Also when it was not taken anywhere: that is decided, and the message is gone.
    queue.arrived(len(move.ids), move)
    # It is not touched by that, so no dispatch would weigh it.
    queue.weigh(slot.budget.memory)
    if queue.estate:
        slot.touched[queue] = None  # it goes with the last one
    # What comes again and again is in the log whatever becomes of each that comes of it.
    if queue.durable and (move.run.flags & DURABLE or queue.recurring is not None):
        spans = spans_of(move.ids)
        turn.appends.append(SettleRecord(slot.number, queue.id, spans, True, move.why, turn.now))
        if queue.tries.counts:
            queue.tries.forget(spans)
    elif queue.spilled and move.run.blob is not None:
        # Until here the record had to keep the body.
        turn.appends.append(SettleRecord(slot.number, queue.id, spans_of(move.ids), durable=False))
    slot.watch_idle(queue, turn.now)


def _relabelled(queue: Queue, run: Run, header: str) -> Run:
    """The same messages with headers in front that say where they come from: first of repeated names wins, so the
    latest origin counts. Their duplicate ids were unique where they were sent; two of one id may meet in one DLQ."""
    origin = b"_AMQ_ORIG_ADDRESS:%b\n_AMQ_ORIG_QUEUE:%b\n" % (escaped(queue.address), escaped(queue.name))
    front = origin + header.encode()
    flags = run.flags & ~(TRANSIENT | REDELIVERED | WAS_DURABLE | UNIQUE | PART)
    if run.flags & WAS_DURABLE:
        flags |= DURABLE
    if b"\\" in front:
        flags |= ESCAPED
    records = [
        b"_AMQ_ORIG_MESSAGE_ID:%d\n%b" % (i, _unlabelled(run.lines, record, front))
        for i, record in zip(run.ids, run.records, strict=True)
    ]
    blob = run.blob.length + 1 if run.blob else 0
    nbytes = sum(map(len, records)) + len(records) * len(front) + blob
    return Run(run.ids, front, records, nbytes, flags, run.priority, time=run.time, blob=run.blob)


def _unlabelled(lines: bytes, record: bytes, front: bytes) -> bytes:
    """A message as it is stored, without what `front` says anew: one that comes back to its dead letter address again
    and again would grow each time."""
    # The usual letter, the first time: nothing to strip.
    if not (lines or record).startswith(LABELS):
        return lines + record
    whole, kept, at = lines + record, b"", 0
    while whole.startswith(LABELS, at):
        end = whole.index(b"\n", at) + 1
        line = whole[at:end]
        name = line[: line.index(b":") + 1]
        if name != ORIGINAL_ID and name not in front:
            kept += line
        at = end
    return kept + whole[at:]
