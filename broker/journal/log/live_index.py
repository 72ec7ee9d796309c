"""Which messages are alive where: references per segment, live ids per queue, blobs in use.

Rule: the index follows the log record by record, live and at recovery alike, so replaying the log gives the
same index (that is what recovery uses to tell live from settled). Must not know files or threads.

Memory: LiveRanges per queue (see there); per segment one entry per slot with messages in it; per live blob
one dict entry. Nothing is kept for settled messages.
"""

# Example. Segment 1; a RUN of messages 1…10 for queues 7 and 8, then some of them are settled:
#     run      queue 7: (1…10, segment 1), queue 8: the same. Segment 1: live 20, total 20
#     settle   1…4 of queue 7: live 16. Ids that are not there are ignored, so a settle may be replayed
#     copy     compaction appends 5…10 of both queues in segment 4: their ranges now say 4. Segment 1: live 4 (1…4 of
#              queue 8, the next part), segment 4: live 12
#     copy     1…4 of queue 8: segment 1 has live 0 and may be freed, segment 4 has 16
# The invariant: a segment's `live` is the number of ids in all ranges that name it. Each change goes through what
# ranges say they took away, never through what the caller believes is there; so the sum cannot drift.

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from broker.core.spans import spans_of

from .ranges import LiveRanges, Piece

Key = tuple[int, int]
"""(slot, queue)"""

# Batches are numbered from 1.
NO_END: Final = 0
_CHUNKS: Final = 4
"""Chunks of ranges (512 each, or somewhat more) that leave at once."""


class SegmentUsage:
    """One segment.

    live, total      (message, queue) references: now, and all that were ever written into it.
    run_bytes        bytes of RUN records.    settle_bytes  of SETTLE records.
    end              number of its last batch, once it is closed.
    spans            slot → [lowest, highest] message id that has a RUN here.
    freed            a SEGMENTS record without it has been appended.
    pins             a copy is made from it: it has to stay.
    begins           slot → lsn that was due when it began (history.py).
    """

    __slots__ = (
        "begins",
        "end",
        "freed",
        "live",
        "number",
        "pins",
        "run_bytes",
        "settle_bytes",
        "size",
        "spans",
        "total",
    )

    def __init__(self, number: int, size: int, begins: Sequence[int] = ()) -> None:
        self.number = number
        self.size = size
        self.live = 0
        self.total = 0
        self.run_bytes = 0
        self.settle_bytes = 0
        self.end = NO_END
        self.freed = False
        self.pins = 0
        self.spans: dict[int, list[int]] = {}
        self.begins = begins

    def settles(self, nbytes: int) -> None:
        """A SETTLE record of so many bytes was written into it."""
        self.settle_bytes += nbytes

    def full_at(self, size: int) -> None:
        """Nothing comes behind that place, whatever room there was to be."""
        self.size = size

    def free(self) -> None:
        """A SEGMENTS record without it has been appended."""
        self.freed = True

    def pin(self) -> None:
        """A copy is made from it: it has to stay."""
        self.pins += 1

    def unpin(self) -> None:
        """He has done so."""
        self.pins -= 1

    def live_bytes(self) -> int:
        """Estimate: run bytes × share of references alive."""
        # Messages of a segment are taken to be of one size: exact bytes would be a number per message.
        return self.run_bytes * self.live // self.total if self.total else 0


class BlobRef:
    """A blob and how many (message, queue) references use it. One message may move: several ids, one blob."""

    __slots__ = ("id", "refs")

    def __init__(self, id: int) -> None:
        self.id = id
        self.refs = 0


class LeftRanges:
    """Ranges of a queue in which nothing lives any more. blobs: their use of large bodies is still counted."""

    __slots__ = ("blobs", "ranges", "slot")

    def __init__(self, slot: int, ranges: LiveRanges, blobs: bool = True) -> None:
        self.slot = slot
        self.ranges = ranges
        self.blobs = blobs


