"""What the messages of a slot came to, in plain numbers since the start of the process.

Rule: numbers only grow. What every message passes (accepted, delivered, redelivered, acked) is added to where it
happens: a call each would be a sixtieth of all it takes. The rest goes through add().
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Counted: TypeAlias = Literal[
    "acked", "dead_lettered", "delivered", "dropped_full", "dropped_unrouted", "duplicates", "expired", "nacked",
    "redelivered", "refused_quota", "replaced", "selector_overruns", "slow_consumers",
]  # fmt: skip


class Counters:
    """accepted   by the slot.    delivered   handed out; redelivered   of these, not for the first time.
    acked      consumed.    nacked   a consumer could not deal with it, or would not.
    dead_lettered   could not be delivered.    expired   its time was over.
    dropped_unrouted   no queue wanted it.    dropped_full   its address was full.
    refused_quota   its queue is of a user who may keep no more.
    duplicates   its duplicate id was known.    replaced   a newer message has taken its place.
    selector_overruns   selectors that were given up on.    slow_consumers   found to take fewer than they are to."""

    __slots__ = (
        "accepted", "acked", "dead_lettered", "delivered", "dropped_full", "dropped_unrouted", "duplicates", "expired",
        "nacked", "redelivered", "refused_quota", "replaced", "selector_overruns", "slow_consumers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = self.delivered = self.acked = self.nacked = 0
        self.expired = self.dead_lettered = self.dropped_unrouted = self.duplicates = self.redelivered = 0
        self.replaced = self.selector_overruns = 0
        self.dropped_full = self.refused_quota = self.slow_consumers = 0

    def add(self, what: Counted, count: int = 1) -> None:
        """So many more."""
        setattr(self, what, getattr(self, what) + count)
