"""A way out of every damaged folder: what of it is readable goes to a new one, and what is lost is said.

The log is replayed as at a start, by the same code, over whatever the wreck gives; losses are noted, not refused.
Which records are missing is known by their lsns (no gaps within a slot), whose they were sometimes
by what is left of them. Lost acknowledgements bring their messages back; lost messages are lost.

Rule: the old folder is not touched. Nothing is left out in silence: every byte that does not check, every missing
segment, number, body or queue has its line. Of small state it knows names and numbers of queues, and where numbering
goes on.
"""

# Example. As in inspect.py: a damaged RUN at offset 507 of segment 1, and the record that made queue 1 is lost as well.
#     scan        goes on behind each damaged place. Slot 1's items end with lsn 2 and go on with 4: lsn 3 is missing,
#                 and between the two something is hurt, so it counts as lost. Without damage there: freed, and right
#     remnants    the head of what is at 507 still adds up to a RUN: "messages 2–2"
#     queues      message 3 says that it is in queue 1, of which nothing tells more. Alone in it, and its address has no
#                 queue of its name: so it was most likely that one, and this is said as a note
#     new folder  message 3, the queue, and a next id of 3 + 1 + 1,048,576: lost records may have given out some, and
#                 consumers may hold them
#     told        kept: 1 message. LOST: the record (102 bytes), message 2, lsn 3 of slot 1. What was acknowledged in
#                 lost records comes again

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from struct import error as StructError
from typing import Final, Protocol

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal
from broker.core.message import TRANSIENT
from broker.core.records import MetaRecord, RunRecord
from broker.seams.files import Files

from ..bodies.bodies import PIECE, BodyFile
from ..log import format as f
from ..log.appender import Appender
from ..log.live_index import LiveIndex, SegmentUsage
from ..log.store import Store, segment_name
from ..recovery.live_messages import Living
from ..recovery.recovery import RecoveryScan
from ..replica.seeds import parts_of
from .builder import Builder
from .damaged_folder import DamagedFolder, Piece

_AHEAD: Final = 1 << 20
"""Ids and queue numbers that may have been given out by records that are lost."""
Key = tuple[int, int]
"""(slot, queue)"""


class SalvageSink(Protocol):
    """Where what lives goes (builder.py, transcript.py)."""

    def has_body(self, id: int) -> bool: ...
    def body(self, id: int, pieces: Iterable[bytes]) -> None:
        """A large body, before the run that names it."""
        ...

    def run(self, record: RunRecord) -> None:
        """Its messages live in all its queues."""
        ...

    def finish(self, metas: Iterable[MetaRecord], clean: bool) -> None:
        """`clean`: nothing of what is here may have been delivered."""
        ...


class Salvaged:
    """kept   messages by queue.    lost   what is not, a line each.    notes   what else is worth knowing."""

    def __init__(self) -> None:
        self.kept: dict[str, int] = {}
        self.lost: list[str] = []
        self.notes: list[str] = []

    def lines(self) -> Iterator[str]:
        for name, count in sorted(self.kept.items()):
            yield f"kept: {count} messages of {name}"
        for line in self.lost:
            yield f"LOST: {line}"
        for line in self.notes:
            yield f"note: {line}"
        if self.lost:
            yield "note: what was acknowledged in lost records is delivered again"
        yield f"{sum(self.kept.values())} messages kept; {len(self.lost) or 'no'} losses"