class LiveIndex:
    def __init__(self) -> None:
        self.segments: dict[int, SegmentUsage] = {}
        """In order of their numbers."""
        self.queues: dict[Key, LiveRanges] = {}
        self.blobs: dict[int, BlobRef] = {}
        self.blob_of: dict[int, dict[int, list[BlobRef]]] = {}
        """slot → message id → its blob, once per queue that still holds the message."""
        self.idle_blobs: list[BlobRef] = []
        """Blobs that had no reference when last looked at: may go once everything appended is durable."""
        self.blob_pins = 0
        """Copies being read: no blob may go."""
        self._prune_at = 1024
        self.leaving: deque[LeftRanges] = deque()
        """What nothing lives in any more, but segments still count."""
        # At the start nobody waits and everything is counted at once; later a queue of 10 million gaps must not stop
        # a turn.
        self._patient = False

    def be_patient(self) -> None:
        """From now on what leaves many ranges at once is counted in pieces: let_go()."""
        self._patient = True

    def let_go(self) -> None:
        """A piece of `leaving`."""
        last = self.leaving[0]
        # From the end: taking the last chunks out of a list moves nothing.
        self._uncount(last.slot, last.ranges.pop(_CHUNKS), last.blobs)
        if not last.ranges:
            self.leaving.popleft()

    def open_segment(self, number: int, size: int, begins: Sequence[int] = ()) -> SegmentUsage:
        usage = self.segments[number] = SegmentUsage(number, size, begins)
        return usage

    def pin_blobs(self) -> None:
        """Bodies are copied: they have to stay."""
        self.blob_pins += 1

    def unpin_blobs(self) -> None:
        """He has done so."""
        self.blob_pins -= 1

    def after(self, number: int) -> SegmentUsage | None:
        """The segment that was begun after this one."""
        return next((usage for usage in self.segments.values() if usage.number > number), None)

    def run(self, usage: SegmentUsage, slot: int, ids: Sequence[int], queues: Sequence[int], nbytes: int) -> None:
        """A RUN was written into `usage`. Ids that lay in another segment lie here from now on."""
        # Ids ascend, so first and last say whether there are gaps.
        count, first, last = len(ids), ids[0], ids[-1]
        spans = [(first, last)] if last - first + 1 == count else spans_of(ids)
        live = 0
        for queue in queues:
            ranges = self.queues.get((slot, queue))
            if ranges is None:
                ranges = self._new_queue((slot, queue))
            for low, high in spans:
                # What lay elsewhere moves: the old segment loses it, which is what makes a copy by compaction one
                # step.
                for a, b, segment in ranges.add(low, high, usage.number):
                    self.segments[segment].live -= b - a + 1
            live += count
        usage.live += live
        usage.total += live
        usage.run_bytes += nbytes
        bounds = usage.spans.get(slot)
        if bounds is None:
            usage.spans[slot] = [first, last]
        else:
            if first < bounds[0]:
                bounds[0] = first
            if last > bounds[1]:
                bounds[1] = last

    def blob(self, slot: int, message: int, blob_id: int, queues: int) -> None:
        """The run just written has a blob (a copy of a run with this message id changes nothing)."""
        known = self.blob_of.setdefault(slot, {})
        # A copy carries the blob as well, and must not count it twice.
        if message not in known:
            ref = self.blobs.get(blob_id)
            if ref is None:
                ref = self.blobs[blob_id] = BlobRef(blob_id)
            ref.refs += queues
            known[message] = [ref] * queues

    def settle(self, slot: int, queue: int, spans: Sequence[tuple[int, int]]) -> None:
        """These ids left the queue. Ids that are not live there are ignored."""
        ranges = self.queues.get((slot, queue))
        if ranges is None:
            return
        for first, last in spans:
            # A purge or a deleted queue: the ranges leave the index at once, so nothing of them is alive for anyone
            # who asks; only the sums of segments follow in pieces (let_go). They are too high until then, which
            # delays freeing and nothing else.
            if self._patient and len(ranges.chunks) > _CHUNKS and ranges.within(first, last):
                self.leaving.append(LeftRanges(slot, self.queues.pop((slot, queue))))
                return
            self._uncount(slot, ranges.remove(first, last))

    def _uncount(self, slot: int, taken: Sequence[Piece], blobs: bool = True) -> None:
        """These live no more. blobs: nor is their use of large bodies counted yet."""
        segments = self.segments
        for a, b, segment in taken:
            # Arithmetic per range, never per message.
            segments[segment].live -= b - a + 1
        if blobs and (known := self.blob_of.get(slot)):
            self._drop_blobs(known, taken)

    def live(self, slot: int, queue: int, first: int, last: int) -> list[Piece]:
        ranges = self.queues.get((slot, queue))
        return [] if ranges is None else ranges.overlap(first, last)

    def contains(self, slot: int, queue: int, first: int, last: int) -> bool:
        """Are all of these ids live, and in one range: as nearly always, where the answer has to be cheap."""
        ranges = self.queues.get((slot, queue))
        piece = None if ranges is None else ranges.range_at(first)
        return piece is not None and last <= piece[1]

    def listed(self) -> list[tuple[int, int]]:
        """(segment, last batch) of every closed segment that is still needed."""
        return [(b.number, b.end) for b in self.segments.values() if b.end and not b.freed]

    def drop(self, slot: int) -> None:
        """Nothing of this slot lives any more."""
        for leaving in self.leaving:
            leaving.blobs = leaving.blobs and leaving.slot != slot  # what follows may have the same ids
        # Over all queues of the process: a slot is dropped when it is copied anew or leaves, not in traffic.
        for key in [key for key in self.queues if key[0] == slot]:
            ranges = self.queues.pop(key)
            if self._patient and len(ranges.chunks) > _CHUNKS:
                self.leaving.append(LeftRanges(slot, ranges, blobs=False))
            else:
                self._uncount(slot, ranges.pieces(), blobs=False)
        for held in self.blob_of.pop(slot, {}).values():
            for ref in held:
                self._unrefer(ref)
        for usage in self.segments.values():
            usage.spans.pop(slot, None)

    def view(self, slot: int) -> LiveIndex:
        """The queues of one slot as they are now, for another thread."""
        view = LiveIndex()
        # A copy of arrays: 24 bytes a range, by memcpy.
        view.queues = {key: ranges.copy() for key, ranges in self.queues.items() if key[0] == slot and ranges}
        return view

    def forget_idle_blobs(self) -> None:
        """Their files are gone."""
        self.blobs = {id: ref for id, ref in self.blobs.items() if ref.refs}
        self.idle_blobs = []

    def unused_blob(self, blob_id: int) -> bool:
        """Was this blob never referred to (its message was refused, or went to no queue)."""
        return blob_id not in self.blobs

    def take_idle_blobs(self) -> list[int]:
        """Takes out the ids of blobs that no message refers to."""
        # Looked at again: a later run may have referred to it meanwhile.
        idle = [id for id in {ref.id for ref in self.idle_blobs} if self.blobs[id].refs == 0]
        for id in idle:
            del self.blobs[id]
        self.idle_blobs = []
        return idle

    def _drop_blobs(self, blobs: dict[int, list[BlobRef]], taken: Sequence[Piece]) -> None:
        for a, b, _ in taken:
            ids = range(a, b + 1)
            # Whichever is shorter: the ids of the range, or the messages with a large body. `in` of a range is
            # arithmetic.
            for message in [i for i in blobs if i in ids] if b - a > len(blobs) else [i for i in ids if i in blobs]:
                held = blobs[message]
                ref = held.pop()
                if not held:
                    del blobs[message]
                self._unrefer(ref)

    def _unrefer(self, ref: BlobRef) -> None:
        ref.refs -= 1
        if ref.refs == 0:
            self.idle_blobs.append(ref)

    def _new_queue(self, key: Key) -> LiveRanges:
        if len(self.queues) > self._prune_at:
            # Queues that are drained keep an empty entry (refilling is cheap then); temporary ones would pile up.
            self.queues = {k: r for k, r in self.queues.items() if r}
            self._prune_at = 1024 + 2 * len(self.queues)
        ranges = self.queues[key] = LiveRanges()
        return ranges
