"""Reading the log back: what is alive, where the log ends, and whether anything is rotten.

Rule: a batch counts whole or not at all; bytes that were once synced either check or stop the start.
Must not write: the caller cuts the torn tail and removes what is left over.
"""

# Example. Segments 1 to 3; the machine lost power while batch 41 was written into segment 3.
#     scan     each batch header and record is checked. RUNs make messages alive in the index, SETTLEs end them, later
#              RUNs of the same ids (copies) move them. EPOCH, RESET and SEEDED say where each slot's log stands
#     tail     behind batch 40 stand bytes that are no good batch, and no good batch behind them: torn, nobody was
#              told of it. Were a good batch 42 behind, 41 had been synced once: rot, and the start is refused
#     list     the last SEGMENTS record names 1 and 2 and the batches they end with. One missing or shorter: refused.
#              One not named: it was freed, and its removal was lost; removed now
#     runs()   a second pass over segments with something alive gives the runs to the engines, without bodies
# Refusing is right where replicas exist: a damaged disk is replaced by a copy, an agreement to forget is for
# operators (inspect.repair, salvage).

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from broker.core.errors import CorruptJournal
from broker.core.message import TRANSIENT
from broker.core.records import DELIVERED, MetaRecord, Row, RunRecord, Stretch

from ..log import format as f
from ..log.appender import Appender
from ..log.lineage import FIRST_EPOCH
from ..log.live_index import LiveIndex, SegmentUsage
from ..log.store import Store, read_all, segment_name
from .live_messages import Living, Settled

RECENT: Final = 8 << 20
"""Bytes of log read again to fill the tail."""
# Flags without large bodies and due times; IDS is looked at by itself.
_PLAIN: Final = f.DISPATCHED | f.IDS | f.DEDUP
_BARE: Final = (0, f.DEDUP, f.COPY, f.DEDUP | f.COPY)
"""Flags of runs that may be gathered."""
_GATHER: Final = 512
"""Runs in one go."""


class Gathered:
    """Plain runs of all slots, by queue."""

    __slots__ = ("_rows", "count")

    def __init__(self) -> None:
        self.count = 0
        self._rows: dict[int, dict[int, list[Row]]] = {}

    def add(self, data: bytes, at: int, flags: int, slot: int, position: int, living: Living) -> bool:
        """False: it is none."""
        first, nbytes, expires, time, count, _, queues, _, _, _, run_flags = f.RUN_FIXED.unpack_from(data, at)
        # Runs of many queues keep their order with those of each queue by coming alone.
        if queues != 1:
            return False
        (queue,) = f.QUEUE.unpack_from(data, at + f.RUN_FIXED.size + (16 if flags & f.DEDUP else 0))
        # Settled parts are the business of the general way. A million plain runs of a queue lie in one range: one
        # comparison each.
        if not living.whole(slot, queue, first, first + count - 1, position >> 32):
            return False
        row = (position, first, count, nbytes, expires, time, run_flags)
        by_queue = self._rows.get(slot)
        if by_queue is None:
            by_queue = self._rows[slot] = {}
        rows = by_queue.get(queue)
        if rows is None:
            by_queue[queue] = [row]
        else:
            rows.append(row)
        self.count += 1
        return True

    def of(self, slot: int) -> Iterator[Stretch]:
        """Those of one slot, and forgets them."""
        for queue, rows in self._rows.pop(slot, {}).items():
            self.count -= len(rows)
            yield Stretch(slot, queue, rows)

    def all(self) -> Iterator[Stretch]:
        # `of` takes entries out while this goes.
        for slot in list(self._rows):
            yield from self.of(slot)