class Remains(RecoveryScan):
    """A scan that takes what there is, and says what is missing.

    missing   segments that should be there.    snapshot   segment where the small state begins that counts; 0: none."""

    def __init__(self, store: Store, live_index: LiveIndex, wreck: DamagedFolder, report: Salvaged) -> None:
        super().__init__(store, live_index, Appender(live_index, store.disk_id, store.settings.segment_bytes))
        self.missing: list[int] = []
        self.snapshot = 0
        self._wreck = wreck
        self._report = report
        self._hurt: set[int] = set()
        self._seen: dict[int, int] = {}
        """slot → segment with its last item so far."""
        self._gaps: list[tuple[int, int, int, int, int]] = []
        """(slot, first lsn that is missing, last one, segment of the item before, segment of the one behind) …"""

    def run(self, numbers: list[int]) -> None:
        # Recovery takes gaps between segments for freed ones; here each is looked at, and only those next to damage
        # are losses.
        self._joined = True  # every gap comes to _jump()
        for piece in self._wreck.pieces():
            usage = self._live_index.open_segment(piece.number, len(piece.data))
            before = list(self._logs.next)
            for start, end in _places(piece):
                if end:
                    self._read_batch(usage, piece.data, start, end)
                else:
                    self._pending = None  # a snapshot that is not whole replaces nothing
            self._seen |= {slot: piece.number for slot, lsn in enumerate(self._logs.next) if lsn != before[slot]}
            self._note(piece, piece.number == numbers[-1])
        self.missing = [number for number, _ in self._listing if number not in self._live_index.segments]
        self._hurt |= set(self.missing)
        self._report.lost += [f"{segment_name(number)}: the segment is missing" for number in self.missing]
        self.recovered.judge(clean=self._last_kind == f.CLEAN and not self._report.lost)
        self.snapshot = self._appender.snapshot_segment
        if self._last_kind != f.CLEAN:
            self._report.notes.append(
                "the log does not end with a clean close: if newer segments are missing, nothing here knows of them"
            )
        self._live_index.forget_idle_blobs()

    def _note(self, piece: Piece, last: bool) -> None:
        end = max((end for _, end in piece.stretches), default=0)
        for bad in piece.bad:
            # At the very end a torn write looks like damage, and nobody can tell them apart: said as a note, not
            # counted as a loss.
            if bad.loss and last and end and bad.offset >= end and not bad.short:
                self._report.notes.append(f"{bad}: the end of the log, a write of which nobody was told, or damage")
            elif bad.loss:
                self._hurt.add(piece.number)
                self._report.lost.append(str(bad))
            else:
                self._report.notes.append(str(bad))

    def _jump(self, usage: SegmentUsage, offset: int, slot: int, lsn: int) -> None:
        due = self._logs.next[slot]
        if due and lsn > due:
            self._gaps.append((slot, due, lsn - 1, self._seen.get(slot, usage.number), usage.number))

    def lost_items(self) -> Iterator[tuple[int, int, int]]:
        """(slot, first, last lsn) of items that are missing, and not because their segment was freed."""
        for slot, first, last, before, here in self._gaps:
            # Lsns may be missing because compaction has freed their segment, rightly. A loss is one where something
            # was hurt between the item before and the item behind.
            if any(before <= number <= here for number in self._hurt):
                yield slot, first, last


def _places(piece: Piece) -> list[tuple[int, int]]:
    """Good stretches (start, end) and bad places (offset, 0) in order."""
    return sorted([*piece.stretches, *((bad.offset, 0) for bad in piece.bad if bad.loss)])


def salvage(files: Files, source: str, target: str, settings: JournalSettings) -> Salvaged:
    """Makes the folder `target` from all that can be read of `source`. Raises JournalError, with nothing changed, when
    a broker holds the one, the other is not empty, or nothing says whose journal it is."""
    report = Salvaged()
    with remains(files, source, report) as (wreck, scan, live_index):
        builder = Builder(files, target, settings)
        try:
            carry(scan, wreck, live_index, files, source, builder, report)
        except BaseException:
            builder.abandon()
            raise
    return report


@contextmanager
def remains(files: Files, source: str, report: Salvaged) -> Iterator[tuple[DamagedFolder, Remains, LiveIndex]]:
    """The folder, read once."""
    store = Store(files, source, JournalSettings())
    with closing(DamagedFolder(files, store)) as wreck:
        report.notes += wreck.notes
        live_index = LiveIndex()
        scan = Remains(store, live_index, wreck, report)
        scan.run(wreck.numbers)
        yield wreck, scan, live_index


