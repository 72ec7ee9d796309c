"""Freeing segments: dead ones go, nearly dead ones are rewritten at the end of the log.

Rule: a segment is removed only after all that is still needed of it, and a list of segments without it, are
durable elsewhere; removals happen one after another. Until then a crash finds the old state, complete.
Must not know threads: each step runs in the loop's thread and is bounded by STEP_BYTES of log, where each record counts
as some KiB as well: of small ones 256 KiB would be 4,000, and 100 ms.

Needed of a segment are its live messages, and those SETTLEs that speak of messages in older segments which
stay (settles of messages in the segment itself go with them). MetaRecords are covered by a later snapshot.
"""

# Example. Segments 1 to 6; the last whole snapshot begins in 5; compact_below is 0.5.
#     segment 1   no message of it is alive, and it is the oldest: freed at once (_dead_prefix)
#     segment 2   64 MB were written, 6 MB of them are alive: 0.1 needed, the victim. Its live messages are appended
#                 again as copies (no lsn: they are no items). Its SETTLEs about ids of still older segments would be
#                 appended again too; here there are none older
#     then        a list of segments without 2 is appended, and waited for; only then the file is removed
#     segment 5   stays: MetaRecords from the snapshot on may stand in it
#
# Why a crash at any point is harmless. Before the list is durable: recovery reads 2 and the copies, in this order; a
# later RUN of the same ids moves them (LiveIndex.run), so each message is alive once, as before. After it: 2 is not
# listed and holds nothing alive, so it is surplus and removed. Removing 2 before the list were durable would look
# like a lost segment; removing it before the copies were would be one.
#
# Why SETTLEs of older segments must be kept: message 7 lies in segment 2, its SETTLE in 3. If 3 went and 2 stayed,
# the next start would find 7 alive, and deliver what was acknowledged (I6).

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from broker.core.errors import CorruptJournal
from broker.core.records import RunRecord, SettleRecord
from broker.core.spans import merged