class Recovered:
    """What the journal brought back.

    clean      the last session ended with `close(clean=True)`.
    metas      MetaRecords in log order, from the last complete snapshot on.
    slots      slots of which the log holds items.
    producers  slot → producer token → its last number, of all runs and "producers" records that are there.
    """

    def __init__(self, store: Store, live_index: LiveIndex) -> None:
        self.clean = False
        self.read = 0.0
        """How far runs() is, 0 to 1."""
        self.metas: list[MetaRecord] = []
        self.slots: set[int] = set()
        self.producers: dict[int, dict[int, int]] = {}
        self.floors: dict[int, int] = {}
        """slot → position: what stands before it is void."""
        self.strays: dict[int, list[tuple[int, int]]] = {}
        """slot → (first id, position) of runs that compaction has put behind younger ones."""
        self._store = store
        self._live_index = live_index
        self._living = Living(live_index)

    def judge(self, *, clean: bool) -> None:
        """A scan that has read more of the folder than its last segment knows better how it ended."""
        self.clean = clean

    def runs(self) -> Iterator[tuple[RunRecord, Settled]]:
        """Every run with a live message, by ascending first id within each slot; bodies are not loaded.

        Use it up before anything is appended. Memory: one segment, and 16 bytes per compacted run."""
        return cast("Iterator[tuple[RunRecord, Settled]]", self._found(None))  # nothing is gathered

    def stretches(self) -> Iterator[tuple[RunRecord, Settled] | Stretch]:
        """The same for those who want plain runs together: most are, and a million of them one by one take seconds. By
        ascending first id within each queue, and within each slot where a run has several queues."""
        return self._found(Gathered())

    def _found(self, gathered: Gathered | None) -> Iterator[tuple[RunRecord, Settled] | Stretch]:
        segments = self._live_index.segments
        floors = self.floors
        strays = {
            slot: sorted((s for s in found if s[1] >> 32 in segments), reverse=True)
            for slot, found in self.strays.items()
        }
        skip = {position for found in strays.values() for _, position in found}
        # Segments are in order, and so are the runs in them, but for those that compaction has copied behind younger
        # ones. These are few, and known since the scan: each is read out of turn, before the first younger run of its
        # slot, and passed over where it stands. So the order of ids is that of the queue (I7) without sorting.
        for at, usage in enumerate(list(segments.values())):
            self.read = at / len(segments)
            # Segments that are dead but not freed are not read a second time.
            if not usage.live:
                continue
            data = self._store.load(usage.number)
            base = usage.number << 32
            for start, end, _ in batches(data, usage.number, f.seed_of(self._store.disk_id)):
                for at, _, kind, flags, slot, _, _ in f.records_in(data, start, end):
                    position = base | at - f.RECORD.size
                    if kind != f.RUN or position in skip or data[at + f.RUN_FIXED.size - 1] & TRANSIENT:
                        continue
                    # Alive in the index is a matter of ids, and ids may be used again behind a RESET.
                    if slot in floors and position < floors[slot]:
                        continue
                    waiting = strays.get(slot)
                    if gathered is not None:
                        if (
                            not waiting
                            and flags in _BARE
                            and gathered.add(data, at, flags, slot, position, self._living)
                        ):
                            # Memory and steps: 512 runs at most wait here.
                            if gathered.count >= _GATHER:
                                yield from gathered.all()
                            continue
                        # What is alone comes behind what was gathered of its slot before it.
                        yield from gathered.of(slot)
                    if waiting:
                        first = f.QUEUE.unpack_from(data, at)[0]
                        # Sorted backwards, so the next one is at the end and pop() is cheap.
                        while waiting and waiting[-1][0] < first:
                            if found := self._stray(waiting.pop()[1], slot):
                                yield found
                    if found := self._living.of(data, at, flags, slot, position):
                        yield found
            if gathered is not None:
                yield from gathered.all()
        for slot, waiting in strays.items():
            while waiting:
                if found := self._stray(waiting.pop()[1], slot):
                    yield found

    def _stray(self, position: int, slot: int) -> tuple[RunRecord, Settled] | None:
        number, offset = position >> 32, position & 0xFFFFFFFF
        with self._store.pinned(number) as file, self._store.guard("read the journal"):
            head = read_all(file, f.RECORD.size, offset)
            _, length, _, flags, *_ = f.RECORD.unpack(head)
            data = read_all(file, length, offset + f.RECORD.size)
        return self._living.of(data, 0, flags, slot, position)


