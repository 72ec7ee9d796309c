"""The log as archives read it: the items of many slots in one pass, as bytes.

The log belongs to all slots, so who wants many of them slot by slot passes over everything once per slot (history.py).
A scan passes once, and hands on records as they stand: the reader takes them apart.

Rule: of each slot never a gap, as of a Cursor. A turn looks at so many records and no more; file bytes are read by
fill(), in a thread. Must not know what rows are, nor who may see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.core.errors import OffsetExpired

from ..log import format as f
from ..log.store import Store
from .history import Ahead, History, Place, Records, _Short

_HEAD: Final = f.RECORD.size
_ITEMS: Final = (f.RUN, f.SETTLE, f.META)


class SlotPart:
    """A slot: what is due, where it ends, the epoch of what came last. `cut`: something behind its end was passed."""

    __slots__ = ("cut", "due", "epoch", "until")

    def __init__(self, due: int, until: int, epoch: int) -> None:
        self.due = due
        self.until = until
        self.epoch = epoch
        self.cut = False


class FoundRecord(NamedTuple):
    """A record in `Scan.data`, from its head on. lsn 0: a MetaRecord of a snapshot: what queues there are."""

    slot: int
    lsn: int
    kind: int
    flags: int
    at: int
    end: int


class Scan(Records):
    """parts   slot → Part; done when `left` is 0."""

    __slots__ = ("_floors", "left", "parts")

    def __init__(self, store: Store, parts: dict[int, SlotPart], place: Place, floors: Mapping[int, int]) -> None:
        super().__init__(store, place)
        self.parts = parts
        self.paced = True
        self._floors = floors
        # Counted down by _item: no record costs a look at all parts.
        self.left = sum(part.due < part.until for part in parts.values())

    @property
    def data(self) -> bytes:
        """Where the last Found are, until fill()."""
        return self._data

    def _wanted(self, slot: int) -> bool:
        return slot in self.parts

    def _gone(self) -> OffsetExpired:
        slot, part = next((pair for pair in self.parts.items() if pair[1].due < pair[1].until), (0, SlotPart(1, 1, 0)))
        return OffsetExpired(slot, part.due, part.due + 1)

    def read(self, ahead: Ahead, most: int) -> list[FoundRecord]:
        """The next items, of `most` records of the log; may be none though there are more (see `left`, `thirsty`).

        Raises OffsetExpired | CorruptJournal | JournalDead."""
        found: list[FoundRecord] = []
        self.thirsty = False
        while self.left and most > 0:
            try:
                record = self._next(ahead)
            except _Short:
                self.thirsty = True
                break
            if record is None:
                # What was found points into the bytes in memory: they go to the caller before the next segment's
                # replace them.
                if found or not self._follow(ahead):  # to follow lets the bytes go
                    break
                most -= 1
            else:
                most -= self._batch(record[0] - _HEAD, ahead, most, found)
        return found

    def _batch(self, at: int, ahead: Ahead, most: int, found: list[FoundRecord]) -> int:
        """Records of one batch, as far as they are in memory. Returns how many, at least 1."""
        segment, _, batch_end = self.place
        data, parts, unpack = self._data, self.parts, f.RECORD.unpack_from
        start = self._start
        base = segment << 32
        # As far as the memory, the batch and the disk go.
        limit = min(len(data), batch_end - start, ahead.durable - base - start)
        checksum = f.CHECKSUMS[self._store.algorithms.get(segment, f.PREFERRED)]
        count = 0
        while count < most and at + _HEAD <= limit:
            crc, length, kind, flags, slot, epoch, lsn = unpack(data, at)
            end = at + _HEAD + length
            if kind == f.GROUP or slot in parts:
                if end > limit:
                    break
                if kind == f.GROUP or kind in _ITEMS:
                    # Of the slots asked for only: others' rot is theirs to find.
                    if checksum(data[at + 4 : end]) != crc:
                        raise self._corrupt(start + at)
                    position = base | start + at
                    if kind == f.GROUP:
                        count += self._group(at, end, position, ahead, found)
                    else:
                        self._item(slot, epoch, lsn, kind, flags, at, end, position, ahead, found)
            count += 1
            at = end
            if not self.left:
                break
        self.place = Place(segment, start + at, batch_end)
        # A record that does not fit the memory counts as well, or a loop of `most` would not end.
        return count or 1

    def _group(self, at: int, end: int, position: int, ahead: Ahead, found: list[FoundRecord]) -> int:
        """Records that count together. Returns how many."""
        count = 0
        for offset, length, kind, flags, slot, epoch, lsn in f.records_in(self._data, at + _HEAD, end):
            count += 1
            if slot in self.parts and kind in _ITEMS:
                self._item(slot, epoch, lsn, kind, flags, offset - _HEAD, offset + length, position, ahead, found)
        return count

    def _item(
        self, slot: int, epoch: int, lsn: int, kind: int, flags: int, at: int, end: int, position: int, ahead: Ahead,
        found: list[FoundRecord],
    ) -> None:  # fmt: skip
        if self._floors and position < self._floors.get(slot, 0):
            return
        if not lsn:
            if kind == f.META and not flags:
                found.append(FoundRecord(slot, 0, kind, flags, at, end))
            return
        part = self.parts[slot]
        if lsn < part.due:
            return
        if lsn >= part.until:
            part.cut = True
            return
        if lsn > part.due:
            raise OffsetExpired(slot, part.due, max(ahead.earliest, lsn))
        part.due = lsn + 1
        part.epoch = epoch
        self.left -= part.due == part.until
        found.append(FoundRecord(slot, lsn, kind, flags, at, end))


def scan(history: History, parts: dict[int, SlotPart]) -> Scan:
    """From offsets that check() has allowed."""
    places = [history.cursor(slot, part.due).place for slot, part in parts.items() if part.due < part.until]
    return Scan(history.store, parts, min(places, default=Place(0)), history.floors)


def remember(history: History, scan: Scan) -> None:
    """A reader will probably go on where this has ended."""
    for slot, part in scan.parts.items():
        if not part.cut:
            history.remember_at(slot, part.due, scan.place)
