"""What was handed out, for the log: where an address wants it (`record_deliveries`; docs/adr/0010-reading-the-log.md).

Rule: one record per queue and turn, of one address only, so that a reader sees no other's. It stands before what the
same turn settled: where a message is ACKED its DELIVERED came before. Nobody waits for it, and nothing depends on it.
"""

from __future__ import annotations

from broker.core.effects import Deliver, Turn
from broker.core.message import DURABLE, Run
from broker.core.records import DELIVERED, MetaRecord

from ..messages.runs import spans_of_runs
from ..queue.queue import Queue
from ..state.slot import Slot


def record(slot: Slot, queue: Queue, turn: Turn, told: int, written: int) -> None:
    """Of a dispatch of this queue that began with so many effects and appends in the turn."""
    hands: dict[tuple[int, int], list[Run]] = {}
    for effect in turn.effects[told:]:
        # By attempt, for the reader of the log: the same message, delivered again, is told with the next number.
        if type(effect) is Deliver and effect.run.flags & DURABLE:
            hands.setdefault((effect.consumer, effect.run.attempts + 1), []).append(effect.run)
    if hands and queue.durable:
        to = [[consumer, attempt, spans_of_runs(runs)] for (consumer, attempt), runs in hands.items()]
        # In front of what the dispatch itself has appended, behind all that was there before it.
        turn.appends.insert(written, MetaRecord(slot.number, DELIVERED, {"queue": queue.id, "at": turn.now, "to": to}))
