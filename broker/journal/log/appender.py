"""Records to bytes and places: the loop-thread half of the log. No IO.

Rule: a record gets its place when it is appended and never spans segments; a batch is closed by `seal()` or
by the end of its segment. Must not know files: it says what has to be written where.
"""

# Example. Segment 1 is in use, its last batch (number 11) ended at offset 200. Slot 5 is led here, its next lsn is 7.
#     append(RUN)     100 bytes of payload. No batch is open: _begin gives number 12, its header will stand at 200 (36
#                     bytes). The record (24 bytes of head and the payload) gets place 236, run.position is 1 << 32 |
#                     236, its lsn 7. The live index counts its messages as alive in segment 1.
#     append(SETTLE)  24 bytes of payload, placed at 360, lsn 8. What is settled is no longer alive in the live index.
#     seal            the header over 172 bytes and 2 records is made now, since only now they are known. The batch
#                     goes to the commit thread; Batch.ends[5] is 9. Nothing is on the disk yet, and nobody was told
#                     anything.
#     no room         if the RUN had not fitted, _roll would have closed segment 1 with batch 11 and begun segment 2
#                     with batch 12: a list of segments, an EPOCH of each slot, the RUN. What runs over the end of a
#                     segment becomes two parts of one Batch, each with its own number.
#
# Places are certain before anything is written because there is one appender, one open batch, and the commit thread
# writes batches in their order: who gets a position may keep it (page index, Moved) while the bytes are on their way.

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.core.errors import JournalError
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, Item, LogRecord, MetaRecord, RunRecord, SettleRecord

from . import format as f
from .envelope import Envelope, Member
from .lineage import FIRST_EPOCH, SlotLogs
from .live_index import LiveIndex, SegmentUsage
from .recent_items import Tail

# Sizes of oversized segments are whole blocks of the disk, so that the file has no block that is partly written.
_ALIGN: Final = 4096


class BatchPart:
    """One segment's share of a batch: buffers to be written at `offset`. buffers[0] is the batch header."""

    __slots__ = ("buffers", "count", "end", "number", "offset", "segment", "size")

    def __init__(self, segment: int, size: int, number: int, offset: int) -> None:
        self.segment = segment
        self.size = size
        self.number = number
        self.offset = offset
        self.end = offset + f.BATCH.size
        self.count = 0
        # The header comes first on the disk and last in time: it holds length and count. Its place in the list is
        # kept free.
        self.buffers: list[bytes] = [b""]


class Batch:
    """What one commit writes, in this order; the segments `freed` and the files `removals` may go then (Store.clear).

    items   what it holds of the slots in `Appender.replicated`, in log order.
    ends    slot → lsn of its next item behind this batch."""

    __slots__ = ("ends", "freed", "items", "nbytes", "parts", "removals")

    def __init__(
        self,
        parts: list[BatchPart],
        freed: list[int],
        removals: list[str],
        items: list[Item],
        ends: Sequence[int],
        nbytes: int,
    ) -> None:
        self.parts = parts
        self.nbytes = nbytes
        self.freed = freed
        self.removals = removals
        self.items = items
        self.ends = ends


