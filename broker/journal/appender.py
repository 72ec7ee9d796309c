"""Records to bytes and places: the loop-thread half of the log. No IO.

Rule: a record gets its place when it is appended and never spans segments; a batch is closed by `seal()` or
by the end of its segment. Must not know files: it says what has to be written where.
"""

from __future__ import annotations

from typing import Final

from broker.core.ids import SLOTS
from broker.core.message import Run
from broker.core.records import GroupRecord, Item, LogRecord, MetaRecord, RunRecord, SettleRecord

from . import format as f
from .books import Books, SegmentBook

_ALIGN: Final = 4096
FIRST_EPOCH: Final = 1


class Part:
    """One segment's share of a batch: buffers to be written at `offset`. buffers[0] is the batch header."""

    __slots__ = ("buffers", "count", "end", "number", "offset", "segment", "size")

    def __init__(self, segment: int, size: int, number: int, offset: int) -> None:
        self.segment = segment
        self.size = size
        self.number = number
        self.offset = offset
        self.end = offset + f.BATCH.size
        self.count = 0
        self.buffers: list[bytes] = [b""]


class Batch:
    """What one commit writes, in this order; then the segments `freed` and the files `removals` go."""

    __slots__ = ("freed", "items", "nbytes", "parts", "removals")

    def __init__(self, parts: list[Part], freed: list[int], removals: list[str]) -> None:
        self.parts = parts
        self.nbytes = sum(p.end - p.offset for p in parts)
        self.freed = freed
        self.removals = removals
        self.items: list[Item] = []