from ..bodies.blobs import BlobStore
from ..log import format as f
from ..log.appender import Appender
from ..log.live_index import LiveIndex, SegmentUsage
from ..log.reader import Moved
from ..log.store import Store, segment_name
from ..log.walk import walk
from .split import by_queues, part_of

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

    def __init__(self, store: Store, live_index: LiveIndex, appender: Appender, moved: Moved, blobs: BlobStore) -> None:
        self._store = store
        self._live_index = live_index
        self._appender = appender
        self._moved = moved
        self._blobs = blobs
        # A job is a generator: it keeps its place between steps, and owner and tests decide how many steps a turn
        # has.
        self._work: Iterator[bool] | None = None
        self.committed = 0
        """Number of the last batch known to be durable."""
        self.removed: set[int] = set()
        """Segments that are gone from disk, not yet from the live index."""
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
        # First: what has left whole queues is still counted as alive, so a dead segment would look like one to be
        # rewritten.
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
            # A copy for a follower may have begun while this was rewritten (several turns); it reads from the
            # victim's file.
            if not victim.pins:  # else somebody has begun to copy from it: it is nearly empty, and soon chosen again
                yield from self._free([victim])
            yield True

    # ── choice ─────────────────────────────────────────────────────────────────────────────────────

    def _closed(self) -> list[SegmentUsage]:
        """Segments that may go as far as MetaRecords are concerned, oldest first."""
        appender = self._appender
        # The snapshot that makes older MetaRecords void is not on the disk yet: until then nothing may go.
        if appender.snapshot_batch > self.committed:
            return []
        end = min(appender.snapshot_segment, self.kept_from or appender.snapshot_segment)
        return [b for b in self._live_index.segments.values() if b.number < end]

    def _dead_prefix(self) -> list[SegmentUsage]:
        """The oldest segments as long as they are dead: no settle in them is needed."""
        dead: list[SegmentUsage] = []
        for usage in self._closed():
            # From the front only: a dead segment behind a live one may hold settles of messages in that one.
            if usage.live or usage.pins:
                break
            dead.append(usage)
        return dead

    def _victim(self) -> SegmentUsage | None:
        """The segment where rewriting frees most, if it is worth it."""
        closed = self._closed()
        if not closed:
            return None
        oldest = closed[0].number
        # One look per segment, not per message: a log of 1 TB in 64 MiB segments is 16,000 of them.
        shares = [(self._needed(b, b.number == oldest) / b.size, b) for b in closed if not b.pins]
        if not shares:
            return None
        share, victim = min(shares, key=lambda x: x[0])
        segments = self._live_index.segments.values()
        limit = self._store.settings.compact_below
        if (
            sum(b.size for b in segments)
            > 2 * sum(b.live_bytes() for b in segments) + _SLACK * self._appender.segment_bytes
        ):
            # Many segments half alive may fill a disk although none of them is below `compact_below`: then more work
            # is worth it.
            limit = max(limit, _WORTH)
        if share >= limit:
            return None
        room = self._appender.usage.size - self._appender.offset if self._appender.usage else 0
        # On a full disk what is left of the current segment is for settles, which free space without copying
        # anything.
        if self._store.no_space and self._needed(victim, False) > room // 2:
            return None  # the reserve is for settling
        return victim

    @staticmethod
    def _needed(usage: SegmentUsage, oldest: bool) -> int:
        # An estimate, on the safe side: settles of the oldest segment can only speak of itself.
        return usage.live_bytes() + (0 if oldest else usage.settle_bytes)

    # ── rewriting ──────────────────────────────────────────────────────────────────────────────────

    def _rewrite(self, usage: SegmentUsage) -> Iterator[bool]:
        """Appends what is needed of the segment."""
        settles: dict[tuple[int, int], list[tuple[int, int]]] = {}
        # Taken once, at the beginning: segments do not become older, and one that is freed meanwhile only makes a
        # settle needless.
        older = [b for b in self._live_index.segments.values() if b.number < usage.number and not b.freed]
        floors = self._appender.logs.floors
        budget = STEP_BYTES
        for start, records in walk(self._store, usage.number):
            base = usage.number << 32 | start
            for at, size, kind, flags, slot, _, _ in f.records_in(records, 0, len(records)):
                position = base + at - f.RECORD.size
                # Asked for each record, since a slot may be reset between two steps.
                if slot in floors and position < floors[slot]:
                    continue  # void since the slot was reset
                if kind == f.RUN:
                    budget -= self._copy(records, at, flags, slot, position, usage)
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
            # A settle written now would stand behind the RESET and hit the new copy of the slot, whose ids may be the
            # same.
            if floors.get(slot, 0) >> 32 > usage.number:
                continue  # the slot was reset meanwhile: these ids may live again
            flat = merged(spans)
            for at in range(0, len(flat), _SPANS):
                self._appender.again(SettleRecord(slot, queue, flat[at : at + _SPANS]))
            yield True

    def _copy(self, data: bytes, at: int, flags: int, slot: int, position: int, usage: SegmentUsage) -> int:
        """Appends the live messages of a run again, once per set of queues that hold them. Returns what it counts."""
        # Heads only: of a nearly dead segment most runs have nothing alive, and their bodies are never looked at.
        first, _, _, _, count, *_ = f.RUN_FIXED.unpack_from(data, at)
        record: RunRecord | None = None
        holders: dict[int, tuple[int, ...]] = {}
        for queue in self._queues(data, at, flags):
            last = first + count - 1
            if flags & f.IDS:
                record = record or f.read_run(data, at, flags, slot)
                last = record.run.ids[-1]
            for low, high, segment in self._live_index.live(slot, queue, first, last):
                # Alive, but elsewhere: an earlier copy of it is the one that counts.
                if segment == usage.number:
                    for i in range(low, high + 1):
                        holders[i] = (*holders.get(i, ()), queue)
        if not holders:
            return 0
        record = record or f.read_run(data, at, flags, slot)
        places: list[int] = []
        copied = 0
        # A copy names the queues that still hold its messages, so that the settles of the others are not needed
        # behind it.
        for queues, ids in by_queues(record.run, holders):
            run = part_of(record.run, ids)
            places.append(
                self._appender.run(
                    RunRecord(slot, record.address, queues, run, record.dispatched, record.dedup), copy=True
                )
            )
            copied += run.nbytes + _COPY
        # Page reads in other threads look positions up under this lock.
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
        older: Sequence[SegmentUsage],
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
            # Merged now and then: memory stays in proportion to what is kept, not to how many settles were read.
            if len(known) > 2 * _SPANS:
                known[:] = merged(known)

    # ── removal ────────────────────────────────────────────────────────────────────────────────────

    def _free(self, segments: Sequence[SegmentUsage]) -> Iterator[bool]:
        """Lists the segments without these, waits until that is durable, then has them removed in order."""
        yield from self._let_go()
        for usage in segments:
            # A proof, at run time: rewriting has moved everything the index knows. If something is left, the file has
            # less in it than the index remembers, and removing it would make that final.
            if usage.live:
                raise CorruptJournal(f"{segment_name(usage.number)}: messages are missing in it; {f.ADVICE}")
            usage.free()
            if (follower := self._live_index.after(usage.number)) is not None:
                self._appender.logs.freed(usage.number, usage.begins, follower.begins)
        # Persist, then remove.
        yield from self._wait(self._appender.list_segments())
        numbers = [b.number for b in segments]
        # Behind a later batch, in a helper thread, one after another: a later segment must not be gone while an
        # earlier one is back after a crash.
        self._appender.frees(numbers)
        while not self.removed.issuperset(numbers):
            yield False
        for number in numbers:
            self.removed.discard(number)
            del self._live_index.segments[number]
            with self._store.lock:
                self._moved.forget(number)

    def _let_go(self) -> Iterator[bool]:
        """Counts what has left whole queues."""
        while self._live_index.leaving:
            self._live_index.let_go()
            yield True

    def _free_blobs(self) -> Iterator[bool]:
        """A blob without references goes when the settles that made it so are durable."""
        # Idle is a matter of the index in memory. The settle that made it so must be on the disk before the file
        # goes, or a crash would bring the message back without its body.
        if self._live_index.idle_blobs and not self._live_index.blob_pins:
            yield from self._wait(self._appender.number)
            # Asked again: a copy may have begun during the wait.
            if not self._live_index.blob_pins:
                self.rest(self._live_index.take_idle_blobs())
        while self._resting and (not self.kept_from or self._resting[0][0] < self.kept_from):
            _, ids = self._resting.popleft()
            self._appender.removals.extend([self._blobs.doom(i) for i in ids if not self._blobs.has(i)])
            yield True

    def landed(self, batch: int | None) -> None:
        """That batch is durable."""
        if batch is not None:
            self.committed = batch

    def gone(self, segments: Iterable[int]) -> None:
        """These segments are removed."""
        self.removed.update(segments)

    def keep_from(self, segment: int) -> None:
        """What is in this segment and behind it stays for those who read the history; 0: nothing."""
        self.kept_from = segment

    def rest(self, ids: list[int]) -> None:
        """Nobody refers to these large bodies any more: they go with the log that names them."""
        self._resting.append((self._appender.segment, ids))

    def _wait(self, batch: int) -> Iterator[bool]:
        while self.committed < batch:
            yield False
