"""Reading the log back: what is alive, where the log ends, and whether anything is rotten.

Rule: a batch counts whole or not at all; bytes that were once synced either check or stop the start.
Must not write: the caller cuts the torn tail and removes what is left over.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from broker.core.errors import CorruptJournal
from broker.core.message import TRANSIENT
from broker.core.records import MetaRecord, RunRecord

from . import format as f
from .appender import FIRST_EPOCH, Appender
from .books import Books, SegmentBook
from .store import Store, read_all, segment_name

Settled = dict[int, list[tuple[int, int]]]
"""queue → spans of this run's ids that have left it"""


class Recovered:
    """What the journal brought back.

    clean    the last session ended with `close(clean=True)`.
    metas    MetaRecords in log order, from the last complete snapshot on.
    """

    def __init__(self, store: Store, books: Books) -> None:
        self.clean = False
        self.metas: list[MetaRecord] = []
        self.strays: dict[int, list[tuple[int, int]]] = {}
        """slot → (first id, position) of runs that compaction has put behind younger ones."""
        self._store = store
        self._books = books
        self._around: dict[tuple[int, int], tuple[int, int]] = {}
        self._around_segment = 0

    def runs(self) -> Iterator[tuple[RunRecord, Settled]]:
        """Every run with a live message, by ascending first id within each slot; bodies are not loaded.

        Use it up before anything is appended. Memory: one segment, and 16 bytes per compacted run."""
        books = self._books.segments
        strays = {
            slot: sorted((s for s in found if s[1] >> 32 in books), reverse=True) for slot, found in self.strays.items()
        }
        skip = {position for found in strays.values() for _, position in found}
        for book in list(books.values()):
            if not book.live:
                continue
            data = self._store.load(book.number)
            base = book.number << 32
            for start, end, _ in batches(data, book.number, f.seed_of(self._store.disk_id)):
                for at, _, kind, flags, slot, _, _ in f.records_in(data, start, end):
                    position = base | at - f.RECORD.size
                    if kind != f.RUN or position in skip or data[at + f.RUN_FIXED.size - 1] & TRANSIENT:
                        continue
                    waiting = strays.get(slot)
                    if waiting:
                        first = f.QUEUE.unpack_from(data, at)[0]
                        while waiting and waiting[-1][0] < first:
                            if found := self._stray(waiting.pop()[1], slot):
                                yield found
                    if found := self._alive(data, at, flags, slot, position):
                        yield found
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
        return self._alive(data, 0, flags, slot, position)

    def _alive(self, data: bytes, at: int, flags: int, slot: int, position: int) -> tuple[RunRecord, Settled] | None:
        """The run at `at` (not transient), if this place of it holds a live message."""
        record = f.read_run(data, at, flags, slot, bodies=False)
        run = record.run
        run.position = position
        ids = run.ids
        first, last, segment = ids[0], ids[-1], position >> 32
        settled: Settled = {}
        alive = False
        for queue in record.queues:
            low, high = self._around.get((slot, queue), (1, 0))
            if low <= first and last <= high and self._around_segment == segment:
                alive = True  # neighbours mostly lie in the same range: no search
                continue
            gaps: list[tuple[int, int]] = []
            following = first
            for low, high, where in self._books.live(slot, queue, first, last):
                if where == segment:
                    alive = True
                    self._remember(slot, queue, last, segment)
                    if low > following:
                        gaps.append((following, low - 1))
                    following = high + 1
            if following <= last:
                gaps.append((following, last))
            if gaps:
                settled[queue] = gaps
        return (record, settled) if alive else None

    def _remember(self, slot: int, queue: int, message: int, segment: int) -> None:
        """Keeps the range in which this queue's next runs probably lie. Nothing changes while runs() is in use."""
        if self._around_segment != segment:
            self._around.clear()
            self._around_segment = segment
        piece = self._books.queues[slot, queue].range_at(message)
        if piece is not None and piece[2] == segment:
            self._around[slot, queue] = piece[:2]


def batches(data: bytes, segment: int, seed: int) -> Iterator[tuple[int, int, int]]:
    """(start of records, end, batch number) of the batches of a segment that was checked before."""
    offset = f.SEGMENT_BYTES
    while (batch := f.parse_batch(data, offset, segment, seed)) is not None:
        number, length, _ = batch
        start = offset + f.BATCH.size
        offset = start + length
        yield start, offset, number


