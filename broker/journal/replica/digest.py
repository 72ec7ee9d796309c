"""What lives in one slot, as sums that two replicas can compare, however their segments and runs are cut.

Rule: a sum is over messages, each with its id and its bytes, so neither order nor place matters. The moment is that of
the call, as for a copy (seeds.py). Must not know replicas.
"""

# Example. Leader and follower of slot 9 have the same 1,000 messages. The leader wrote them as 10 runs, the follower
# got a seed of 3 parts; the leader has compacted two segments since. Both sum over (id, bytes) of what is alive:
# equal sums. A follower that lacks message 17 differs in `messages` and `ids`; one whose body of 17 has another byte,
# in `content`.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Final

from broker.core.message import Run
from broker.core.records import RunRecord
from broker.core.spans import Span, inside

from ..log.appender import Appender
from ..log.live_index import LiveIndex
from ..log.store import Store
from ..recovery.live_messages import Settled, settled_of
from .seeds import SlotReader

_MASK: Final = (1 << 64) - 1
_HEAD: Final = Struct("<QQQB")


@dataclass(slots=True)
class QueueSums:
    """Live messages of one queue. `content`: of their bytes, priority, expiry, arrival; of a large body its length."""

    messages: int = 0
    ids: int = 0
    content: int = 0

    def count(self, id: int, content: int = 0) -> None:
        self.messages += 1
        # Mixed, so that no two wrong ids add up to two right ones.
        # Sums commute, so no order is needed and a reader may go by segments. A plain sum of ids would not notice 3
        # and 6 in place of 4 and 5.
        mixed = id * 0x9E3779B97F4A7C15 & _MASK
        self.ids = self.ids + (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & _MASK
        self.content = self.content + content & _MASK


class DigestReader(SlotReader):
    """`queues`: complete once read() has said that nothing is left."""

    _rest: Iterator[tuple[RunRecord, Settled]] | None = None

    def __init__(self, slot: int, store: Store, live_index: LiveIndex, appender: Appender) -> None:
        super().__init__(slot, store, live_index, appender)
        self.queues: dict[int, QueueSums] = {}

    def read(self, budget: int) -> bool:
        """Looks at messages of about `budget` bytes; False: nothing is left. Raises JournalError as copies do."""
        if self._rest is None:
            # Record checksums are looked at on the way: rot on one replica is found although its index agrees with the
            # other's.
            self._rest = self._found(checked=True, bodies=True)
        for record, settled in self._rest:
            self._count(record, settled)
            budget -= record.run.nbytes
            if budget <= 0:
                return True
        return False

    def settled(self, record: RunRecord) -> Settled | None:
        """journal.settled(), as of the call that made this reader; any thread."""
        return settled_of(self._view, record)

    def _count(self, record: RunRecord, settled: Settled) -> None:
        contents: dict[int, int] = {}
        for queue in record.queues:
            sums = self.queues.setdefault(queue, QueueSums())
            for index, id in alive(record.run, settled.get(queue, [])):
                # A message in 1,000 queues is hashed once.
                if index not in contents:
                    contents[index] = _content(record.run, index, id)
                sums.count(id, contents[index])


def alive(run: Run, gone: list[Span]) -> Iterator[tuple[int, int]]:
    """(index, id) of the messages that none of the spans `gone` covers."""
    for index, id in enumerate(run.ids):
        if not inside(gone, id):
            yield index, id


def _content(run: Run, index: int, id: int) -> int:
    digest = blake2b(_HEAD.pack(id, run.expires, run.time, run.priority), digest_size=8)
    digest.update(run.lines)
    digest.update(run.records[index])
    if run.blob is not None:
        # Of a large body its length: its bytes have checksums in their own file (bodies.py).
        digest.update(b"%d" % run.blob.length)
    return int.from_bytes(digest.digest(), "little")
