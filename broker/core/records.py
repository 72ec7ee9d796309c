"""What the engine writes to the log. The journal gives each record its bytes, its lsn and its position.

Rule: a record says what happened, completely: replaying the records of a slot in order rebuilds the
slot, whatever the settings are by then (a routed run names its queues, a settle names its ids).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from .message import Run


class RunRecord:
    """Messages were accepted. `queues`: the queues that got them (ids of this slot).

    dispatched   the queues had consumers waiting when this was written, so that the messages may have been
                 delivered right after the commit: after a crash they count as `redelivered`.
    run.position is set when the journal has placed it. Transient runs (run.flags & TRANSIENT) are paged-out
    memory: dropped at recovery. `address` is the address's name; `dedup` the producer token, if any.
    """

    __slots__ = ("address", "dedup", "dispatched", "queues", "run", "slot")

    def __init__(
        self,
        slot: int,
        address: str,
        queues: Sequence[int],
        run: Run,
        dispatched: bool = False,
        dedup: tuple[int, int] | None = None,
    ) -> None:
        self.slot = slot
        self.address = address
        self.queues = queues
        self.run = run
        self.dispatched = dispatched
        self.dedup = dedup

    def shares(self, address: str, queues: Sequence[int]) -> None:
        """It has the same texts and numbers as others, once; whom it came from is known elsewhere."""
        self.address = address
        self.queues = queues
        self.dedup = None


Row = tuple[int, int, int, int, int, int, int]
"""Of a run that is read back: position, first id, count, nbytes, expires, time, flags."""


class Stretch(NamedTuple):
    """Runs of one queue that are read back, in order: all their messages live, none is scheduled, large, or was
    dispatched at once, and their ids are consecutive within each. Nothing else needs to be known of them."""

    slot: int
    queue: int
    rows: list[Row]


class Left(IntEnum):
    """How messages left a queue, for those who read the log. Numbers are part of the data format; four bits."""

    UNSAID = 0
    """By an earlier release, which did not say."""
    ACKED = 1
    EXPIRED = 2
    DEAD_LETTERED = 3
    PURGED = 4
    """The queue was deleted: its span covers everything in it, and what had left before."""
    REPLACED = 5
    """By a younger one of a last-value or ring queue."""
    MOVED = 6
    DISCARDED = 7
    """A NACK where `nack_policy` says so."""
    ENDED = 8
    """The queue was deleted, and was empty."""


class SettleRecord:
    """Messages left a queue for good: acknowledged, expired, dead-lettered, purged.

    spans      (first id, last id) inclusive, ascending, not overlapping.
    durable    False: only transient runs are meant; the journal adjusts its live index and writes nothing.
    why, at    how and when (epoch milliseconds, 0 = not said): for those who read the log, nothing depends on it.
    """

    __slots__ = ("at", "durable", "queue", "slot", "spans", "why")

    def __init__(
        self,
        slot: int,
        queue: int,
        spans: list[tuple[int, int]],
        durable: bool = True,
        why: int = Left.UNSAID,
        at: int = 0,
    ) -> None:
        self.slot = slot
        self.queue = queue
        self.spans = spans
        self.durable = durable
        self.why = why
        self.at = at


DELIVERED: Final = "delivered"
"""Kind of a MetaRecord that is history, no state: for those who read the log. No restart needs it.

queue, at (epoch milliseconds), to: [consumer, which attempt it was, [[first id, last id] …]] …"""

META_KINDS: Final = frozenset((
    "aborted", "coordinator", "count", "crashed", "decided", DELIVERED, "due", "estate", "ids", "known", "mark",
    "prepared", "producers", "queue", "queues", "suspect", "told", "unprepared", "unqueue",
))  # fmt: skip
"""Kinds of MetaRecord that this release knows (engine/recovery/slot_restore.py has their meaning). Others: a newer
release's."""


class MetaRecord:
    """A change of the slot's small state (queues, delivery counts, dispatch marks). Written as JSON.

    `kind` names it for the engine's own replay (engine/recovery/slot_restore.py lists them); the journal only keeps it,
    and drops all older ones when a new segment begins with the engine's full snapshot of such records.
    """

    __slots__ = ("data", "kind", "slot")

    def __init__(self, slot: int, kind: str, data: dict[str, Any]) -> None:
        self.slot = slot
        self.kind = kind
        self.data = data


class GroupRecord:
    """Several records that count together or not at all (a transaction; slots may differ)."""

    __slots__ = ("records", "slot")

    def __init__(self, slot: int, records: list[RunRecord | SettleRecord | MetaRecord]) -> None:
        self.slot = slot
        self.records = records


LogRecord = RunRecord | SettleRecord | MetaRecord | GroupRecord

Item = tuple[int, int, bytes]
"""What replication carries: (slot, last lsn in it, the record as it stands in the log: checksum and body)."""
