"""The log as others read it: the items of one slot from an offset on, while the log goes on.

An offset is an lsn: consecutive within a slot, kept over restarts, the same on every replica. What compaction copies,
transient runs and snapshots have none and are not shown. Compaction frees segments; `earliest` is the offset from
which on not one item of the slot is missing.

Rule: never a gap. What is read is checked (checksum, next number), and what has been freed meanwhile is an error that
says so. Made and asked in the loop's thread; `Cursor.read` runs in one other thread. Must not know what rows are.
"""

# Example. An archive has read slot 5 up to lsn 99 in epoch 3 and asks for offset 100.
#     check    100 is neither before `earliest` nor behind the end, and the item before it is of epoch 3 here too:
#              this log and the one it was read from are the same up to there (an epoch has one leader, I1). Else
#              OffsetDiverged
#     cursor   somebody stopped at 100 just now: its place is remembered. Else the youngest segment that began with
#              lsn 100 or less; records before 100 are passed over
#     ahead    what may be read: a tuple made in the loop's thread, so the reading thread never looks at the index
#     read     100, 101, … up to the end of what is durable. A number that is not the next one: its segment was freed
#              meanwhile, OffsetExpired. A gap that nobody notices would be the one unforgivable answer

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.core.errors import CorruptJournal, JournalError, OffsetDiverged, OffsetExpired
from broker.core.ids import SLOTS
from broker.core.records import MetaRecord, RunRecord, SettleRecord

from ..log import format as f
from ..log.lineage import Lineage
from ..log.store import Store, read_all, segment_name

if TYPE_CHECKING:
    from ..compaction.compaction import Compactor
    from ..log.appender import Appender
    from ..log.live_index import LiveIndex

READ_BYTES: Final = 256 * 1024
"""Of the file at a time."""
LOOK_BYTES: Final = 4 * READ_BYTES
"""Read by one call at most when what is wanted lies between other slots' records."""
_REMEMBERED: Final = 1024
"""Places where readers stopped: they mostly come back and go on from there."""

Record = RunRecord | SettleRecord | MetaRecord


class Entry(NamedTuple):
    """One item. lsn 0: a MetaRecord of a snapshot, which says what queues there were."""

    lsn: int
    epoch: int
    record: Record


class Place(NamedTuple):
    """Where to read on: the next byte, and where its batch ends (0: a batch header is due there)."""

    segment: int
    offset: int = f.SEGMENT_BYTES
    batch_end: int = 0


class Ahead(NamedTuple):
    """What may be read now, for a thread that must not look at the live index."""

    segments: tuple[int, ...]
    durable: int
    floor: int
    earliest: int


def epoch_at(lineage: Lineage, lsn: int) -> int:
    """The epoch of the item with this number; 0 = it is older than the lineage."""
    # Lineages have 32 entries at most.
    return max((epoch for epoch, first in lineage if first <= lsn), default=0)


