"""A consumer of a stream is told where each message stands in it (`x-stream-offset`), so that it can go on from there.

Rule: bytes in, bytes out, for who reads a stream alone; the number is the broker's own, which stays. Must not know
dialects.
"""

from __future__ import annotations

from typing import Final

from broker.core.effects import Deliver
from broker.core.message import Run

from .front import Front
from .subscription import SlotSubscription

LINE: Final = b"x-stream-offset:%d\n"
NBYTES: Final = len(LINE) + 11
"""Of a line, about: 13 digits."""


class StreamOffsets(Front):
    """Of one subscription."""

    __slots__ = ()

    def join(self, part: SlotSubscription) -> None:
        super().join(part)
        part.fronted(NBYTES)

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        self._next.deliver(sub, Deliver(effect.consumer, numbered(effect.run), effect.cost))


def numbered(run: Run) -> Run:
    """Its messages, each with its number in front. In front: of repeated headers the first one counts."""
    lines = run.lines
    records = [b"%b%b%b" % (LINE % i, lines, record) for i, record in zip(run.ids, run.records, strict=True)]
    return Run(run.ids, b"", records, run.nbytes, run.flags, attempts=run.attempts, blob=run.blob)