def batches(data: bytes, segment: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """(start of records, end, batch number) of the batches of a segment that was checked before."""
    offset = f.SEGMENT_BYTES
    while (batch := f.parse_batch(data, offset, segment, seed)) is not None:
        number, length, _ = batch
        start = offset + f.BATCH.size
        offset = start + length
        yield start, offset, number


class RecoveryScan:
    """One pass over all segments. Afterwards `appender` and `live_index` are those of the moment of the last commit,
    but for slots whose copy was not complete: these are empty, and still in `appender.logs.seeding`.

    last      the segment to go on in (None: the journal is empty), `end` the offset there.
    torn      (segment, offset, end) of rubbish behind the last batch, to be kept aside and zeroed.
    surplus   segments to be removed, oldest first: freed ones whose removal was lost, unused new ones.
    recent    (segment, start, end) of the last batches, at most RECENT bytes, for the tail.
    """

    def __init__(
        self, store: Store, live_index: LiveIndex, appender: Appender, watch: Callable[[float], None] | None = None
    ) -> None:
        """`watch` hears after each segment how much has been read (0 to 1); what it raises ends the scan."""
        self.recovered = Recovered(store, live_index)
        self._watch = watch
        self.last: SegmentUsage | None = None
        self.end = f.SEGMENT_BYTES
        self.torn: tuple[int, int, int] | None = None
        self.surplus: list[int] = []
        self._store = store
        self._live_index = live_index
        self._appender = appender
        self._number = 0
        self._listing: list[tuple[int, int]] = []
        self._pending: list[MetaRecord] | None = None
        self._pending_from = 0
        self._tops: dict[int, int] = {}
        self._last_kind = 0
        self._voids = False
        """`repair` took something out of the log, so that lsns may be missing."""
        self._joined = False
        """Everything of the log before this batch and since its segment's head has been read."""
        self.recent: deque[tuple[int, int, int]] = deque()
        self._recent_bytes = 0
        self._logs = appender.logs
        self.recovered.floors = appender.logs.floors

    def run(self, numbers: list[int]) -> None:
        """Reads the segments in order. Raises CorruptJournal."""
        unused: list[int] = []
        for at, number in enumerate(numbers):
            if self._watch is not None:
                self._watch(at / len(numbers))
            data = self._store.load(number)
            used = f.used_bytes(data)
            # A segment is begun only when the one before was synced to its end: so what looked torn was not.
            # Zeroes behind a header are allowed: a spare that was adopted, and not written to yet.
            if self.torn is not None and used > f.SEGMENT_BYTES:
                raise self._corrupt(self.torn[0], self.torn[1])
            usage = self._live_index.open_segment(number, len(data), array("Q", self._logs.next))
            end, bad = self._segment(usage, data)
            if used > end:
                self._judge_tail(number, data, end, bad, used)
            # Named but without a batch: the crash was between adopting and writing. No record can refer to it.
            if end == f.SEGMENT_BYTES:
                unused.append(number)
                del self._live_index.segments[number]
            else:
                self.last, self.end = usage, end
                usage.end = self._number
        # A copy that has not come to its SEEDED holds nothing: what is there of it must not be led from, nor gone on
        # with.
        for slot in self._logs.seeding:
            self._void(slot, self._logs.floors[slot])
        self._check_list(unused)
        if self.last is not None:
            self.last.end = 0
        self.recovered.clean = self._last_kind == f.CLEAN and self.torn is None
        self._appender.resume_at(self._number)
        for slot, lsn in enumerate(self._logs.next):
            # Brings epochs, own and lineage together once, in place of after each record.
            if lsn:  # a repair may have dropped the EPOCH record
                self._logs.become(slot, self._logs.lineage.get(slot) or [(FIRST_EPOCH, 1)], lsn - 1)
                if lsn > 1:
                    self.recovered.slots.add(slot)
        self._live_index.forget_idle_blobs()

    def _judge_tail(self, number: int, data: bytes, end: int, bad: int, used: int) -> None:
        """Something lies behind the last good batch. A batch is written only after the one before it was
        synced: so a later valid batch proves that these bytes were good once; without one they are a torn
        write that nobody was told of."""
        later = f.find_batch(data, end + 1, number, f.seed_of(self._store.disk_id))
        if later is not None and later[1] > self._number:
            raise self._corrupt(number, bad)
        self.torn = (number, end, used)

    def _corrupt(self, number: int, offset: int) -> CorruptJournal:
        return CorruptJournal(f"{segment_name(number)}: damaged at offset {offset}; {f.ADVICE}")

    def _segment(self, usage: SegmentUsage, data: bytes) -> tuple[int, int]:
        """Takes all good batches. Returns (end of the last one, offset of the first bad byte range)."""
        seed = f.seed_of(self._store.disk_id)
        checksum = f.CHECKSUMS[self._store.algorithms[usage.number]]
        follows = self._joined = self.last is not None and self.last.number == usage.number - 1
        offset = f.SEGMENT_BYTES
        while (batch := f.parse_batch(data, offset, usage.number, seed)) is not None:
            number, length, count = batch
            # Batches count on without a gap, but across segments that have been freed in between. Never back: that
            # would be a segment of an earlier use of its number.
            # Checked before the records are: what cannot be next is not worth a checksum.
            if number != self._number + 1 and (follows or number <= self._number):
                raise CorruptJournal(
                    f"{segment_name(usage.number)}: batch {number} at offset {offset} where {self._number + 1} "
                    f"is due: batches are missing; {f.ADVICE}"
                )
            follows = True
            start = offset + f.BATCH.size
            end = start + length
            bad = f.bad_record(data, start, end, count, checksum)
            if bad >= 0:
                return offset, bad
            self._number = number
            self._read_batch(usage, data, start, end)
            self._joined = True
            self._remember(usage.number, start, end)
            offset = end
        return offset, offset

    def _remember(self, segment: int, start: int, end: int) -> None:
        self.recent.append((segment, start, end))
        self._recent_bytes += end - start
        # Only places are kept, not bytes: the tail reads them again when it is known which are the last ones.
        while self._recent_bytes > RECENT:
            _, first, last = self.recent.popleft()
            self._recent_bytes -= last - first

    def _read_batch(self, usage: SegmentUsage, data: bytes, start: int, end: int) -> None:
        """The records of a good batch. Plain runs that follow one another in a queue are booked as one, also when those
        of other queues stand between them."""
        following, tops = self._logs.next, self._tops
        unpack, brief, one = f.RECORD.unpack_from, f.RUN_BRIEF.unpack_from, f.QUEUE.unpack_from
        head, fixed = f.RECORD.size, f.RUN_FIXED.size
        kind = 0
        joined: dict[tuple[int, int], list[int]] = {}
        while start < end:
            _, length, kind, flags, slot, epoch, lsn = unpack(data, start)
            start += head
            # RUN, SETTLE and META have lsns of their own; the GROUP around them has none.
            if lsn and kind <= f.META:
                if lsn != following[slot]:
                    self._jump(usage, start - head, slot, lsn)
                following[slot] = lsn + 1
            if kind == f.RUN:
                low, more, queues, run_flags = brief(data, start)
                # The usual record: a head, a few fields, and an entry that grows. Many of them are booked at once.
                if flags <= _PLAIN and not flags & f.IDS and queues == 1 and not run_flags & TRANSIENT:
                    at = start + fixed
                    if flags & f.DEDUP:
                        self._producer(slot, *f.PAIR.unpack_from(data, at))
                        at += 16
                    # Else it is a copy that compaction made, behind younger ones: _read_run() notes where it stands.
                    if low > tops.get(slot, 0):
                        tops[slot] = low + more - 1
                        where = (slot, one(data, at)[0])
                        known = joined.get(where)
                        if known is None:
                            joined[where] = [low, low + more, length]
                        elif known[1] == low:
                            # Consecutive within its queue, whatever lies between in the log: ids are numbered per
                            # slot, and queues take turns.
                            known[1] = low + more
                            known[2] += length
                        else:
                            self._book(usage, where, known)
                            joined[where] = [low, low + more, length]
                        start += length
                        continue
            if joined:
                # What comes now may settle or void what was joined: booked later, that would come back (I6).
                for where, known in joined.items():
                    self._book(usage, where, known)
                joined.clear()
            if kind == f.RUN:
                self._read_run(usage, data, start, length, flags, slot)
            elif kind == f.GROUP:
                continue  # its members follow as if they stood alone
            elif kind in (f.EPOCH, f.RESET, f.SEEDED):
                self._read_mark(usage, data, start, length, kind, flags, slot, epoch, lsn)
            else:
                self._read_other(usage, data, start, length, kind, flags, slot)
            start += length
        for where, known in joined.items():
            self._book(usage, where, known)
        self._last_kind = kind

    def _book(self, usage: SegmentUsage, where: tuple[int, int], known: list[int]) -> None:
        self._live_index.run(usage, where[0], range(known[0], known[1]), where[1:], known[2])

    def _jump(self, usage: SegmentUsage, offset: int, slot: int, lsn: int) -> None:
        """An item, or the next one by an EPOCH, is not the one that is due. Legitimate only where segments in
        between have been freed, or `repair` dropped something: then this replica has a hole."""
        due = self._logs.next[slot]
        self._logs.since[slot] = lsn
        # `due` 0: the slot's first item that is still there. Not joined: older segments were freed before this one.
        if not due or not self._joined:
            return
        if not self._voids:
            raise CorruptJournal(
                f"{segment_name(usage.number)}: item {lsn} of slot {slot} at offset {offset} where {due} is due: "
                f"items are missing; {f.ADVICE}"
            )
        self._logs.holes.add(slot)

    def _producer(self, slot: int, token: int, number: int) -> None:
        known = self.recovered.producers.setdefault(slot, {})
        # Numbers of one producer ascend; a copy that compaction made comes late with a lower one.
        if number > known.get(token, 0):
            known[token] = number

    def _read_mark(
        self, usage: SegmentUsage, data: bytes, at: int, length: int, kind: int, flags: int, slot: int, epoch: int,
        lsn: int,
    ) -> None:  # fmt: skip
        """EPOCH, RESET and SEEDED: what changes where a slot's log stands."""
        logs = self._logs
        offset = at - f.RECORD.size
        logs.epochs[slot] = max(logs.epochs[slot], epoch)
        if kind == f.RESET:
            self._void(slot, usage.number << 32 | offset)
            logs.seeding.add(slot)
        elif kind == f.SEEDED:
            # Then what stood before the copy is alive as well: this replica must not be believed.
            if slot not in logs.seeding:
                logs.holes.add(slot)  # `repair` has dropped the RESET: there is more than the copy
            logs.become(slot, f.read_pairs(data, at, length), lsn)
            logs.since[slot] = lsn + 1
        else:
            (floor, _), *lineage = f.read_pairs(data, at, length)
            # The RESET itself may be gone with its segment while an older one is still there: each EPOCH repeats its
            # place.
            if floor > logs.floors.get(slot, 0):
                self._void(slot, floor)  # the segment with the RESET is gone, older ones are not
            if lsn != logs.next[slot]:
                self._jump(usage, offset, slot, lsn)
            logs.next[slot], logs.lineage[slot] = lsn, lineage
            (logs.seeding.add if flags & f.SEEDING else logs.seeding.discard)(slot)

    def _void(self, slot: int, floor: int) -> None:
        """All of the slot that was read so far stands before `floor`, and counts no more."""
        recovered = self.recovered
        self._logs.clear(slot)
        self._logs.floors[slot] = floor
        # Everything that was read of the slot, and small state too: a copy brings its own.
        self._live_index.drop(slot)
        self._tops.pop(slot, None)
        recovered.strays.pop(slot, None)
        recovered.producers.pop(slot, None)
        recovered.metas = [meta for meta in recovered.metas if meta.slot != slot]
        if self._pending is not None:
            self._pending = [meta for meta in self._pending if meta.slot != slot]

    def _read_other(
        self, usage: SegmentUsage, data: bytes, at: int, length: int, kind: int, flags: int, slot: int
    ) -> None:
        if kind == f.SETTLE:
            settle = f.read_settle(data, at, length, slot, flags)
            self._live_index.settle(slot, settle.queue, settle.spans)
            usage.settles(length)
        elif kind == f.META:
            self._read_meta(usage, data, at, length, flags, slot)
        elif kind == f.SEGMENTS:
            (blob, _), *self._listing = f.read_pairs(data, at, length)
            self._appender.blobs_from(blob)
        elif kind == f.VOID:
            self._voids = True

    def _read_run(self, usage: SegmentUsage, data: bytes, at: int, length: int, flags: int, slot: int) -> None:
        first, count, nqueues, run_flags = f.RUN_BRIEF.unpack_from(data, at)
        fields = at + f.RUN_FIXED.size
        blob = 0
        if flags & f.BLOB_REF:
            blob = f.QUEUE.unpack_from(data, fields + (16 if flags & f.DEDUP else 0))[0]
            self._appender.blob_seen(blob)
        if run_flags & TRANSIENT:
            return
        if flags & f.DEDUP:
            self._producer(slot, *f.PAIR.unpack_from(data, fields))
        offset = fields + f.before_queues(flags)
        stop = offset + 8 * nqueues
        queues = f.QUEUE.unpack_from(data, offset) if nqueues == 1 else array("Q", data[offset:stop])
        ids: Sequence[int] = range(first, first + count)
        if flags & f.IDS:
            ids = array("Q", data[stop : stop + 8 * count])
        # Not an error: compaction appends old messages behind younger ones.
        if first <= self._tops.get(slot, 0):
            # Behind younger ones: runs() must put it back in its place.
            position = usage.number << 32 | at - f.RECORD.size
            self.recovered.strays.setdefault(slot, []).append((first, position))
        else:
            self._tops[slot] = ids[-1]
        self._live_index.run(usage, slot, ids, queues, length)
        if blob:
            self._live_index.blob(slot, first, blob, nqueues)

    def _read_meta(self, usage: SegmentUsage, data: bytes, at: int, length: int, flags: int, slot: int) -> None:
        if flags & f.SNAPSHOT_BEGIN:
            # Kept beside what counts: a snapshot whose END is missing (a crash within) must not replace anything.
            self._pending, self._pending_from = [], usage.number
        elif flags & f.SNAPSHOT_END:
            if self._pending is not None:
                self.recovered.metas, self._pending = self._pending, None
                self._appender.snapshot_at(self._pending_from, self._number)
        else:
            meta = f.read_meta(data, at, length, slot)
            if meta.kind == DELIVERED:
                return
            if meta.kind == "producers":
                for token, number in meta.data["producers"]:
                    self._producer(slot, token, number)
            # To both: it counts by itself if the snapshot is never complete, and as part of it if it is.
            self.recovered.metas.append(meta)
            if self._pending is not None:
                self._pending.append(meta)

    def _check_list(self, unused: list[int]) -> None:
        """What the last list of segments names must be there, complete; what it does not name had been freed."""
        segments = self._live_index.segments
        for number, end in self._listing:
            usage = segments.get(number)
            if usage is None:
                raise CorruptJournal(f"segment {segment_name(number)} is missing; {f.ADVICE}")
            # A segment that was cut to an earlier, valid state (an old copy of the file) has good batches and too few
            # of them.
            if usage.end != end:
                raise CorruptJournal(
                    f"{segment_name(number)}: ends with batch {usage.end} instead of {end}; {f.ADVICE}"
                )
        listed = {number for number, _ in self._listing}
        for number in list(segments):
            if number in listed or segments[number] is self.last:
                continue
            # Freed means: everything alive was copied before. If the index disagrees, some copy is missing.
            if segments[number].live:
                raise CorruptJournal(f"{segment_name(number)}: was freed but holds live messages; {f.ADVICE}")
            self.surplus.append(number)
            if (follower := self._live_index.after(number)) is not None:
                self._logs.freed(number, segments[number].begins, follower.begins)
            del segments[number]
        self.surplus += unused