def carry(
    scan: Remains,
    wreck: DamagedFolder,
    live_index: LiveIndex,
    files: Files,
    source: str,
    sink: SalvageSink,
    report: Salvaged,
) -> None:
    """Everything that lives goes to the sink."""
    queues = Queues(scan)
    living = Living(live_index)
    for piece in wreck.pieces():
        report.lost += _remnants(piece, queues)
        for record in _runs(piece, living, scan, queues):
            if not _bodily(record, files, source, sink, queues, report):
                continue
            sink.run(record)
            for queue in record.queues:
                name = queues.name((record.slot, queue))
                report.kept[name] = report.kept.get(name, 0) + len(record.run.ids)
    for slot, first, last in scan.lost_items():
        report.lost.append(
            f"slot {slot}: records {first}–{last} ({last - first + 1}: messages, acknowledgements or small state) "
            f"of {queues.of_slot(slot)}"
        )
    report.lost += queues.dropped()
    report.notes += queues.made_up()
    sink.finish(queues.metas(bool(report.lost)), scan.recovered.clean)


def _runs(piece: Piece, living: Living, scan: Remains, queues: Queues) -> Iterator[RunRecord]:
    """What lives in this segment, once per set of queues that hold it."""
    floors = scan.recovered.floors
    for start, end in piece.stretches:
        for at, _, kind, flags, slot, _, _ in f.records_in(piece.data, start, end):
            position = piece.number << 32 | at - f.RECORD.size
            if kind != f.RUN or piece.data[at + f.RUN_FIXED.size - 1] & TRANSIENT or position < floors.get(slot, 0):
                continue
            found = living.of(piece.data, at, flags, slot, position, bodies=True)
            if found is None:
                continue
            # Once per set of queues, so that no settle is needed in the new folder.
            for record in parts_of(*found):
                if held := queues.exist(record, piece.number):
                    yield RunRecord(slot, record.address, held, record.run, record.dispatched, record.dedup)


def _bodily(record: RunRecord, files: Files, source: str, sink: SalvageSink, queues: Queues, report: Salvaged) -> bool:
    """Takes the large body along, if there is one. False: it is lost, and with it the message."""
    blob = record.run.blob
    if blob is None or sink.has_body(blob.id):
        return True
    names = ", ".join(queues.name((record.slot, queue)) for queue in record.queues)
    try:
        body = BodyFile(files.open(f"{source}/blobs/{blob.id:016x}"), f"large body {blob.id:016x}", blob.length)
    except OSError as error:
        why = "missing" if isinstance(error, FileNotFoundError) else f"lost: {error.strerror}"
        report.lost.append(f"{names}: message {record.run.ids[0]}: its large body {blob.id:016x} is {why}")
        return False
    try:
        at = 0
        while at < blob.length:
            at = body.check(at)
        sink.body(blob.id, (body.read(at, PIECE) for at in range(0, blob.length, PIECE)))
    except CorruptJournal as error:
        report.lost.append(f"{names}: message {record.run.ids[0]}: {error}")
        return False
    finally:
        body.close()
    return True


