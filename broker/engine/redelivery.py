"""What happens to messages that were not consumed: back to the head, later, or to another address.

Rule: original order (by id) is restored whoever gave back first; delivery counts of durable messages are in the
log before anybody hears of them; a message on its way to another address is out of sight until the owner has
published it. Must not know ledgers.
"""

from __future__ import annotations

from heapq import heappush
from typing import Any

from broker.config.settings import AddressSettings
from broker.core.effects import Move, Turn
from broker.core.message import DURABLE, ESCAPED, REDELIVERED, TRANSIENT, WAS_DURABLE, Run
from broker.core.records import MetaRecord, SettleRecord

from .queue import Queue
from .runs import copy, regroup, spans_of
from .slot import Slot
from .stubs import recall

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"})


def give_back(slot: Slot, queue: Queue, messages: dict[int, Run], delay: int | None, turn: Turn) -> None:
    """Messages a consumer held and did not consume. One more attempt is counted; too many: dead letter.

    delay: milliseconds, -1 = by the settings, None = at once whatever the settings say."""
    if not messages:
        return
    slot.touched[queue] = None
    messages = recall(queue, messages, delay, False)
    most = queue.settings.max_delivery_attempts
    back: dict[int, list[Run]] = {}
    for part in regroup(messages):
        run = copy(part)
        run.attempts += 1
        if 0 <= most <= run.attempts:
            dead_letter(slot, queue, run, "delivery-limit", turn)
        else:
            back.setdefault(run.attempts, []).append(run)
    for attempts, runs in back.items():
        wait = _delay(queue.settings, attempts) if delay == -1 else delay or 0
        due = turn.now + wait if wait > 0 else 0
        _record(slot, queue, runs, attempts, due, turn)
        if due:
            for run in runs:
                postpone(slot, queue, run, due)
        else:
            queue.returned += runs


def postpone(slot: Slot, queue: Queue, run: Run, due: int) -> None:
    """Ready again at `due`."""
    heappush(queue.delayed, (due, run.ids[0], run))
    slot.wake(queue, due)


def bring_back(queue: Queue) -> None:
    """What came back in this turn, all at once: one by one, a thousand NACKs would sort the head a thousand times."""
    returned, queue.returned = queue.returned, []
    to_head(queue, returned)


def to_head(queue: Queue, runs: list[Run]) -> None:
    """Before everything younger of the same priority, in the order of ids."""
    levels: dict[int, list[Run]] = {}
    for run in runs:
        levels.setdefault(run.priority, []).append(run)
    for priority, returned in levels.items():
        level = queue.level(priority)
        newest = max(run.ids[-1] for run in returned)
        while level and level[0].ids[0] < newest:
            run = level.popleft()
            queue.left(run)
            returned.append(run)
        if len(returned) > 1:
            returned = regroup({i: run for run in returned for i in run.ids})
        for run in reversed(returned):
            queue.enter_front(run)


def _delay(settings: AddressSettings, attempts: int) -> int:
    """Artemis' formula: delay × multiplier^(attempts-1), bounded."""
    base = settings.redelivery_delay_ms
    if base <= 0:
        return 0
    bound = settings.max_redelivery_delay_ms or 10 * base
    try:
        return int(min(base * settings.redelivery_multiplier ** (attempts - 1), bound))
    except OverflowError:
        return bound


def _record(slot: Slot, queue: Queue, runs: list[Run], attempts: int, due: int, turn: Turn) -> None:
    """The counts of durable messages survive a restart."""
    if not queue.durable:
        return
    ids = [i for run in runs if run.flags & DURABLE for i in run.ids]
    if not ids:
        return
    queue.counts.update(dict.fromkeys(ids, attempts))
    if due:
        queue.due.update(dict.fromkeys(ids, due))
    elif queue.due:
        for i in ids:
            queue.due.pop(i, None)
    data: dict[str, Any] = {"queue": queue.id, "attempts": attempts, "spans": spans_of(ids), "due": due}
    turn.appends.append(MetaRecord(slot.number, "count", data))


def reject(slot: Slot, queue: Queue, messages: dict[int, Run], turn: Turn) -> None:
    """Messages a consumer will have nothing to do with."""
    for run in regroup(recall(queue, messages, None, True)):
        dead_letter(slot, queue, run, "rejected", turn)
    slot.touched[queue] = None


def dead_letter(slot: Slot, queue: Queue, run: Run, reason: str, turn: Turn) -> None:
    """To the dead letter address, or dropped if there is none."""
    slot.counters.dead_lettered += len(run.records)
    _leave(slot, queue, run, queue.settings.dead_letter_address, f"dead-letter-reason:{reason}\n", turn)


def expire(slot: Slot, queue: Queue, run: Run, turn: Turn) -> None:
    """To the expiry address, or dropped if there is none."""
    slot.counters.expired += len(run.records)
    header = f"_AMQ_ACTUAL_EXPIRY:{turn.now}\ndead-letter-reason:expired\n"
    _leave(slot, queue, run, queue.settings.expiry_address, header, turn)


def _leave(slot: Slot, queue: Queue, run: Run, address: str, header: str, turn: Turn) -> None:
    if not address:
        slot.settle_runs(queue, [run], turn)
        slot.watch_idle(queue, turn.now)
        return
    if run.flags & TRANSIENT and queue.spilled:
        # Forgotten at a restart anyway: needs no place in the owner's atomic group.
        turn.appends.append(SettleRecord(slot.number, queue.id, spans_of(run.ids), durable=False))
    queue.moving += len(run.records)
    turn.moves.append(Move(slot.number, queue.id, run.ids, address, _relabelled(queue, run, header)))


def moved(slot: Slot, move: Move, turn: Turn) -> None:
    """The owner has published it: the source may forget."""
    queue = slot.queues.get(move.queue)
    if queue is None:
        return
    queue.moving -= len(move.ids)
    if queue.durable and move.run.flags & DURABLE:
        spans = spans_of(move.ids)
        turn.appends.append(SettleRecord(slot.number, queue.id, spans))
        if queue.counts:
            slot.forget_counts(queue, spans)
    slot.watch_idle(queue, turn.now)


def _relabelled(queue: Queue, run: Run, header: str) -> Run:
    """The same messages with headers in front that say where they come from: first of repeated names wins, so the
    latest origin counts."""
    address, name = queue.address.translate(_ESCAPES), queue.name.translate(_ESCAPES)
    front = f"_AMQ_ORIG_ADDRESS:{address}\n_AMQ_ORIG_QUEUE:{name}\n{header}".encode()
    flags = run.flags & ~(TRANSIENT | REDELIVERED | WAS_DURABLE)
    if run.flags & WAS_DURABLE:
        flags |= DURABLE
    if b"\\" in front:
        flags |= ESCAPED
    lines = run.lines
    records = [
        b"_AMQ_ORIG_MESSAGE_ID:%d\n%b%b" % (i, lines, record) for i, record in zip(run.ids, run.records, strict=True)
    ]
    blob = run.blob.length + 1 if run.blob else 0
    nbytes = sum(map(len, records)) + len(records) * len(front) + blob
    return Run(run.ids, front, records, nbytes, flags, run.priority, time=run.time, blob=run.blob)
