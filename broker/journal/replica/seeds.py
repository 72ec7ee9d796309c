"""Reading all that lives in one slot, while the log goes on: copies for new replicas, and surveys for standbys.

Rule: what is read is what lived at the moment of the call, whatever is settled or moved meanwhile: the index of
the slot are copied and the segments pinned. Made in the loop's thread, read in one other thread.
Must not know streams.

Memory: the copied ranges (24 bytes each), 16 bytes per live run, and one batch. The segments that hold something
of the slot are read once to find its runs, and these once more. The log belongs to all slots, so surveys of many slots
that are wanted at the same time are read in one pass (read_together).
"""

# Example. Slot 9 gets a new replica while it is in use; its log stands at lsn 500.
#     made    loop thread: the index of the slot is copied, lsn 500 and the lineage noted, the segments with
#             something alive pinned. From here on what is settled or moved changes the real index only
#     read    another thread: small state first, then what the copied index says is alive, by ascending ids (I7), as
#             records without lsn
#     then    the leader sends items 501 … behind it. A message settled by 501 was in the copy, and its settle comes:
#             right. A message that compaction moved is read at its old place, which is pinned
# Without the pin compaction could remove the file; without the copy of the index the result would be of no moment at
# all.

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from broker.core.errors import JournalError
from broker.core.message import TRANSIENT
from broker.core.records import MetaRecord, RunRecord, SettleRecord
from broker.core.spans import spans_of

from ..compaction.split import by_queues, part_of
from ..log import format as f
from ..log.appender import Appender
from ..log.lineage import Lineage
from ..log.live_index import LiveIndex
from ..log.reader import Chunk
from ..log.store import Store
from ..log.walk import walk
from ..recovery.live_messages import Living, Settled

_AHEAD: Final = 256 * 1024
"""Bytes read at once when runs are read by position."""


class SlotReader:
    """The live runs of a slot.

    lineage, lsn   where the slot's log stood at the call: items behind `lsn` complete what is read.
    durable        all of it is on disk and may be read: so it is once what was appended before the call is."""

    def __init__(self, slot: int, store: Store, live_index: LiveIndex, appender: Appender) -> None:
        self.lineage: Lineage = appender.logs.whole(slot)
        self.lsn = max(appender.logs.next[slot] - 1, 0)
        self._slot = slot
        self._store = store
        self._live_index = live_index
        self._view = view = live_index.view(slot)
        self._living = Living(view)
        # Which segments hold something of it: the index knows, so the others are not opened.
        self._numbers = sorted({piece[2] for ranges in view.queues.values() for piece in ranges.pieces()})
        self._floor = appender.logs.floors.get(slot, 0)
        self._end = appender.segment << 32 | appender.offset
        self._closed = False
        self._pinned = [live_index.segments[number] for number in self._numbers]
        with store.lock:
            for usage in self._pinned:
                usage.pin()
            # Bodies too: the follower asks for them one by one, later than for the run that names them.
            live_index.pin_blobs()

    @property
    def segments(self) -> Sequence[int]:
        """Where it looks."""
        return self._numbers

    @property
    def durable(self) -> bool:
        return self._store.durable >= self._end

    def close(self) -> None:
        """Lets the segments go. Any thread, when no read() is under way."""
        with self._store.lock:
            if self._closed:
                return
            self._closed = True
            for usage in self._pinned:
                usage.unpin()
            self._live_index.unpin_blobs()

    def _found(self, checked: bool, bodies: bool = False) -> Iterator[tuple[RunRecord, Settled]]:
        """In log order. Raises CorruptJournal | JournalDead, JournalError when it is too early."""
        self._may_read()
        for number in self._numbers:
            # In the last segment no further than the log reached when this was made.
            end = self._end & 0xFFFFFFFF if number == self._end >> 32 else 0
            for start, records in walk(self._store, number, end, checked):
                base = number << 32 | start
                for at, _, kind, flags, slot, _, _ in f.records_in(records, 0, len(records)):
                    if kind == f.RUN and slot == self._slot and (
                        found := self._run(records, at, flags, base + at - f.RECORD.size, bodies)
                    ):  # fmt: skip
                        yield found

    def _may_read(self) -> None:
        if not self.durable:
            raise JournalError(f"slot {self._slot}: what is to be read is not durable yet")

    def _run(
        self, data: bytes, at: int, flags: int, position: int, bodies: bool = False
    ) -> tuple[RunRecord, Settled] | None:
        """This run of the slot, if something of it lives."""
        if not self._floor <= position < self._end:
            return None
        if data[at + f.RUN_FIXED.size - 1] & TRANSIENT:
            self._passing(data, at, flags, position)
            return None
        return self._living.of(data, at, flags, self._slot, position, bodies)

    def _passing(self, data: bytes, at: int, flags: int, position: int) -> None:
        """A run that does not outlast who leads the slot."""