class Appender:
    """State of the log's end.

    logs             lsns and epochs of the slots.
    replicated       slots whose items go into Batch.items and the tail.
    wants_snapshot   a segment was begun, and the log has grown by at least the length of the last snapshot since that
                     (else snapshots longer than a segment would begin segments, and these ask for snapshots, for ever);
                     the owner gives add_snapshot() the snapshots of all slots.
    """

    def __init__(self, live_index: LiveIndex, disk_id: bytes, segment_bytes: int, tail_bytes: int = 0) -> None:
        self.live_index = live_index
        self.segment_bytes = segment_bytes
        self.checksum = f.CHECKSUMS[f.PREFERRED]
        self.logs = SlotLogs()
        self.tail = Tail(tail_bytes)
        self.replicated: set[int] = set()
        # The upper half of a blob's id is made of the disk's id: copies on followers keep the leader's number, and
        # two owners that number blobs without asking each other must not collide in one folder.
        self._blob_base = f.seed_of(disk_id) << 32
        self.next_blob = self._blob_base | 1
        self.number = 0
        """Number of the last batch begun."""
        self.usage: SegmentUsage | None = None
        self.offset = 0
        self.inflight = 0
        self.snapshot_segment = 0
        """Segment where the last complete snapshot begins: all MetaRecords before it are void."""
        self.snapshot_batch = 0
        """Number of the batch with which that snapshot is complete."""
        self.wants_snapshot = False
        self._placed = 0
        """Bytes of records placed so far."""
        self._next_snapshot = 0
        """Value of `_placed` from which on a new segment wants a snapshot."""
        # Lists that are asked for each record: bound here once, and never replaced by SlotLogs.
        self._next, self._epochs, self._own = self.logs.next, self.logs.epochs, self.logs.own
        self._seed = f.seed_of(disk_id)
        self._snapshot_from = self._snapshot_bytes = 0
        self._snapshot_whole = False
        self._part: BatchPart | None = None
        self.parts: list[BatchPart] = []
        self._items: list[Item] = []
        self.freed: list[int] = []
        self.removals: list[str] = []

    def blob_seen(self, id: int) -> None:
        """This id is used up, if it was given out here."""
        if id >> 32 == self._blob_base >> 32:
            self.next_blob = max(self.next_blob, id + 1)

    def blobs_from(self, number: int) -> None:
        """Ids below that may have been given out."""
        self.next_blob = max(self.next_blob, number)

    def number_blob(self) -> int:
        """The id of a new body; it is never used again."""
        # An id is used up although its body may never be finished. Giving it out again could make an old file that is
        # being removed the body of a new message.
        number = self.next_blob
        self.next_blob = number + 1
        return number

    def resume_at(self, batch: int) -> None:
        """That was the number of the last batch in the log."""
        self.number = batch

    def snapshot_at(self, segment: int, batch: int) -> None:
        """The last complete snapshot begins in that segment, and is complete with that batch."""
        self.snapshot_segment, self.snapshot_batch = segment, batch

    def frees(self, segments: list[int]) -> None:
        """With the next batch these segments go."""
        self.freed += segments

    def landed(self, nbytes: int) -> None:
        """So much of what was appended is on the disk."""
        self.inflight -= nbytes

    @property
    def segment(self) -> int:
        """Number of the current segment; 0 = none yet."""
        return self.usage.number if self.usage else 0

    def resume(self, usage: SegmentUsage, offset: int) -> None:
        """Go on behind what was recovered."""
        self.usage = usage
        self.offset = offset

    # ── records ────────────────────────────────────────────────────────────────────────────────────

    def append(self, record: LogRecord) -> None:
        """Encodes, places and counts a record; run.position is set."""
        kind = type(record)
        if kind is RunRecord:
            self.run(record)  # type: ignore[arg-type]
        elif kind is SettleRecord:
            self._settle(record)  # type: ignore[arg-type]
        elif kind is MetaRecord:
            self._one(record, self._lsn(record.slot))  # type: ignore[arg-type]
        else:
            self._group(record)  # type: ignore[arg-type]

    def run(self, record: RunRecord, copy: bool = False) -> int:
        """Appends a RUN; returns its position (a copy leaves run.position alone)."""
        slot = record.slot
        # Neither copies nor transient runs are items: they differ from replica to replica, and lsns must not (I5).
        lsn = 0 if copy or record.run.flags & TRANSIENT else self._next[slot] if self._own[slot] else self._lsn(slot)
        flags, payload = f.run_payload(record, copy)
        crc, body = f.record(f.RUN, flags, slot, self._epochs[slot], lsn, payload, self.checksum)
        if lsn and slot not in self.replicated:
            position = self._place(crc, body)
            self._next[slot] = lsn + 1
        else:
            position = self._place_numbered(slot, lsn, crc, body)
        # Behind _place: only then it is known which segment the record has got into.
        run = record.run
        if run.blob is not None:
            self.book_run(record, len(body))
        else:
            self.live_index.run(self.usage, slot, run.ids, record.queues, len(body))  # type: ignore[arg-type]
        # The page index asks under the old position until Moved is told; the run object of a copy is a part and
        # thrown away.
        if not copy:
            run.placed(position)
        return position

    def _settle(self, record: SettleRecord) -> None:
        # What was never durable leaves the live index and needs no record: after a crash the messages are gone anyhow.
        if record.durable:
            self._one(record, self._lsn(record.slot))
        self.live_index.settle(record.slot, record.queue, record.spans)

    def again(self, record: SettleRecord) -> None:
        """A settle that compaction takes along: the live index knows it, and it is no item."""
        self._one(record, 0)

    def begin_snapshot(self) -> None:
        """All small state follows, slot by slot, other records in between; end_snapshot() says that it is complete."""
        # Between BEGIN and END other records may stand. Recovery applies all of them in order, so a MetaRecord that
        # is appended in between, after its slot's piece, is newer than that piece and stands behind it.
        self.wants_snapshot = False
        self.emit(f.META, f.SNAPSHOT_BEGIN, 0, 0, [])
        # The segment in which BEGIN stands, asked behind emit(), which may have begun another one.
        self._snapshot_from, self._snapshot_bytes, self._snapshot_whole = self.segment, 0, False

    def add_snapshot(self, metas: Iterable[MetaRecord]) -> None:
        """More of it, as it is now. No items."""
        before = self._placed
        for meta in metas:
            self._one(meta, 0)
        self._snapshot_bytes += self._placed - before

    def end_snapshot(self) -> None:
        """With the next seal() it replaces all MetaRecords before its beginning."""
        self._snapshot_whole = True
        self.wants_snapshot = False  # also if it has begun segments itself: it is as new as they are
        # So snapshots are at most half of what is written, however long they are.
        self._next_snapshot = self._placed + self._snapshot_bytes

    def _one(self, record: SettleRecord | MetaRecord, lsn: int) -> None:
        slot = record.slot
        crc, body = f.small(record, self._epochs[slot], lsn, self.checksum)
        self._place_numbered(slot, lsn, crc, body)
        if type(record) is SettleRecord:
            self.usage.settles(len(body))  # type: ignore[union-attr]

    def _group(self, group: GroupRecord) -> None:
        """One envelope, one checksum: recovery takes all of it or nothing. Inside lie ordinary records.

        Runs that recovery forgets anyway stand before it: they are no part of an item."""
        # Without the envelope a crash between two members would leave half a COMMIT (C54), and a follower could be
        # given half of it.
        if envelope := self._envelope(group):
            self._put(envelope, envelope.whole())
        self._book_group(group)

    def in_pieces(self, record: LogRecord) -> Iterator[None]:
        """append(), a large group in pieces: it has no place before the last one, and of its slots nothing else may be
        appended meanwhile."""
        if type(record) is not GroupRecord:
            self.append(record)
            return
        if envelope := self._envelope(record):
            while envelope.go_on():
                yield
            # Made in pieces over several turns. A segment begun meanwhile may have another checksum (another
            # machine's journal that was resumed here): all members carry the old one, so they are encoded once more.
            if envelope.checksum is self.checksum:
                self._put(envelope, envelope.pieces())
            elif again := self._envelope(record, transient=False):  # a segment was begun that has another one
                self._put(again, again.whole())
        self._book_group(record)

    def _envelope(self, group: GroupRecord, transient: bool = True) -> Envelope | None:
        """What is to be one record; None: nothing is. transient: also places what is not part of it."""
        members: list[Member] = []
        for record in group.records:
            if type(record) is RunRecord and record.run.flags & TRANSIENT:
                if transient:
                    self.run(record)
            elif type(record) is not SettleRecord or record.durable:
                members.append(record)
        if not members:
            return None
        slots = {member.slot for member in members}
        # A follower gets items of one slot: a group over two could arrive on one and not on the other. Where slots
        # are followed, a transaction over several goes another way (I9, owner/transactions/cross_slot_tx.py).
        if len(slots) > 1 and not slots.isdisjoint(self.replicated):
            raise ValueError(f"a group of slots {sorted(slots)}: an item is of one slot")
        lsns = {of: self._lsn(of) for of in slots}
        return Envelope(group.slot, members, lsns, self._epochs, self.checksum)

    def _put(self, envelope: Envelope, buffers: Sequence[bytes]) -> None:
        """Gives it its place."""
        first, following = next(iter(envelope.lsns.items()))
        if len(envelope.lsns) == 1 and first in self.replicated:
            # Joined: the item is sent to followers and kept in the tail as one piece of bytes.
            position = self.place_item(first, self._next[first], following - 1, b"".join(buffers), out=True)
        else:
            position = self._place(buffers[0], buffers[1], buffers[2:])
            for of, lsn in envelope.lsns.items():
                self._next[of] = lsn
        # Positions are those of the members, so that a page reads one run and not the whole group.
        for record, offset in envelope.places:
            record.run.placed(position + offset)
        self.usage.settles(envelope.settle_bytes)  # type: ignore[union-attr]

    def _book_group(self, group: GroupRecord) -> None:
        for record in group.records:
            if type(record) is SettleRecord:
                self.live_index.settle(record.slot, record.queue, record.spans)
            elif type(record) is RunRecord and not record.run.flags & TRANSIENT:
                self.book_run(record, record.run.nbytes)

    def book_run(self, record: RunRecord, nbytes: int) -> None:
        run = record.run
        self.live_index.run(self.usage, record.slot, run.ids, record.queues, nbytes)  # type: ignore[arg-type]
        if run.blob is not None:
            self.live_index.blob(record.slot, run.ids[0], run.blob.id, len(record.queues))

    def _lsn(self, slot: int) -> int:
        """Of the slot's next item. It is used up when the item has its place: a segment that begins with it must
        say that it is still to come."""
        # The first item of an epoch writes an EPOCH before itself: a lineage has entries for epochs with items only,
        # and a leader that was elected and fell before it said anything leaves no trace that others would have to
        # agree with.
        if not self._own[slot]:
            self._begin_items(slot)
        return self._next[slot]

    def _begin_items(self, slot: int) -> None:
        logs = self.logs
        # Items behind a RESET would be taken for part of the copy.
        if slot in logs.seeding:
            raise JournalError(f"slot {slot} is being copied from its leader; nothing else may be appended to it")
        self._next[slot] = self._next[slot] or 1
        if logs.enter(slot, self._epochs[slot] or FIRST_EPOCH, self._next[slot]):
            self.emit_epoch(slot)

    def emit_epoch(self, slot: int) -> None:
        self._place(*self._epoch(slot))

    def _epoch(self, slot: int) -> tuple[bytes, bytes]:
        logs = self.logs
        payload = [f.pairs_payload([(logs.floors.get(slot, 0), 0), *logs.lineage.get(slot, ())])]
        flags = f.SEEDING if slot in logs.seeding else 0
        return f.record(f.EPOCH, flags, slot, self._epochs[slot], self._next[slot], payload, self.checksum)

    def emit(self, kind: int, flags: int, slot: int, lsn: int, payload: list[bytes]) -> int:
        return self._place(*f.record(kind, flags, slot, self._epochs[slot], lsn, payload, self.checksum))

    def list_segments(self) -> int:
        """Appends the list of segments that must exist; returns the number of its batch."""
        crc, body = f.record(f.SEGMENTS, 0, 0, 0, 0, [self._listing()], self.checksum)
        # Not _place, which may roll: the list would be made before the segment that is closed by it, and not name it.
        if self._fits(len(crc) + len(body)):
            self._place(crc, body)
        else:
            self._roll(0)  # a list that also names the segment just closed stands at the head of the next
        return self.number

    def end_cleanly(self) -> None:
        self._end_snapshot()
        self.emit(f.CLEAN, 0, 0, 0, [])

    # ── places ─────────────────────────────────────────────────────────────────────────────────────

    def place(self, data: bytes) -> int:
        """A whole record as it is."""
        return self._place(data, b"")

    def _place_numbered(self, slot: int, lsn: int, crc: bytes, body: bytes) -> int:
        """A record that is an item if it has an lsn."""
        if not lsn:
            return self._place(crc, body)
        if slot in self.replicated:
            return self.place_item(slot, lsn, lsn, crc + body, out=True)
        position = self._place(crc, body)
        self._next[slot] = lsn + 1
        return position

    def place_item(self, slot: int, first: int, last: int, data: bytes, out: bool) -> int:
        """Places the slot's next item, whole; keeps it for followers. `out`: also for those that have all before."""
        # From here to the end of the function nothing can fail: place, lsn, item and tail change together.
        position = self._place(data, b"")
        self._next[slot] = last + 1
        item = (slot, last, data)
        if out:
            self._items.append(item)
        if self.tail.limit:
            self.tail.add(first, item)
        return position

    def _place(self, crc: bytes, body: bytes, more: Sequence[bytes] = ()) -> int:
        size = len(crc) + len(body)
        if more:
            size += sum(map(len, more))
        part = self._part
        # A record never spans segments: a reader needs one file for it, and a torn record is torn in one place.
        if part is None or self.offset + size > self.usage.size:  # type: ignore[union-attr]
            usage = self.usage
            if part is None and usage is not None and self.offset + f.BATCH.size + size <= usage.size:
                part = self._begin()
            else:
                part = self._begin() if self._fits(size) else self._roll(size)
        offset = self.offset
        part.buffers += (crc, body)
        if more:
            part.buffers += more
        part.count += 1
        part.end = self.offset = offset + size
        self.inflight += size
        self._placed += size
        # A position: 32 bits of segment, 32 of offset. They ascend with the log, so `<` between positions means "was
        # appended before", which floors, durable and resolve() rely on.
        return part.segment << 32 | offset

    def _fits(self, size: int) -> bool:
        """Is there room for a record of this size (and a batch header, if it is the first of its batch)?"""
        header = f.BATCH.size if self._part is None else 0
        return self.usage is not None and self.offset + header + size <= self.usage.size

    def _begin(self) -> BatchPart:
        """A new part of the batch, in the current segment."""
        usage = self.usage
        assert usage is not None
        self.number += 1
        part = self._part = BatchPart(usage.number, usage.size, self.number, self.offset)
        self.parts.append(part)
        self.offset += f.BATCH.size
        self.inflight += f.BATCH.size
        return part

    def _roll(self, size: int) -> BatchPart:
        """Closes the segment. The next one begins with all that recovery needs once older ones are gone."""
        number = 1
        if self.usage is not None:
            self.usage.end = self.number
            # Numbers of segments are never used twice, or a position could mean two records.
            number = self.usage.number + 1
        # A segment has one algorithm. A journal that was written elsewhere, without CRC-32C, changes with its next
        # segment.
        self.checksum = f.CHECKSUMS[f.PREFERRED]
        head = [f.record(f.SEGMENTS, 0, 0, 0, 0, [self._listing()], self.checksum)]
        # 256 slots at most, so the head of a segment is bounded. Once older segments are freed nothing else says at
        # which epoch and lsn a slot stands.
        head += [self._epoch(slot) for slot in self.logs.known()]
        length = f.SEGMENT_BYTES + f.BATCH.size + size + sum(len(c) + len(b) for c, b in head)
        # A record larger than a segment gets a segment of its own size: the alternative, records over several files,
        # would cost every reader for the sake of the rarest.
        size = self.segment_bytes if length <= self.segment_bytes else -(-length // _ALIGN) * _ALIGN
        self.usage = self.live_index.open_segment(number, size, array("Q", self._next))
        self.offset = f.SEGMENT_BYTES
        part = self._begin()
        for crc, body in head:
            self._place(crc, body)
        # Asked here only: MetaRecords hold segments back (compaction._closed), so one snapshot for each segment is
        # what frees need, and more would be written for nothing.
        self.wants_snapshot = self.wants_snapshot or self._placed >= self._next_snapshot
        return part

    def _listing(self) -> bytes:
        return f.pairs_payload([(self.next_blob, 0), *self.live_index.listed()])

    def _end_snapshot(self) -> None:
        if self._snapshot_from and self._snapshot_whole:
            self.emit(f.META, f.SNAPSHOT_END, 0, 0, [])
            self.snapshot_segment, self._snapshot_from = self._snapshot_from, 0
            # Until that batch is durable the old snapshot counts: a crash in between must still find it, so
            # compaction waits for it.
            self.snapshot_batch = self.number

    def seal(self) -> Batch | None:
        """Everything appended (and to be removed) since the last time."""
        if self._snapshot_from:
            self._end_snapshot()
        if not self.parts and not self.freed and not self.removals:
            return None
        nbytes = 0
        for part in self.parts:
            nbytes += part.end - part.offset
            length = part.end - part.offset - f.BATCH.size
            part.buffers[0] = f.batch_header(part.number, part.segment, length, part.count, self._seed)
        # `freed` and `removals` go with the batch, and may be removed behind its sync: whatever replaces them is
        # durable by then.
        batch = Batch(self.parts, self.freed, self.removals, self._items, self._next.copy(), nbytes)
        self.parts, self._part, self.freed, self.removals, self._items = [], None, [], [], []
        return batch
