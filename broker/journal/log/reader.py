"""Reading runs back by position (pages of queues larger than memory). Thread-safe.

Rule: what does not check is never returned (CorruptJournal). Compaction may move runs and remove files at any
time: a position whose segment has gone is looked up again. Bytes that many queues share are one copy, also when each
of them reads its own page. Must not know queues.
"""

# Example of Moved. A run was written at place A in segment 1; a queue's page index holds A.
#     add(A, [B])    compaction has copied it to B in segment 5. resolve(A) is B once B is durable, and A until then
#     add(B, [C])    copied on to C in segment 9. B is a place of A, so resolve(A) is C: chains have one step, however
#                    often a run moves
#     add(A, [B, D]) a run whose messages are in different queues is copied in parts: both are read, in this order
#     forget(5)      segment 5 is gone; A is found in C still. When 9 goes with nothing alive, A is forgotten
# The alternative, telling each page index, would need the queues of all copied messages in memory, which paging is
# there to avoid.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from broker.core.errors import CorruptJournal
from broker.core.message import Run
from broker.core.records import RunRecord

from . import format as f
from .store import Store, read_all, segment_name

_AMPLIFICATION: Final = 4
"""Bytes read from disk per byte of budget, when the wanted runs lie between others."""

_SHARED: Final = 16
"""Pages of bytes kept for the next queue that asks for the same runs; subscriptions that come back together are about
that close to each other."""
_OBJECT: Final = 64
"""Bytes that a message costs beside its own."""


class Shared:
    """Bytes of runs that more than one queue has, the latest asked for. Places are never used twice, so what stands
    here stays true."""

    def __init__(self) -> None:
        # Page reads of several queues run in several threads.
        self._lock = Lock()
        self._size = 0
        self._known: OrderedDict[int, tuple[bytes, list[bytes], int]] = OrderedDict()

    def of(self, place: int, record: RunRecord, limit: int) -> Run:
        """The run, with the bytes that others have got of it."""
        run = record.run
        # A message of one queue is asked for once: keeping it would only cost.
        if len(record.queues) < 2:
            return run
        with self._lock:
            known = self._known.get(place)
            if known is not None:
                self._known.move_to_end(place)
                run.share(known[0], known[1])
                return run
            cost = run.nbytes + _OBJECT * len(run.records)
            self._known[place] = (run.lines, run.records, cost)
            self._size += cost
            # Bounded by pages, whatever asks.
            while self._size > limit and self._known:
                _, (_, _, freed) = self._known.popitem(last=False)
                self._size -= freed
        return run


class Moved:
    """Where compaction put runs whose old positions are still in use.

    A run is known by the place where it was written, and by each place where a survey may have found it. An entry
    lives until the segment with the last copy is freed: one dict entry and one list slot per name and copied run of a
    segment that is still there (about 150 bytes each)."""

    def __init__(self) -> None:
        self._to: dict[int, tuple[int, ...]] = {}
        """name → places now"""
        self._from: dict[int, tuple[tuple[int, ...], int]] = {}
        """place of a copy → (names it is part of, place it was copied from)"""
        self._by_segment: dict[int, list[int]] = {}
        self._surveyed: set[int] = set()

    def resolve(self, position: int, durable: int) -> tuple[int, ...]:
        """The places to read for `position`. A copy counts once it is durable; until then what it is a copy of."""
        to = self._to.get(position)
        if to is None:
            return (position,)
        # Parts that are not durable share the place they came from: it is read once.
        return tuple(dict.fromkeys(p if p < durable else self._from[p][1] for p in to))

    def survey(self, segments: Iterable[int]) -> None:
        """A caller is about to learn where the runs in these segments are. Call it in the loop's thread, when the index
        are looked at: what is moved after that may be asked for under the place where it was."""
        self._surveyed.update(segments)

    def add(self, old: int, new: list[int]) -> None:
        """The run at `old` has been copied to `new`."""
        names = self._from[old][0] if old in self._from else ()
        # The place itself becomes a name only if somebody may hold it: the run was written there, or a survey has
        # seen it there.
        if not names or old >> 32 in self._surveyed:
            names = (*names, old)
        for name in names:
            places = self._to.get(name, (old,))
            # Parts stay in the order of their messages (I7).
            at = places.index(old)
            self._to[name] = (*places[:at], *new, *places[at + 1 :])  # the parts stay in order
        for position in new:
            self._from[position] = (names, old)
            self._by_segment.setdefault(position >> 32, []).append(position)

    def forget(self, segment: int) -> None:
        """The segment is gone: what lived in it has been copied on."""
        self._surveyed.discard(segment)
        for position in self._by_segment.pop(segment, ()):
            names, _ = self._from.pop(position)
            for name in names:
                rest = tuple(p for p in self._to.get(name, ()) if p != position)
                if rest:
                    self._to[name] = rest
                else:
                    self._to.pop(name, None)

    def __len__(self) -> int:
        return len(self._to)