class Appender:
    """State of the log's end.

    lsns       slot → next lsn, 0 = the slot has no records yet.
    lineage    slot → [(epoch, its first lsn), …].
    wants_snapshot   a segment was begun; the owner sets it False, then appends the snapshots of all slots:
               what it appends until the next seal() replaces all earlier MetaRecords.
    """

    def __init__(self, books: Books, disk_id: bytes, segment_bytes: int) -> None:
        self.books = books
        self.segment_bytes = segment_bytes
        self.checksum = f.CHECKSUMS[f.PREFERRED]
        self.lsns = [0] * SLOTS
        self.lineage: dict[int, list[tuple[int, int]]] = {}
        self.next_blob = 1
        self.number = 0
        """Number of the last batch begun."""
        self.book: SegmentBook | None = None
        self.offset = 0
        self.inflight = 0
        self.snapshot_segment = 0
        """Segment where the last complete snapshot begins: all MetaRecords before it are void."""
        self.snapshot_batch = 0
        """Number of the batch with which that snapshot is complete."""
        self._seed = f.seed_of(disk_id)
        self._wants_snapshot = False
        self._snapshot_from = 0
        self._part: Part | None = None
        self._parts: list[Part] = []
        self.freed: list[int] = []
        self.removals: list[str] = []

    @property
    def wants_snapshot(self) -> bool:
        return self._wants_snapshot

    @wants_snapshot.setter
    def wants_snapshot(self, value: bool) -> None:
        if self._wants_snapshot and not value:
            self._emit(f.META, f.SNAPSHOT_BEGIN, 0, 0, [])
            self._snapshot_from = self.segment
        self._wants_snapshot = value

    @property
    def segment(self) -> int:
        """Number of the current segment; 0 = none yet."""
        return self.book.number if self.book else 0

    def resume(self, book: SegmentBook, offset: int) -> None:
        """Go on behind what was recovered."""
        self.book = book
        self.offset = offset

    # ── records ────────────────────────────────────────────────────────────────────────────────────

    def append(self, record: LogRecord) -> None:
        """Encodes, places and books a record; run.position is set."""
        kind = type(record)
        if kind is RunRecord:
            self.run(record)  # type: ignore[arg-type]
        elif kind is SettleRecord:
            self._settle(record)  # type: ignore[arg-type]
        elif kind is MetaRecord:
            self._one(record)  # type: ignore[arg-type]
        else:
            self._group(record)  # type: ignore[arg-type]

    def run(self, record: RunRecord, copy: bool = False) -> int:
        """Appends a RUN; returns its position (a copy leaves run.position alone)."""
        slot = record.slot
        lsn = self._lsn(slot)
        flags, payload = f.run_payload(record, copy)
        crc, body = f.record(f.RUN, flags, slot, self.lineage[slot][-1][0], lsn, payload, self.checksum)
        position = self._place(crc, body)
        self._book_run(record, len(body))
        if not copy:
            record.run.position = position
        return position

    def _settle(self, record: SettleRecord) -> None:
        if record.durable:
            size = self._one(record)
            self.book.settle_bytes += size  # type: ignore[union-attr]
        self.books.settle(record.slot, record.queue, record.spans)

    def _one(self, record: SettleRecord | MetaRecord) -> int:
        slot = record.slot
        lsn = self._lsn(slot)
        crc, body = self._small(record, self.lineage[slot][-1][0], lsn)
        self._place(crc, body)
        return len(body)

    def _small(self, record: SettleRecord | MetaRecord, epoch: int, lsn: int) -> tuple[bytes, bytes]:
        if type(record) is SettleRecord:
            kind, payload = f.SETTLE, f.settle_payload(record.queue, record.spans)
        else:
            kind, payload = f.META, f.meta_payload(record.kind, record.data)  # type: ignore[union-attr]
        return f.record(kind, 0, record.slot, epoch, lsn, payload, self.checksum)

    def _group(self, group: GroupRecord) -> None:
        """One envelope, one checksum: recovery takes all of it or nothing. Inside lie ordinary records."""
        members = [m for m in group.records if type(m) is not SettleRecord or m.durable]
        buffers: list[bytes] = []
        places: list[tuple[Run, int]] = []
        at = f.RECORD.size
        settle_bytes = 0
        lsns = [self._lsn(member.slot) for member in members]
        for member, lsn in zip(members, lsns, strict=True):
            epoch = self.lineage[member.slot][-1][0]
            if type(member) is RunRecord:
                flags, payload = f.run_payload(member)
                crc, body = f.record(f.RUN, flags, member.slot, epoch, lsn, payload, self.checksum)
                places.append((member.run, at))
            else:
                crc, body = self._small(member, epoch, lsn)  # type: ignore[arg-type]
                settle_bytes += len(body)
            buffers += (crc, body)
            at += len(crc) + len(body)
        if buffers:
            position = self._emit(f.GROUP, 0, group.slot, 0, buffers)
            for run, offset in places:
                run.position = position + offset
            self.book.settle_bytes += settle_bytes  # type: ignore[union-attr]
        for record in group.records:
            if type(record) is RunRecord:
                self._book_run(record, record.run.nbytes)
            elif type(record) is SettleRecord:
                self.books.settle(record.slot, record.queue, record.spans)

    def _book_run(self, record: RunRecord, nbytes: int) -> None:
        run = record.run
        self.books.run(self.book, record.slot, run.ids, record.queues, nbytes)  # type: ignore[arg-type]
        if run.blob is not None:
            self.books.blob(record.slot, run.ids[0], run.blob.id, len(record.queues))
            self.next_blob = max(self.next_blob, run.blob.id + 1)

    def _lsn(self, slot: int) -> int:
        lsn = self.lsns[slot]
        if not lsn:
            lsn = 1
            self.lineage[slot] = [(FIRST_EPOCH, lsn)]
            self._emit_epoch(slot, lsn)
        self.lsns[slot] = lsn + 1
        return lsn

    def _emit_epoch(self, slot: int, lsn: int) -> None:
        table = self.lineage[slot]
        self._place(*f.record(f.EPOCH, 0, slot, table[-1][0], lsn, [f.pairs_payload(table)], self.checksum))

    def _emit(self, kind: int, flags: int, slot: int, lsn: int, payload: list[bytes]) -> int:
        return self._place(*f.record(kind, flags, slot, 0, lsn, payload, self.checksum))

    def list_segments(self) -> int:
        """Appends the list of segments that must exist; returns the number of its batch."""
        crc, body = f.record(f.SEGMENTS, 0, 0, 0, 0, [self._listing()], self.checksum)
        if self._fits(len(crc) + len(body)):
            self._place(crc, body)
        else:
            self._roll(0)  # a list that also names the segment just closed stands at the head of the next
        return self.number

    def end_cleanly(self) -> None:
        self._end_snapshot()
        self._emit(f.CLEAN, 0, 0, 0, [])

    # ── places ─────────────────────────────────────────────────────────────────────────────────────

    def _place(self, crc: bytes, body: bytes) -> int:
        size = len(crc) + len(body)
        part = self._part
        if part is None or self.offset + size > self.book.size:  # type: ignore[union-attr]
            part = self._begin() if self._fits(size) else self._roll(size)
        offset = self.offset
        part.buffers += (crc, body)
        part.count += 1
        part.end = self.offset = offset + size
        self.inflight += size
        return part.segment << 32 | offset

    def _fits(self, size: int) -> bool:
        """Is there room for a record of this size (and a batch header, if it is the first of its batch)?"""
        header = f.BATCH.size if self._part is None else 0
        return self.book is not None and self.offset + header + size <= self.book.size

    def _begin(self) -> Part:
        """A new part of the batch, in the current segment."""
        book = self.book
        assert book is not None
        self.number += 1
        part = self._part = Part(book.number, book.size, self.number, self.offset)
        self._parts.append(part)
        self.offset += f.BATCH.size
        self.inflight += f.BATCH.size
        return part

    def _roll(self, size: int) -> Part:
        """Closes the segment. The next one begins with all that recovery needs once older ones are gone."""
        number = 1
        if self.book is not None:
            self.book.end = self.number
            number = self.book.number + 1
        self.checksum = f.CHECKSUMS[f.PREFERRED]
        head = [f.record(f.SEGMENTS, 0, 0, 0, 0, [self._listing()], self.checksum)]
        for slot, table in self.lineage.items():
            lsn = self.lsns[slot] or table[-1][1]
            payload = [f.pairs_payload(table)]
            head.append(f.record(f.EPOCH, 0, slot, table[-1][0], lsn, payload, self.checksum))
        length = f.SEGMENT_BYTES + f.BATCH.size + size + sum(len(c) + len(b) for c, b in head)
        size = self.segment_bytes if length <= self.segment_bytes else -(-length // _ALIGN) * _ALIGN
        self.book = self.books.open_segment(number, size)
        self.offset = f.SEGMENT_BYTES
        part = self._begin()
        for crc, body in head:
            self._place(crc, body)
        self._wants_snapshot = True
        return part

    def _listing(self) -> bytes:
        return f.pairs_payload([(self.next_blob, 0), *self.books.listed()])

    def _end_snapshot(self) -> None:
        if self._snapshot_from:
            self._emit(f.META, f.SNAPSHOT_END, 0, 0, [])
            self.snapshot_segment, self._snapshot_from = self._snapshot_from, 0
            self.snapshot_batch = self.number

    def seal(self) -> Batch | None:
        """Everything appended (and to be removed) since the last time."""
        self._end_snapshot()
        if not self._parts and not self.freed and not self.removals:
            return None
        for part in self._parts:
            length = part.end - part.offset - f.BATCH.size
            part.buffers[0] = f.batch_header(part.number, part.segment, length, part.count, self._seed)
        batch = Batch(self._parts, self.freed, self.removals)
        self._parts, self._part, self.freed, self.removals = [], None, [], []
        return batch