class Queues:
    """What small state says of queues, and what messages say of those it has lost."""

    def __init__(self, scan: Remains) -> None:
        self._metas = scan.recovered.metas
        self._snapshot = scan.snapshot
        self._known: dict[Key, str] = {}
        self._gone: set[Key] = set()
        self._made: dict[Key, tuple[str, bool]] = {}
        self._dropped: dict[Key, int] = {}
        self._last: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        for meta in self._metas:
            if meta.kind in ("queue", "estate"):
                self._known[meta.slot, meta.data["id"]] = meta.data["name"]
                self._gone.discard((meta.slot, meta.data["id"]))
            elif meta.kind == "unqueue":
                self._known.pop((meta.slot, meta.data["id"]), None)
                self._gone.add((meta.slot, meta.data["id"]))

    def exist(self, record: RunRecord, segment: int) -> list[int]:
        """Those of the record's queues that are to be there. One that nobody has heard of is made up, unless a later
        snapshot did not know it either: then it had been deleted."""
        slot, ids = record.slot, record.run.ids
        self._last[slot] = max(self._last.get(slot, 0), ids[-1])
        held: list[int] = []
        for queue in record.queues:
            key = (slot, queue)
            self._numbers[slot] = max(self._numbers.get(slot, 0), queue)
            if key not in self._known:
                if key in self._gone or segment < self._snapshot:
                    self._dropped[key] = self._dropped.get(key, 0) + len(ids)
                    continue
                # A guess, and told as such: a message in one queue, whose address has no queue of its name, was most
                # likely in that one.
                anycast = len(record.queues) == 1 and not any(
                    name == record.address for (of, _), name in self._known.items() if of == slot
                )
                self._known[key] = record.address if anycast else f"salvaged-{slot}-{queue}"
                self._made[key] = record.address, anycast
            held.append(queue)
        return held

    def name(self, key: Key) -> str:
        return self._known.get(key, f"queue {key[1]} of slot {key[0]}")

    def of_slot(self, slot: int) -> str:
        names = sorted(name for (of, _), name in self._known.items() if of == slot)
        return ", ".join(names) or "queues of which nothing else is known"

    def dropped(self) -> list[str]:
        """Messages of queues that had been deleted, by what is left of the log."""
        return [f"{n} messages of queue {q} of slot {s}, which was deleted" for (s, q), n in self._dropped.items()]

    def made_up(self) -> list[str]:
        return [
            f"what queue {key[1]} of slot {key[0]} was is lost: its messages are in {address}::{self._known[key]}"
            for key, (address, _) in self._made.items()
        ]

    def metas(self, lossy: bool) -> Iterable[MetaRecord]:
        """All small state, for the new folder."""
        yield from self._metas
        for (slot, queue), (address, anycast) in self._made.items():
            yield MetaRecord(slot, "queue", {
                "id": queue, "name": self._known[slot, queue], "address": address,
                "routing": 1 if anycast else 2, "auto": False, "subscription": not anycast, "hidden": False,
                "selector": None, "owed": 0,
            })  # fmt: skip
        for slot, last in self._last.items() if lossy else ():
            # Lost records may have used up more.
            # Ids that were given out by lost records must not come again: a consumer may still hold them, and
            # duplicates are known by them.
            yield MetaRecord(slot, "ids", {"next": last + 1 + _AHEAD})
            yield MetaRecord(slot, "queues", {"next": self._numbers[slot] + 1 + _AHEAD})


def _remnants(piece: Piece, queues: Queues) -> Iterator[str]:
    for bad in piece.bad:
        if bad.record is not None and (known := _remnant(piece, *bad.record)) is not None:
            names = ", ".join(queues.name((known.slot, queue)) for queue in known.queues)
            first, last, place = (
                known.run.ids[0],
                known.run.ids[-1],
                f"{segment_name(bad.segment)}: offset {bad.offset}",
            )
            yield f"{names}: messages {first}–{last}, by what is left of the record's header ({place})"


def _remnant(piece: Piece, offset: int, length: int) -> RunRecord | None:
    """What a damaged record says it was, if that adds up."""
    at = offset + f.RECORD.size
    _, _, kind, flags, slot, *_ = f.RECORD.unpack_from(piece.data, offset)
    if kind != f.RUN:
        return None
    try:
        record = f.read_run(piece.data, at, flags, slot, bodies=False, size=length)
    except (StructError, ValueError, IndexError, OverflowError, CorruptJournal):
        return None
    return record if 0 < len(record.run.ids) < length and len(record.queues) < length else None