class Reader:
    def __init__(self, store: Store) -> None:
        self.moved = Moved()
        self._store = store
        self._shared = Shared()

    def read(self, positions: Sequence[int], budget: int) -> list[Run]:
        """Runs of the first positions, in order, of at most `budget` bytes together (at least one).

        run.position is the position asked for, also when compaction has moved the run; a moved run may come
        back in several parts and only with its live messages. Positions that are not durable yet end the list;
        those whose messages are all settled may be skipped. Raises CorruptJournal | JournalDead."""
        chunk = Chunk(self._store, budget)
        runs: list[Run] = []
        total = 0
        for position in positions:
            parts = self._parts(chunk, position)
            if parts is None:
                break
            total += sum(run.nbytes for run in parts)
            # One run at least, or a message larger than the budget would never be read.
            if runs and (total > budget or chunk.bytes_read > _AMPLIFICATION * chunk.size):
                break
            runs += parts
        return runs

    def _parts(self, chunk: Chunk, position: int) -> list[Run] | None:
        """The run at `position`, wherever it is now; None if it is not durable yet; [] if nothing of it lives."""
        places = self._places(position)
        while True:
            if max(places) >= self._store.durable:
                return None
            found = [self._run(chunk, place) for place in places]
            parts = [run for run in found if run is not None]
            # Segment gone and nowhere else to look: nothing of the run is alive. Each round means that compaction has
            # moved it once more in between, so this ends.
            if len(parts) == len(found) or (again := self._places(position)) == places:
                break
            places = again  # it was moved, and its segment freed, between looking up and reading
        for run in parts:
            # Under the name that was asked for: the page index compares.
            run.placed(position)
        return parts

    def _run(self, chunk: Chunk, place: int) -> Run | None:
        record = chunk.run(place)
        return None if record is None else self._shared.of(place, record, _SHARED * chunk.size)

    def _places(self, position: int) -> tuple[int, ...]:
        with self._store.lock:
            return self.moved.resolve(position, self._store.durable)


class Chunk:
    """The last piece of a segment that was read."""

    def __init__(self, store: Store, size: int) -> None:
        self.bytes_read = 0
        self._store = store
        self.size = max(size, 4096)
        self._segment = 0
        self._start = 0
        self._data = b""

    def run(self, position: int) -> RunRecord | None:
        """The run there, or None if the segment is gone."""
        place = self.record(position)
        if place is None:
            return None
        data, at, flags = place
        return f.read_run(data, at, flags, 0)

    def record(self, position: int) -> tuple[bytes, int, int] | None:
        """(bytes, offset of the payload in them, flags) of the RUN there, or None if the segment is gone."""
        segment, offset = position >> 32, position & 0xFFFFFFFF
        at = self._have(segment, offset, f.RECORD.size)
        if at is None:
            return None
        length = f.PREFIX.unpack_from(self._data, at)[1] + f.RECORD.size
        # A length out of damaged bytes must not become a read of 4 GiB.
        if length > f.MAX_RECORD:
            raise self._corrupt(segment, offset)
        at = self._have(segment, offset, length)
        if at is None:
            return None
        data = self._data
        crc, _, kind, flags, *_ = f.RECORD.unpack_from(data, at)
        checksum = f.CHECKSUMS[self._store.algorithms.get(segment, f.PREFERRED)]
        if kind != f.RUN or checksum(data[at + 4 : at + length]) != crc:
            raise self._corrupt(segment, offset)
        return data, at + f.RECORD.size, flags

    def _have(self, segment: int, offset: int, n: int) -> int | None:
        """Makes n bytes at offset available; returns their index in the data. None: no such segment."""
        at = offset - self._start
        if segment == self._segment and at >= 0 and at + n <= len(self._data):
            return at
        store = self._store
        file = store.acquire(segment, known=True)
        if file is None:
            return None
        try:
            with store.guard("read the journal"):
                data = read_all(file, max(n, self.size), offset)
        finally:
            store.release(segment)
        if len(data) < n:
            raise self._corrupt(segment, offset)
        # What lies behind a run is mostly the next one that is asked for.
        self._segment, self._start, self._data = segment, offset, data
        self.bytes_read += len(data)
        return 0

    @staticmethod
    def _corrupt(segment: int, offset: int) -> CorruptJournal:
        return CorruptJournal(f"{segment_name(segment)}: damaged record at offset {offset}; {f.ADVICE}")