class Survey(SlotReader):
    """For a standby: runs without bodies, as recovery gives them.

    strays   what does not last, and lives on nevertheless in the index of a process that leads the slot no more: its
             end, to be appended (nothing is written) when all has been read."""

    _rest: Iterator[tuple[RunRecord, Settled]] | None = None

    def __init__(self, slot: int, store: Store, live_index: LiveIndex, appender: Appender) -> None:
        super().__init__(slot, store, live_index, appender)
        self.strays: list[SettleRecord] = []

    def _passing(self, data: bytes, at: int, flags: int, position: int) -> None:
        if (found := self._living.of(data, at, flags, self._slot, position)) is not None:
            record, _ = found
            spans = spans_of(record.run.ids)
            self.strays += [SettleRecord(self._slot, queue, spans, durable=False) for queue in record.queues]

    def read(self, count: int) -> list[tuple[RunRecord, Settled]] | None:
        """The next `count` runs by ascending first id; None: there are no more."""
        if self._rest is None:
            self._has(self._found(checked=True))
        assert self._rest is not None
        return list(islice(self._rest, count)) or None

    def _has(self, found: Iterable[tuple[RunRecord, Settled]]) -> None:
        # A standby takes runs in the order of ids; the log has copies out of order. Without bodies they are small.
        self._rest = iter(sorted(found, key=lambda found: found[0].run.ids[0]))


def read_together(surveys: Sequence[Survey]) -> None:
    """One pass over the log for all of them; what each then hands out has been read. Before the first read() of any, in
    the same thread. Raises as read() does."""
    found: dict[Survey, list[tuple[RunRecord, Settled]]] = {survey: [] for survey in surveys}
    for survey in surveys:
        survey._may_read()
    # After a crash of an owner 100 slots may want a standby at once. One pass each would read the log 100 times.
    for number in sorted({number for survey in surveys for number in survey._numbers}):
        here: dict[int, list[Survey]] = {}
        for survey in surveys:
            if number in survey._numbers:
                here.setdefault(survey._slot, []).append(survey)
        last = max(survey._end for some in here.values() for survey in some)
        end = last & 0xFFFFFFFF if number == last >> 32 else 0
        for start, records in walk(surveys[0]._store, number, end):
            base = number << 32 | start
            for at, _, kind, flags, slot, _, _ in f.records_in(records, 0, len(records)):
                if kind != f.RUN or slot not in here:
                    continue
                for survey in here[slot]:
                    if run := survey._run(records, at, flags, base + at - f.RECORD.size):
                        found[survey].append(run)
    for survey, runs in found.items():
        survey._has(runs)


class SeedReader(SlotReader):
    """For a new replica: first the small state, then what lives, as records for append_seed."""

    def __init__(
        self, slot: int, store: Store, live_index: LiveIndex, appender: Appender, metas: Sequence[MetaRecord]
    ) -> None:
        super().__init__(slot, store, live_index, appender)
        self._epoch = appender.logs.epochs[slot]
        self._checksum = f.CHECKSUMS[f.PREFERRED]
        self._items = self._all(metas)

    def read(self, budget: int) -> list[bytes] | None:
        """Items of about `budget` bytes together, at least one; None: there are no more."""
        items: list[bytes] = []
        for item in self._items:
            items.append(item)
            budget -= len(item)
            if budget <= 0:
                break
        return items or None

    def _all(self, metas: Sequence[MetaRecord]) -> Iterator[bytes]:
        for meta in metas:
            yield self._item(f.META, 0, f.meta_payload(meta.kind, meta.data))
        chunk = Chunk(self._store, _AHEAD)
        for position in self._positions():
            place = chunk.record(position)
            assert place is not None  # its segment is pinned
            data, at, flags = place
            found = self._living.of(data, at, flags, self._slot, position, bodies=True)
            assert found is not None  # nothing changes in a view
            for part in parts_of(*found):
                flags, payload = f.run_payload(part, copy=True)
                yield self._item(f.RUN, flags, payload)

    def _item(self, kind: int, flags: int, payload: list[bytes]) -> bytes:
        return b"".join(f.record(kind, flags, self._slot, self._epoch, 0, payload, self._checksum))

    def _positions(self) -> Iterator[int]:
        """Of the live runs, by ascending first id. Compaction has put some behind younger ones."""
        firsts, positions = array("Q"), array("Q")
        # Without compaction they are, and nothing has to be sorted.
        in_order = True
        for record, _ in self._found(checked=False):  # each record is checked when it is read
            first = record.run.ids[0]
            in_order = in_order and (not firsts or firsts[-1] < first)
            firsts.append(first)
            positions.append(record.run.position)
        if in_order:
            return iter(positions)
        return (positions[i] for i in sorted(range(len(firsts)), key=firsts.__getitem__))


def parts_of(record: RunRecord, settled: Settled) -> Iterator[RunRecord]:
    """The live messages, once per set of queues that still hold them."""
    holders: dict[int, tuple[int, ...]] = {}
    for queue in record.queues:
        gone = settled.get(queue, ())
        for message in record.run.ids:
            if not any(first <= message <= last for first, last in gone):
                holders[message] = (*holders.get(message, ()), queue)
    for queues, indices in by_queues(record.run, holders):
        run = part_of(record.run, indices)
        yield RunRecord(record.slot, record.address, queues, run, record.dispatched, record.dedup)