class History:
    """ends   slot → number of the item that is due behind everything on the disk."""

    def __init__(self, store: Store, live_index: LiveIndex, appender: Appender, compactor: Compactor) -> None:
        self.ends: Sequence[int] = [0] * SLOTS
        self._store = store
        self._live_index = live_index
        self._appender = appender
        self._logs = appender.logs
        self._compactor = compactor
        self._places: dict[tuple[int, int], tuple[Place, int]] = {}
        """(slot, offset) → where it is, and the slot's floor by then."""

    def reach(self, ends: Sequence[int]) -> None:
        """So far is the log durable: slot → lsn of what comes next."""
        self.ends = ends

    def earliest(self, slot: int) -> int:
        # Lsns begin with 1.
        return self._logs.since[slot] or 1

    def end(self, slot: int) -> int:
        """The first offset that is not on the disk."""
        return max(self.ends[slot], 1)

    def lineage(self, slot: int) -> Lineage:
        """Epochs that have items, ascending."""
        return list(self._logs.lineage.get(slot, ()))

    def check(self, slot: int, offset: int, epoch: int) -> None:
        """Is this where a reader may go on that has read up to there in `epoch` (0: it does not say)?

        Right is the epoch of the item before (what he has read), or of the item itself (what a lineage names).
        Raises OffsetExpired | OffsetDiverged."""
        if offset < self.earliest(slot):
            raise OffsetExpired(slot, offset, self.earliest(slot))
        if offset > self.end(slot):
            raise OffsetDiverged(slot, f"offset {offset} is beyond the end of this log, {self.end(slot)}")
        if not epoch or offset == 1:
            return
        lineage = self.lineage(slot)
        before, at = epoch_at(lineage, offset - 1), epoch_at(lineage, offset)
        # Two answers are right, as a reader may name the epoch of what it has or of what it expects.
        if epoch not in (before, at):
            raise OffsetDiverged(
                slot, f"offset {offset} was read in epoch {epoch}, this log has epoch {before or at} there"
            )

    def check_until(self, slot: int, until: int, epoch: int) -> None:
        """Does this log agree with the one in which the item before `until` is of `epoch` (0: it is not said)?

        Logs that have an item of the same epoch and number are the same up to it: an epoch has one leader.
        Raises OffsetDiverged."""
        if not epoch or until < 2 or until > self.end(slot):
            return
        before = epoch_at(self.lineage(slot), until - 1)
        if before not in (0, epoch):
            raise OffsetDiverged(
                slot, f"what ends at offset {until} ends in epoch {epoch}, this log has epoch {before} there"
            )

    def cursor(self, slot: int, offset: int) -> Cursor:
        """At an offset that check() has allowed."""
        found = self._places.get((slot, offset))
        floor = self._logs.floors.get(slot, 0)
        # A slot that was reset has new items behind its floor, with lsns that may be the same: places from before are
        # void.
        if found is not None and found[1] == floor and found[0].segment in self._live_index.segments:
            return Cursor(self._store, slot, offset, found[0])
        first = floor >> 32
        # From the youngest: readers mostly follow the end. At most all segments, a few comparisons each.
        for usage in reversed(self._live_index.segments.values()):
            if usage.number <= first or usage.begins[slot] <= offset:
                first = usage.number
                break
        return Cursor(self._store, slot, offset, Place(first))

    def ahead(self, cursor: Cursor) -> Ahead:
        """What its next read() may look at."""
        slot = cursor.slot
        segments = tuple(
            n for n, usage in self._live_index.segments.items() if n >= cursor.place.segment and not usage.freed
        )
        return Ahead(segments, self._store.durable, self._logs.floors.get(slot, 0), self.earliest(slot))

    def finder(self, ts: int) -> tuple[Finder, Ahead]:
        """To find the offsets of a time with, in a thread."""
        segments = [usage for usage in self._live_index.segments.values() if not usage.freed]
        plan = [(usage.number, usage.begins) for usage in segments]
        numbers = tuple(usage.number for usage in segments)
        return Finder(self._store, [*plan, (0, self.ends)], ts), Ahead(numbers, self._store.durable, 0, 0)

    def remember(self, cursor: Cursor) -> None:
        """A reader will probably go on from there."""
        self.remember_at(cursor.slot, cursor.due, cursor.place)

    def remember_at(self, slot: int, offset: int, place: Place) -> None:
        """Nothing of the slot from `offset` on lies before `place`."""
        # The oldest goes (a dict keeps its order): a reader that comes back later searches its segment, and is slower
        # once.
        if len(self._places) >= _REMEMBERED:
            del self._places[next(iter(self._places))]
        self._places[slot, offset] = (place, self._logs.floors.get(slot, 0))

    @property
    def store(self) -> Store:
        return self._store

    @property
    def floors(self) -> Mapping[int, int]:
        """slot → position before which nothing of its log counts any more."""
        return self._logs.floors

    def begins(self, slots: Sequence[int], most: int) -> Iterator[list[int]]:
        """Offsets of these slots where segments begin, as of now: places that are cheap to start at. At most so many,
        evenly."""
        segments = [usage for usage in self._live_index.segments.values() if not usage.freed]
        if len(segments) > most:
            segments = [segments[n * len(segments) // most] for n in range(most)]
        return ([usage.begins[slot] for slot in slots] for usage in segments)

    def ahead_of(self, segment: int) -> Ahead:
        """What a scan may look at."""
        numbers = tuple(n for n, usage in self._live_index.segments.items() if n >= segment and not usage.freed)
        return Ahead(numbers, self._store.durable, 0, 0)

    # ── what is kept for archives ──────────────────────────────────────────────────────────────────

    def keep(self, marks: Mapping[int, int] | None) -> int:
        """Nothing at or behind these offsets (slot → offset) is freed from now on; None: anything may be. Returns the
        bytes that are there for this reason only."""
        first = 0
        if marks is not None:
            # Everything before the current segment may be freed unless somebody needs it.
            first = self._appender.segment
            segments = list(self._live_index.segments.values())
            for usage, follower in pairwise(segments):
                if any(offset < follower.begins[slot] for slot, offset in marks.items()):
                    first = usage.number
                    break
        self._compactor.keep_from(first)
        return sum(
            usage.size - usage.live_bytes()
            for usage in self._live_index.segments.values()
            if first and first <= usage.number < self._appender.segment
        )


class _Short(Exception):
    """The bytes in memory have ended: fill() first."""


class Records:
    """Records from a place on, as far as they are durable.

    paced   bytes are read by fill() only, in a thread, and taken apart elsewhere, in small pieces: who reads a file
            lets others run, who makes values of it does not.
    thirsty fill() has to be called."""

    __slots__ = ("_asked", "_data", "_filled", "_start", "_store", "paced", "place", "thirsty")

    def __init__(self, store: Store, place: Place) -> None:
        self._store = store
        self.place = place
        self._data = b""
        self._start = 0
        self._asked = READ_BYTES
        self._filled = (0, 0)
        self.paced = self.thirsty = False

    def pace(self) -> None:
        """From now on fill() alone reads bytes."""
        self.paced = True

    def _wanted(self, slot: int) -> bool:
        """Is the whole of a record of this slot needed, or its head only."""
        raise NotImplementedError

    def _gone(self) -> JournalError:
        """The segment has been freed meanwhile."""
        raise NotImplementedError

    def _next(self, ahead: Ahead) -> tuple[int, int, int, int] | None:
        """(index in _data, bytes, kind, slot) of the payload of the next record; None: nothing more in this segment."""
        while True:
            segment, offset, batch_end = self.place
            # What is appended and not synced may vanish in a crash: a reader that was told of it would know an item
            # that the next leader gives to another message (persist, then tell).
            if segment << 32 | offset >= ahead.durable or segment not in ahead.segments:
                return None
            if batch_end and offset < batch_end:
                break
            head = self._bytes(offset, f.BATCH.size)
            # Zeroes: the segment has ended, or has not gone on yet.
            if head is None or not any(raw := self._data[head : head + f.BATCH.size]):
                return None
            _, number, of, length, count, _ = f.BATCH.unpack(raw)
            # The header is made again and compared: so every field and the checksum are looked at at once.
            if of != segment or f.batch_header(number, of, length, count, f.seed_of(self._store.disk_id)) != raw:
                raise self._corrupt(offset)
            start = offset + f.BATCH.size
            self.place = Place(segment, start, start + length)
        at = self._must(offset, f.RECORD.size)
        _, size, kind, _, slot, _, _ = f.RECORD.unpack_from(self._data, at)
        if offset + f.RECORD.size + size > batch_end:
            raise self._corrupt(offset)
        # Of other slots' records the head is enough; their bodies are stepped over, mostly without being read.
        if kind == f.GROUP or self._wanted(slot):
            at = self._must(offset, f.RECORD.size + size)
        return at + f.RECORD.size, size, kind, slot

    def _follow(self, ahead: Ahead) -> bool:
        """To the next segment, if this one has ended."""
        segment, offset, _ = self.place
        if segment << 32 | offset >= ahead.durable:
            return False
        following = next((n for n in ahead.segments if n > segment), 0)
        # The next segment exists as soon as it is adopted; it counts when something in it is durable.
        if not following or following > ahead.durable >> 32:
            return False
        self.place = Place(following)
        self._data = b""
        return True

    def _must(self, offset: int, n: int) -> int:
        at = self._bytes(offset, n)
        if at is None:
            raise self._corrupt(offset)
        return at

    def _bytes(self, offset: int, n: int) -> int | None:
        """Makes n bytes at offset available; their index in the data. None: the file ends before. A segment that has
        been freed meanwhile is OffsetExpired."""
        at = offset - self._start
        if self._data and at >= 0 and at + n <= len(self._data):
            return at
        if self.paced:
            # Without this a place behind the end of a file would ask for bytes for ever.
            if self._filled == (self.place.segment, offset) and self._asked >= n:
                return None  # it was asked for, and the file has no more
            self._asked = max(n, READ_BYTES)
            raise _Short
        self.fill(max(n, READ_BYTES), offset)
        return 0 if len(self._data) >= n else None

    def fill(self, n: int = 0, offset: int = 0) -> None:
        """Reads the bytes that come next. Any thread, while nobody else uses this."""
        offset = offset or self.place.offset
        store, segment = self._store, self.place.segment
        # Pinned only while it is read: a reader that falls asleep must not keep a freed file open, and the disk full.
        file = store.acquire(segment, known=True)
        if file is None:
            raise self._gone()
        try:
            with store.guard("read the journal"):
                self._data = read_all(file, n or self._asked, offset)
        finally:
            store.release(segment)
        self._start = offset
        self._filled = segment, offset

    def _corrupt(self, offset: int) -> CorruptJournal:
        return CorruptJournal(f"{segment_name(self.place.segment)}: damaged at offset {offset}; {f.ADVICE}")


class Cursor(Records):
    """One reader's place in one slot. `due`: the next offset. Memory: one record, or READ_BYTES."""

    __slots__ = ("due", "slot")

    def __init__(self, store: Store, slot: int, offset: int, place: Place) -> None:
        super().__init__(store, place)
        self.slot = slot
        self.due = offset

    def pace(self) -> None:
        """From now on fill() alone reads bytes."""
        self.paced = True

    def _wanted(self, slot: int) -> bool:
        return slot == self.slot

    def _gone(self) -> OffsetExpired:
        return OffsetExpired(self.slot, self.due, self.due + 1)

    def read(self, ahead: Ahead, until: int, budget: int) -> list[Entry]:
        """The next items before `until`, of about `budget` bytes; may be none though there are more (see `due`).

        Raises OffsetExpired | CorruptJournal | JournalDead."""
        found: list[Entry] = []
        looked = nbytes = 0
        self.thirsty = False
        # Three bounds: what is asked for, what is looked at in vain, what is given back. The caller comes again.
        while self.due < until and looked < LOOK_BYTES and nbytes < budget:
            try:
                record = self._next(ahead)
            except _Short:
                self.thirsty = True
                return found
            if record is None:
                if self._follow(ahead):
                    continue
                break
            at, size, kind, slot = record
            looked += size
            if kind == f.GROUP or slot == self.slot:
                before = len(found)
                if kind in (f.RUN, f.SETTLE, f.META, f.GROUP) and self._base(at) >= ahead.floor:
                    self._read_record(at, size, kind, until, ahead, found)
                if len(found) > before:
                    nbytes += size
            self.place = self.place._replace(offset=self._start + at + size)
        if not self.paced:
            self._data = b""
        return found

    def _base(self, at: int) -> int:
        return self.place.segment << 32 | self._start + at - f.RECORD.size

    def _read_record(self, at: int, size: int, kind: int, until: int, ahead: Ahead, found: list[Entry]) -> None:
        data, head = self._data, f.RECORD.size
        checksum = f.CHECKSUMS[self._store.algorithms.get(self.place.segment, f.PREFERRED)]
        # Checked at each reading, not only at the start: the disk may have rotted since.
        if f.bad_record(data, at - head, at + size, 1, checksum) >= 0:
            raise self._corrupt(self._start + at - head)
        for offset, length, part, flags, slot, epoch, lsn in f.records_in(data, at - head, at + size):
            if slot != self.slot or part == f.GROUP:
                continue
            if not lsn:
                if part == f.META and not flags:
                    found.append(Entry(0, epoch, f.read_meta(data, offset, length, slot)))
                continue
            # Members of a group share a record, so the first of them may be before what is due.
            if lsn < self.due or lsn >= until:
                continue
            if lsn > self.due:
                raise OffsetExpired(self.slot, self.due, max(ahead.earliest, lsn))
            self.due = lsn + 1
            found.append(Entry(lsn, epoch, _record(data, offset, length, part, flags, slot)))


class Finder(Records):
    """The first offsets of a time. Only times of messages are known; those of one segment are looked at."""

    __slots__ = ("_plan", "_ts")

    def __init__(self, store: Store, plan: Sequence[tuple[int, Sequence[int]]], ts: int) -> None:
        """plan: (segment, slot → offset due when it began), the end of the log last, as segment 0."""
        super().__init__(store, Place(0))
        self._plan = plan
        self._ts = ts

    def pace(self) -> None:
        """From now on fill() alone reads bytes."""
        self.paced = True

    def _wanted(self, slot: int) -> bool:
        return True

    def _gone(self) -> JournalError:
        return JournalError("the log was freed while it was searched; ask again")

    def find(self, ahead: Ahead) -> list[int]:
        """slot → offset. Raises JournalError."""
        # By halves over segments, then one segment from its beginning: times ascend with the log, roughly, since a
        # message's time is its arrival at the leader.
        at = bisect_left(range(len(self._plan) - 1), True, key=lambda n: self._late(n, ahead)) - 1
        if at < 0:
            return list(self._plan[0][1])
        found = list(self._plan[at + 1][1])
        for slot, lsn, time in self._times(self._plan[at][0], ahead):
            if time >= self._ts and lsn < found[slot]:
                found[slot] = lsn
        return found

    def _late(self, number: int, ahead: Ahead) -> bool:
        """Is the first message of this segment of the plan not before the time? None at all: look before it."""
        return next((time >= self._ts for _, _, time in self._times(self._plan[number][0], ahead)), True)

    def _times(self, segment: int, ahead: Ahead) -> Iterator[tuple[int, int, int]]:
        """(slot, offset, time) of the runs of a segment."""
        self.place, self._data = Place(segment), b""
        while (record := self._next(ahead)) is not None:
            at, size, _, _ = record
            head = f.RECORD.size
            for offset, _, part, _, slot, _, lsn in f.records_in(self._data, at - head, at + size):
                if part == f.RUN and lsn:
                    yield slot, lsn, f.RUN_FIXED.unpack_from(self._data, offset)[3]
            self.place = self.place._replace(offset=self._start + at + size)


def _record(data: bytes, at: int, size: int, kind: int, flags: int, slot: int) -> Record:
    if kind == f.RUN:
        return f.read_run(data, at, flags, slot)
    if kind == f.SETTLE:
        return f.read_settle(data, at, size, slot, flags)
    return f.read_meta(data, at, size, slot)
