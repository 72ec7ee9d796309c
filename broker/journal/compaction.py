"""Freeing segments: dead ones go, nearly dead ones are rewritten at the end of the log.

Rule: a segment is removed only after all that is still needed of it, and a list of segments without it, are
durable elsewhere; removals happen one after another. Until then a crash finds the old state, complete.
Must not know threads: each step runs in the loop's thread and is bounded by STEP_BYTES of log, where each record counts
as some KiB as well: of small ones 256 KiB would be 4,000, and 100 ms.

Needed of a segment are its live messages, and those SETTLEs that speak of messages in older segments which
stay (settles of messages in the segment itself go with them). MetaRecords are covered by a later snapshot.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.core.errors import CorruptJournal
from broker.core.records import RunRecord, SettleRecord

from . import format as f
from .appender import Appender
from .blobs import BlobStore
from .live_index import Books, SegmentBook, merged
from .reader import Moved
from .split import by_queues, part_of
from .store import Store, segment_name
from .walk import walk

STEP_BYTES: Final = 256 * 1024
_LOOK: Final = 128
_COPY: Final = 2048
"""What a record that is looked at, and a run that is appended again, count beside their bytes: 2 and 25 µs."""
_SPANS: Final = 1024
"""Spans per re-written SETTLE record."""
_SLACK: Final = 4
"""Segments the log may have beyond twice its live bytes before fuller segments than `compact_below` are rewritten."""
_WORTH: Final = 0.75
"""Rewriting fuller segments than this frees too little."""


class Compactor:
    """`step()` does a bounded piece of work."""

    def __init__(self, store: Store, books: Books, appender: Appender, moved: Moved, blobs: BlobStore) -> None:
        self._store = store
        self._books = books
        self._appender = appender
        self._moved = moved
        self._blobs = blobs
        self._work: Iterator[bool] | None = None
        self.committed = 0
        """Number of the last batch known to be durable."""
        self.removed: set[int] = set()
        """Segments that are gone from disk, not yet from the books."""
        self.kept_from = 0
        """Number of the first segment that is kept for archives (history.py); 0 = none is."""
        self._resting: deque[tuple[int, list[int]]] = deque()
        """Large bodies that nobody refers to, but an archive may want: (segment by then, ids)."""

    def step(self) -> bool:
        """True: there is more to do at once. False: nothing to do, or waiting for a commit."""
        fresh = self._work is None
        if self._work is None:
            self._work = self._job()
        more = next(self._work, None)
        if more is None:
            self._work = None
            return not fresh  # a job that did something has ended: look for the next one
        return more

    def _job(self) -> Iterator[bool]:
        yield from self._let_go()
        yield from self._free_blobs()
        dead = self._dead_prefix()
        if dead:
            yield from self._free(dead)
            yield True
            return
        victim = self._victim()
        if victim is not None:
            yield from self._rewrite(victim)
            if not victim.pins:  # else somebody has begun to copy from it: it is nearly empty, and soon chosen again
                yield from self._free([victim])
            yield True

    # ── choice ─────────────────────────────────────────────────────────────────────────────────────

    def _closed(self) -> list[SegmentBook]:
        """Segments that may go as far as MetaRecords are concerned, oldest first."""
        appender = self._appender
        if appender.snapshot_batch > self.committed:
            return []
        end = min(appender.snapshot_segment, self.kept_from or appender.snapshot_segment)
        return [b for b in self._books.segments.values() if b.number < end]

    def _dead_prefix(self) -> list[SegmentBook]:
        """The oldest segments as long as they are dead: no settle in them is needed."""
        dead: list[SegmentBook] = []
        for book in self._closed():
            if book.live or book.pins:
                break
            dead.append(book)
        return dead

    def _victim(self) -> SegmentBook | None:
        """The segment where rewriting frees most, if it is worth it."""
        closed = self._closed()
        if not closed:
            return None
        oldest = closed[0].number
        shares = [(self._needed(b, b.number == oldest) / b.size, b) for b in closed if not b.pins]
        if not shares:
            return None
        share, victim = min(shares, key=lambda x: x[0])
        books = self._books.segments.values()
        limit = self._store.settings.compact_below
        if sum(b.size for b in books) > 2 * sum(b.live_bytes() for b in books) + _SLACK * self._appender.segment_bytes:
            limit = max(limit, _WORTH)
        if share >= limit:
            return None
        room = self._appender.book.size - self._appender.offset if self._appender.book else 0
        if self._store.no_space and self._needed(victim, False) > room // 2:
            return None  # the reserve is for settling
        return victim

    @staticmethod
    def _needed(book: SegmentBook, oldest: bool) -> int:
        return book.live_bytes() + (0 if oldest else book.settle_bytes)

    # ── rewriting ──────────────────────────────────────────────────────────────────────────────────

    def _rewrite(self, book: SegmentBook) -> Iterator[bool]:
        """Appends what is needed of the segment."""
        settles: dict[tuple[int, int], list[tuple[int, int]]] = {}
        older = [b for b in self._books.segments.values() if b.number < book.number and not b.freed]
        floors = self._appender.logs.floors
        budget = STEP_BYTES
        for start, records in walk(self._store, book.number):
            base = book.number << 32 | start
            for at, size, kind, flags, slot, _, _ in f.records_in(records, 0, len(records)):
                position = base + at - f.RECORD.size
                if slot in floors and position < floors[slot]:
                    continue  # void since the slot was reset
                if kind == f.RUN:
                    budget -= self._copy(records, at, flags, slot, position, book)
                elif kind == f.SETTLE:
                    self._keep_settle(settles, records, at, size, slot, flags, older)
                budget -= _LOOK
                if budget <= 0:
                    yield True
                    budget = STEP_BYTES
            budget -= f.BATCH.size + len(records)
            if budget <= 0:
                yield True
                budget = STEP_BYTES
        for (slot, queue), spans in settles.items():
            if floors.get(slot, 0) >> 32 > book.number:
                continue  # the slot was reset meanwhile: these ids may live again
            flat = merged(spans)
            for at in range(0, len(flat), _SPANS):
                self._appender.again(SettleRecord(slot, queue, flat[at : at + _SPANS]))
            yield True

    def _copy(self, data: bytes, at: int, flags: int, slot: int, position: int, book: SegmentBook) -> int:
        """Appends the live messages of a run again, once per set of queues that hold them. Returns what it counts."""
        first, _, _, _, count, *_ = f.RUN_FIXED.unpack_from(data, at)
        record: RunRecord | None = None
        holders: dict[int, tuple[int, ...]] = {}
        for queue in self._queues(data, at, flags):
            last = first + count - 1
            if flags & f.IDS:
                record = record or f.read_run(data, at, flags, slot)
                last = record.run.ids[-1]
            for low, high, segment in self._books.live(slot, queue, first, last):
                if segment == book.number:
                    for i in range(low, high + 1):
                        holders[i] = (*holders.get(i, ()), queue)
        if not holders:
            return 0
        record = record or f.read_run(data, at, flags, slot)
        places: list[int] = []
        copied = 0
        for queues, ids in by_queues(record.run, holders):
            run = part_of(record.run, ids)
            places.append(
                self._appender.run(
                    RunRecord(slot, record.address, queues, run, record.dispatched, record.dedup), copy=True
                )
            )
            copied += run.nbytes + _COPY
        with self._store.lock:
            self._moved.add(position, places)
        return copied

    @staticmethod
    def _queues(data: bytes, at: int, flags: int) -> list[int]:
        start = at + f.RUN_FIXED.size + f.before_queues(flags)
        return array("Q", data[start : start + 8 * f.RUN_FIXED.unpack_from(data, at)[6]]).tolist()

    @staticmethod
    def _keep_settle(
        settles: dict[tuple[int, int], list[tuple[int, int]]],
        data: bytes,
        at: int,
        size: int,
        slot: int,
        flags: int,
        older: Sequence[SegmentBook],
    ) -> None:
        """Remembers the parts of a settle that speak of ids within older segments."""
        bounds = [b.spans[slot] for b in older if slot in b.spans]
        if not bounds:
            return
        record = f.read_settle(data, at, size, slot, flags)
        kept = [
            (max(first, low), min(last, high))
            for first, last in record.spans
            for low, high in bounds
            if first <= high and last >= low
        ]
        if kept:
            known = settles.setdefault((slot, record.queue), [])
            known += kept
            if len(known) > 2 * _SPANS:
                known[:] = merged(known)

    # ── removal ────────────────────────────────────────────────────────────────────────────────────

    def _free(self, books: Sequence[SegmentBook]) -> Iterator[bool]:
        """Lists the segments without these, waits until that is durable, then has them removed in order."""
        yield from self._let_go()
        for book in books:
            if book.live:
                raise CorruptJournal(f"{segment_name(book.number)}: messages are missing in it; {f.ADVICE}")
            book.free()
            if (follower := self._books.after(book.number)) is not None:
                self._appender.logs.freed(book.number, book.begins, follower.begins)
        yield from self._wait(self._appender.list_segments())
        numbers = [b.number for b in books]
        self._appender.frees(numbers)
        while not self.removed.issuperset(numbers):
            yield False
        for number in numbers:
            self.removed.discard(number)
            del self._books.segments[number]
            with self._store.lock:
                self._moved.forget(number)

    def _let_go(self) -> Iterator[bool]:
        """Counts what has left whole queues."""
        while self._books.leaving:
            self._books.let_go()
            yield True

    def _free_blobs(self) -> Iterator[bool]:
        """A blob without references goes when the settles that made it so are durable."""
        if self._books.idle_blobs and not self._books.blob_pins:
            yield from self._wait(self._appender.number)
            if not self._books.blob_pins:
                self.rest(self._books.take_idle_blobs())
        while self._resting and (not self.kept_from or self._resting[0][0] < self.kept_from):
            _, ids = self._resting.popleft()
            self._appender.removals.extend([self._blobs.doom(i) for i in ids if not self._blobs.has(i)])
            yield True

    def landed(self, batch: int | None, freed: Iterable[int]) -> None:
        """That batch is durable, and these segments are gone."""
        if batch is not None:
            self.committed = batch
        self.removed.update(freed)

    def keep_from(self, segment: int) -> None:
        """What is in this segment and behind it stays for those who read the history; 0: nothing."""
        self.kept_from = segment

    def rest(self, ids: list[int]) -> None:
        """Nobody refers to these large bodies any more: they go with the log that names them."""
        self._resting.append((self._appender.segment, ids))

    def _wait(self, batch: int) -> Iterator[bool]:
        while self.committed < batch:
            yield False