class Scan:
    """One pass over all segments. Afterwards `appender` and `books` are those of the moment of the last commit.

    last      the segment to go on in (None: the journal is empty), `end` the offset there.
    torn      (segment, offset, end) of rubbish behind the last batch, to be kept aside and zeroed.
    surplus   segments to be removed, oldest first: freed ones whose removal was lost, unused new ones.
    """

    def __init__(self, store: Store, books: Books, appender: Appender) -> None:
        self.recovered = Recovered(store, books)
        self.last: SegmentBook | None = None
        self.end = f.SEGMENT_BYTES
        self.torn: tuple[int, int, int] | None = None
        self.surplus: list[int] = []
        self._store = store
        self._books = books
        self._appender = appender
        self._number = 0
        self._listing: list[tuple[int, int]] = []
        self._pending: list[MetaRecord] | None = None
        self._pending_from = 0
        self._tops: dict[int, int] = {}
        self._last_kind = 0

    def run(self, numbers: list[int]) -> None:
        """Reads the segments in order. Raises CorruptJournal."""
        unused: list[int] = []
        for number in numbers:
            data = self._store.load(number)
            used = f.used_bytes(data)
            if self.torn is not None and used > f.SEGMENT_BYTES:
                raise self._corrupt(self.torn[0], self.torn[1])
            book = self._books.open_segment(number, len(data))
            end, bad = self._segment(book, data)
            if used > end:
                self._judge_tail(number, data, end, bad, used)
            if end == f.SEGMENT_BYTES:
                unused.append(number)
                del self._books.segments[number]
            else:
                self.last, self.end = book, end
                book.end = self._number
        self._check_list(unused)
        if self.last is not None:
            self.last.end = 0
        self.recovered.clean = self._last_kind == f.CLEAN and self.torn is None
        self._appender.number = self._number
        for slot, lsn in enumerate(self._appender.lsns):
            if lsn:  # a repair may have dropped the EPOCH record
                self._appender.lineage.setdefault(slot, [(FIRST_EPOCH, 1)])
        self._books.idle_blobs.clear()

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

    def _segment(self, book: SegmentBook, data: bytes) -> tuple[int, int]:
        """Takes all good batches. Returns (end of the last one, offset of the first bad byte range)."""
        seed = f.seed_of(self._store.disk_id)
        checksum = f.CHECKSUMS[self._store.algorithms[book.number]]
        follows = self.last is not None and self.last.number == book.number - 1
        offset = f.SEGMENT_BYTES
        while (batch := f.parse_batch(data, offset, book.number, seed)) is not None:
            number, length, count = batch
            if number != self._number + 1 and (follows or number <= self._number):
                raise CorruptJournal(
                    f"{segment_name(book.number)}: batch {number} at offset {offset} where {self._number + 1} "
                    f"is due: batches are missing; {f.ADVICE}"
                )
            follows = True
            start = offset + f.BATCH.size
            end = start + length
            bad = f.bad_record(data, start, end, count, checksum)
            if bad >= 0:
                return offset, bad
            self._number = number
            self._take(book, data, start, end)
            offset = end
        return offset, offset

    def _take(self, book: SegmentBook, data: bytes, start: int, end: int) -> None:
        """The records of a good batch. Plain runs that follow one another in a queue are booked as one."""
        lsns, tops = self._appender.lsns, self._tops
        unpack, brief, one = f.RECORD.unpack_from, f.RUN_BRIEF.unpack_from, f.QUEUE.unpack_from
        head, fixed = f.RECORD.size, f.RUN_FIXED.size
        kind = first = count = nbytes = 0
        where = None
        while start < end:
            _, length, kind, flags, slot, _, lsn = unpack(data, start)
            start += head
            if kind == f.RUN:
                lsns[slot] = lsn + 1
                low, more, queues, run_flags = brief(data, start)
                if flags <= f.DISPATCHED and queues == 1 and not run_flags & TRANSIENT and low > tops.get(slot, 0):
                    tops[slot] = low + more - 1
                    here = (slot, one(data, start + fixed)[0])
                    if low == first + count and here == where:
                        count += more
                        nbytes += length
                    else:
                        if where is not None:
                            self._books.run(book, where[0], range(first, first + count), where[1:], nbytes)
                        where, first, count, nbytes = here, low, more, length
                    start += length
                    continue
            if where is not None:
                self._books.run(book, where[0], range(first, first + count), where[1:], nbytes)
                where = None
            if kind == f.RUN:
                self._take_run(book, data, start, length, flags, slot)
            elif kind == f.GROUP:
                continue  # its members follow as if they stood alone
            else:
                self._take_other(book, data, start, length, kind, flags, slot, lsn)
            start += length
        if where is not None:
            self._books.run(book, where[0], range(first, first + count), where[1:], nbytes)
        self._last_kind = kind

    def _take_other(
        self, book: SegmentBook, data: bytes, at: int, length: int, kind: int, flags: int, slot: int, lsn: int
    ) -> None:
        appender = self._appender
        if kind == f.SETTLE:
            settle = f.read_settle(data, at, length, slot)
            self._books.settle(slot, settle.queue, settle.spans)
            book.settle_bytes += length
            appender.lsns[slot] = lsn + 1
        elif kind == f.META:
            self._take_meta(book, data, at, length, flags, slot)
            if not flags:
                appender.lsns[slot] = lsn + 1
        elif kind == f.EPOCH:
            appender.lineage[slot] = f.read_pairs(data, at, length)
            appender.lsns[slot] = max(appender.lsns[slot], lsn)
        elif kind == f.SEGMENTS:
            (blob, _), *self._listing = f.read_pairs(data, at, length)
            appender.next_blob = max(appender.next_blob, blob)

    def _take_run(self, book: SegmentBook, data: bytes, at: int, length: int, flags: int, slot: int) -> None:
        first, count, nqueues, run_flags = f.RUN_BRIEF.unpack_from(data, at)
        offset = at + f.RUN_FIXED.size
        if flags & f.DEDUP:
            offset += 16
        blob = 0
        if flags & f.BLOB_REF:
            blob = f.QUEUE.unpack_from(data, offset)[0]
            offset += 16
            self._appender.next_blob = max(self._appender.next_blob, blob + 1)
        if run_flags & TRANSIENT:
            return
        stop = offset + 8 * nqueues
        queues = f.QUEUE.unpack_from(data, offset) if nqueues == 1 else array("Q", data[offset:stop])
        ids: Sequence[int] = range(first, first + count)
        if flags & f.IDS:
            ids = array("Q", data[stop : stop + 8 * count])
        if first <= self._tops.get(slot, 0):
            # Behind younger ones: runs() must put it back in its place.
            position = book.number << 32 | at - f.RECORD.size
            self.recovered.strays.setdefault(slot, []).append((first, position))
        else:
            self._tops[slot] = ids[-1]
        self._books.run(book, slot, ids, queues, length)
        if blob:
            self._books.blob(slot, first, blob, nqueues)

    def _take_meta(self, book: SegmentBook, data: bytes, at: int, length: int, flags: int, slot: int) -> None:
        if flags & f.SNAPSHOT_BEGIN:
            self._pending, self._pending_from = [], book.number
        elif flags & f.SNAPSHOT_END:
            if self._pending is not None:
                self.recovered.metas, self._pending = self._pending, None
                self._appender.snapshot_segment = self._pending_from
                self._appender.snapshot_batch = self._number
        else:
            meta = f.read_meta(data, at, length, slot)
            self.recovered.metas.append(meta)
            if self._pending is not None:
                self._pending.append(meta)

    def _check_list(self, unused: list[int]) -> None:
        """What the last list of segments names must be there, complete; what it does not name had been freed."""
        books = self._books.segments
        for number, end in self._listing:
            book = books.get(number)
            if book is None:
                raise CorruptJournal(f"segment {segment_name(number)} is missing; {f.ADVICE}")
            if book.end != end:
                raise CorruptJournal(f"{segment_name(number)}: ends with batch {book.end} instead of {end}; {f.ADVICE}")
        listed = {number for number, _ in self._listing}
        for number in list(books):
            if number in listed or books[number] is self.last:
                continue
            if books[number].live:
                raise CorruptJournal(f"{segment_name(number)}: was freed but holds live messages; {f.ADVICE}")
            self.surplus.append(number)
            del books[number]
        self.surplus += unused
