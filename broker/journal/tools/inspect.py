"""The offline tool: look at a journal, show it, mend it on an explicit order.

Rule: works only on a folder no broker holds; verify and dump change nothing; repair changes what it was told
to, after keeping a copy. Must not know command lines: it takes paths and returns lines or dicts.
"""

# Example. A bit of message 2 has flipped on the disk, in batch 3 of segment 1: a RUN (its message) and a SETTLE.
#     verify    "0000000000000001.log: damaged record at offset 507". Batch 4 behind it is whole, so these bytes were
#               synced once: damage, and not the torn end of the last write. The broker refuses to start
#     dump      a row for each record; of batch 3 none from 507 on. Behind the last batch {"offset": 507, "error": …}
#     repair    1:507. The damaged record is 102 bytes long, and behind it a chain of good ones begins at 609 (the
#               SETTLE). So a VOID of 102 bytes is written over it, and the batch's header anew; no other byte moves,
#               since positions of records are what others hold. The segment as it was stays as …log.broken
#     verify    whole. Message 2 is lost; message 1, whose SETTLE this was, stays settled

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal, JournalError
from broker.core.message import Blob
from broker.seams.files import Files

from ..bodies.bodies import BodyFile
from ..log import format as f
from ..log.appender import Appender
from ..log.live_index import LiveIndex
from ..log.store import Store, read_all, read_identity, segment_name, write_all
from ..recovery.recovery import RecoveryScan

_RECORD_MIN: Final = f.RECORD.size
_WAY_OUT: Final = "; `stampede journal salvage` keeps everything that can be read, in a new folder"


class Report:
    """What verify found. `ok`: the broker would start and serve everything that was ever told.

    `damaged`: (segment, offset) pairs to hand to repair."""

    def __init__(self) -> None:
        self.ok = True
        self.lines: list[str] = []
        self.damaged: list[tuple[int, int]] = []

    def bad(self, line: str) -> None:
        self.ok = False
        self.lines.append(line)


class Segment:
    """The raw contents of one segment: batches that parse, and places that do not.

    batches   (offset, number, bytes of records, count).    bad   (offset, what is wrong).
    tail      offset behind the last valid batch.
    """

    def __init__(self, number: int, data: bytes, algorithm: int, seed: int) -> None:
        self.number = number
        self.data = data
        self.checksum = f.CHECKSUMS[algorithm]
        self.used = f.used_bytes(data)
        self.batches: list[tuple[int, int, int, int]] = []
        self.bad: list[tuple[int, str]] = []
        self.tail = f.SEGMENT_BYTES
        while self.tail < self.used:
            batch = f.parse_batch(data, self.tail, number, seed)
            if batch is None:
                # A later good batch proves that these bytes were synced once: damage. None: the torn end of the last
                # write.
                later = f.find_batch(data, self.tail + 1, number, seed)
                if later is None:
                    break
                self.bad.append((self.tail, "damaged batch header"))
                self.tail = later[0]
                continue
            at, (count_of, length, count) = self.tail, batch
            self.batches.append((at, count_of, length, count))
            self.tail = at + f.BATCH.size + length
            bad = f.bad_record(data, at + f.BATCH.size, self.tail, count, self.checksum)
            if bad >= 0:
                self.bad.append((bad, "damaged record"))


@contextmanager
def _held(files: Files, folder: str) -> Iterator[tuple[Store, list[int]]]:
    """The folder, locked. Raises JournalError when it is no journal or a broker holds it."""
    store = Store(files, folder, JournalSettings())
    names = files.listdir(folder)
    numbers = store.numbers(names)
    if "identity" not in names:
        more = _WAY_OUT if numbers else ""
        raise JournalError(f"{folder}: no journal here (there is no `identity` file){more}")
    # A broker that runs changes what would be judged here; its lock says so.
    store.acquire_lock()
    try:
        store.identify(read_identity(files, folder))
        yield store, numbers
    finally:
        store.close()


def verify(files: Files, folder: str) -> Report:
    """Checks every byte that counts. Changes nothing. Raises JournalError when a broker holds the folder."""
    report = Report()
    try:
        with _held(files, folder) as (store, numbers):
            report.lines.append(f"disk {store.disk_id.hex()}, {len(numbers)} segments")
            before: Segment | None = None
            for number in numbers:
                segment = _verify_segment(store, number, number == numbers[-1], report)
                if before is not None and segment is not None:
                    _verify_joint(before, segment, report)
                before = segment
            # The scan stops at the first damage, and bytes that are damaged have been reported by then.
            if report.ok:
                _verify_whole(store, numbers, report)
    except CorruptJournal as error:
        report.bad(str(error))
    return report


def _verify_joint(before: Segment, segment: Segment, report: Report) -> None:
    """Neighbours have consecutive batch numbers; segments in between may have been freed."""
    # With a hole in the log between them, or a bad end already reported, numbers need not follow one another.
    if segment.number != before.number + 1 or not segment.batches or before.used > before.tail:
        return
    due = before.batches[-1][1] + 1 if before.batches else 0
    if due and segment.batches[0][1] != due:
        missing = f"batches {due}–{segment.batches[0][1] - 1} are missing at offset {before.tail}"
        report.bad(f"{segment_name(before.number)}: {missing}")
        report.damaged.append((before.number, before.tail))


def _verify_segment(store: Store, number: int, last: bool, report: Report) -> Segment | None:
    name = segment_name(number)
    try:
        data = store.load(number)
    except CorruptJournal as error:
        report.bad(str(error))
        report.damaged.append((number, 0))
        return None
    segment = Segment(number, data, store.algorithms[number], f.seed_of(store.disk_id))
    for offset, what in segment.bad:
        # Of the very last write nobody was told: no loss, and the next start cuts it by itself.
        if last and offset >= _last_batch(segment):
            report.lines.append(f"{name}: torn tail at offset {offset}; the next start keeps it aside and cuts it")
        else:
            report.bad(f"{name}: {what} at offset {offset}")
            report.damaged.append((number, offset))
    if segment.used > segment.tail:
        rest = f"{segment.used - segment.tail} bytes behind the last batch at offset {segment.tail}"
        if last:
            report.lines.append(f"{name}: {rest}: a torn tail; the next start keeps it aside and cuts it")
        else:
            report.bad(f"{name}: {rest}")
            report.damaged.append((number, segment.tail))
    span = f"batches {segment.batches[0][1]}–{segment.batches[-1][1]}" if segment.batches else "no batches"
    report.lines.append(f"{name}: {span}, {segment.tail} of {len(data)} bytes used")
    return segment


def _last_batch(segment: Segment) -> int:
    return segment.batches[-1][0] if segment.batches else f.SEGMENT_BYTES


def _verify_whole(store: Store, numbers: list[int], report: Report) -> None:
    """What only shows when the log is read as one: missing segments, missing batches, missing bodies."""
    live_index = LiveIndex()
    scan = RecoveryScan(store, live_index, Appender(live_index, store.disk_id, store.settings.segment_bytes))
    scan.run(numbers)
    bodies: dict[int, Blob] = {}
    runs = 0
    for record, _ in scan.recovered.runs():
        runs += 1
        if record.run.blob is not None:
            bodies[record.run.blob.id] = record.run.blob
    live = sum(usage.live for usage in live_index.segments.values())
    found = set(store.files.listdir(store.path("blobs")))
    for ref in live_index.blobs.values():
        if not ref.refs:
            continue
        if f"{ref.id:016x}" not in found:
            report.bad(f"large body {ref.id:016x} is missing")
        elif ref.id in bodies:
            _verify_body(store, bodies[ref.id], report)
    ending = "closed cleanly" if scan.recovered.clean else "not closed cleanly"
    report.lines.append(f"{live} messages in queues, in {runs} runs; {ending}")


def _verify_body(store: Store, blob: Blob, report: Report) -> None:
    body = BodyFile(store.files.open(store.path(f"blobs/{blob.id:016x}")), f"large body {blob.id:016x}", blob.length)
    try:
        at = 0
        while at < blob.length:
            at = body.check(at)
    except CorruptJournal as error:
        report.bad(str(error))
    finally:
        body.close()


def dump(files: Files, folder: str, bodies: bool = False) -> Iterator[dict[str, Any]]:
    """Every record as a dict for JSON, damaged places included; bodies (as Latin-1 text) only when asked for."""
    with _held(files, folder) as (store, numbers):
        for number in numbers:
            try:
                data = store.load(number)
            except CorruptJournal as error:
                yield {"segment": number, "error": str(error)}
                continue
            segment = Segment(number, data, store.algorithms[number], f.seed_of(store.disk_id))
            bad = dict(segment.bad)
            for at, batch, length, count in segment.batches:
                yield {"segment": number, "offset": at, "batch": batch, "records": count}
                start, end = at + f.BATCH.size, at + f.BATCH.size + length
                stop = next((o for o in sorted(bad) if start <= o < end), end)
                for offset, size, kind, flags, slot, epoch, lsn in f.records_in(data, start, stop):
                    row = {"segment": number, "offset": offset - _RECORD_MIN, "kind": f.KINDS.get(kind, kind)}
                    row |= {"slot": slot, "epoch": epoch, "lsn": lsn}
                    yield row | _content(data, offset, size, kind, flags, slot, bodies)
            for offset, what in segment.bad:
                yield {"segment": number, "offset": offset, "error": what}


def _content(data: bytes, at: int, size: int, kind: int, flags: int, slot: int, bodies: bool) -> dict[str, Any]:
    row: dict[str, Any]
    if kind == f.RUN:
        record = f.read_run(data, at, flags, slot, bodies)
        run = record.run
        row = {
            "address": record.address, "queues": list(record.queues), "ids": [run.ids[0], run.ids[-1]],
            "count": len(run.ids), "nbytes": run.nbytes, "flags": run.flags, "priority": run.priority,
            "time": run.time, "expires": run.expires, "dispatched": record.dispatched, "copy": bool(flags & f.COPY),
        }  # fmt: skip
        if run.blob is not None:
            row["blob"] = {"id": run.blob.id, "length": run.blob.length}
        if bodies:
            row["bodies"] = [(run.lines + body).decode("latin-1") for body in run.records]
        return row
    if kind == f.SETTLE:
        settle = f.read_settle(data, at, size, slot, flags)
        row = {"queue": settle.queue, "spans": settle.spans}
        return row | ({"why": settle.why, "at": settle.at} if flags else {})
    if kind == f.META:
        if flags:
            return {"snapshot": "begin" if flags & f.SNAPSHOT_BEGIN else "end"}
        meta = f.read_meta(data, at, size, slot)
        return {"meta": meta.kind, "data": meta.data}
    if kind in (f.EPOCH, f.SEEDED):
        pairs = f.read_pairs(data, at, size)
        row = {} if kind == f.SEEDED else {"void_before": pairs.pop(0)[0], "seeding": bool(flags & f.SEEDING)}
        return row | {"lineage": pairs}
    if kind == f.SEGMENTS:
        return {"pairs": f.read_pairs(data, at, size)}
    return {}


def repair(files: Files, folder: str, drop: tuple[int, int]) -> list[str]:
    """Takes the damaged bytes at `drop` (segment, offset: as verify names them) out of the log, for good.

    Messages or settles that stood there are lost (settled messages may come back). A copy of the segment is kept
    as `<segment>.broken`. Raises JournalError when nothing is damaged there or it cannot be mended."""
    with _held(files, folder) as (store, numbers):
        number, offset = drop
        if number not in numbers:
            raise JournalError(
                f"{segment_name(number)} does not exist; only a replica or a backup can replace it{_WAY_OUT}"
            )
        with store.pinned(number) as file:
            data = read_all(file, file.size(), 0)
        mended, line = _mended(store, number, offset, data)
        # The copy is on the disk before the first byte is changed.
        kept = store.set_aside(number, data)
        with store.pinned(number) as file:
            # As long as the original to the byte: offsets behind the place are positions that others hold.
            write_all(file, mended, 0)
            file.sync()
        return [f"kept a copy: {kept}", line]


def _mended(store: Store, number: int, offset: int, data: bytes) -> tuple[bytes, str]:
    name = segment_name(number)
    seed = f.seed_of(store.disk_id)
    if offset == 0:
        # The header said which checksum; without it both are tried, and only one that makes every batch right is
        # believed.
        for algorithm in f.CHECKSUMS:
            segment = Segment(number, data, algorithm, seed)
            if segment.batches and not segment.bad:
                head = f.segment_header(algorithm, store.disk_id, number, len(data))
                return head + data[f.SEGMENT_BYTES :], f"{name}: wrote the segment header anew; no record is lost"
        raise JournalError(f"{name}: header damaged and its batches do not check either; restore the segment{_WAY_OUT}")
    algorithm, _ = f.parse_segment_header(data, store.disk_id, number, name)
    segment = Segment(number, data, algorithm, seed)
    what = dict(segment.bad).get(offset)
    if what == "damaged record":
        return _void_record(segment, offset, seed)
    if what is not None:
        follow, following = next((b[0], b[1]) for b in segment.batches if b[0] > offset)
        return _void_batches(segment, offset, follow, following, seed)
    following = _first_batch(store, number + 1)
    if offset == segment.tail and following > (segment.batches[-1][1] if segment.batches else following) + 1:
        return _void_batches(segment, offset, 0, following, seed)
    if offset == segment.tail and segment.used > offset:
        rest = bytes(len(data) - offset)
        return data[:offset] + rest, f"{name}: zeroed {segment.used - offset} bytes behind the last batch"
    raise JournalError(f"{name}: nothing is damaged at offset {offset} that could be dropped{_WAY_OUT}")


def _void(length: int, checksum: f.Checksum) -> bytes:
    """A record of this many bytes that means nothing."""
    # A VOID also tells recovery that lsns may be missing (RecoveryScan._jump), which otherwise refuses to start.
    return b"".join(f.record(f.VOID, 0, 0, 0, 0, [bytes(length - _RECORD_MIN)], checksum))


def _void_record(segment: Segment, offset: int, seed: int) -> tuple[bytes, str]:
    """Replaces the record, or the rest of its batch when its end cannot be found."""
    data, checksum = segment.data, segment.checksum
    at, number, length, _ = next(b for b in reversed(segment.batches) if b[0] < offset)
    start, end = at + f.BATCH.size, at + f.BATCH.size + length
    # Quadratic in one batch at worst: an offline tool, on an explicit order, for one place.
    follow = next((o for o in range(offset + _RECORD_MIN, end) if _chain(data, o, end, checksum) > 0), end)
    count = _chain(data, start, offset, checksum) + 1 + _chain(data, follow, end, checksum)
    head = f.batch_header(number, segment.number, length, count, seed)
    mended = data[:at] + head + data[start:offset] + _void(follow - offset, checksum) + data[follow:]
    return mended, f"{segment_name(segment.number)}: dropped bytes {offset}–{follow} (records of batch {number})"


def _end_of_chain(data: bytes, offset: int, checksum: f.Checksum) -> int:
    """Where the good records that begin at `offset` end."""
    while offset + _RECORD_MIN <= len(data):
        crc, length = f.PREFIX.unpack_from(data, offset)
        stop = offset + _RECORD_MIN + length
        if stop > len(data) or checksum(data[offset + 4 : stop]) != crc:
            break
        offset = stop
    return offset


def _chain(data: bytes, offset: int, end: int, checksum: f.Checksum) -> int:
    """Number of good records that fill offset…end exactly; 0 if they do not."""
    count = 0
    while offset < end:
        if offset + _RECORD_MIN > end:
            return 0
        crc, length = f.PREFIX.unpack_from(data, offset)
        stop = offset + _RECORD_MIN + length
        if stop > end or checksum(data[offset + 4 : stop]) != crc:
            return 0
        offset = stop
        count += 1
    return count


def _first_batch(store: Store, number: int) -> int:
    """Number of the first batch of a segment; 0 if there is none."""
    if segment_name(number) not in store.files.listdir(store.folder):
        return 0
    batch = f.parse_batch(store.load(number), f.SEGMENT_BYTES, number, f.seed_of(store.disk_id))
    return batch[0] if batch else 0


def _void_batches(segment: Segment, offset: int, follow: int, following: int, seed: int) -> tuple[bytes, str]:
    """Mends a damaged batch header when its records check, else puts empty batches in place of all that lies
    before batch `following` at `follow` (0: that one begins the next segment)."""
    data, checksum, name = segment.data, segment.checksum, segment_name(segment.number)
    before = [b[1] for b in segment.batches if b[0] < offset]
    first = before[-1] + 1 if before else following - 1
    start = offset + f.BATCH.size
    if not follow:
        follow = max(
            _end_of_chain(data, start, checksum),
            segment.used,
            offset + (following - first) * f.BATCH.size + _RECORD_MIN,
        )
    # One batch is missing and what follows are good records to its end: only the header was hit, and it can be
    # computed.
    if first == following - 1 and (count := _chain(data, start, follow, checksum)):
        head = f.batch_header(first, segment.number, follow - start, count, seed)
        return data[:offset] + head + data[start:], f"{name}: wrote the header of batch {first} anew; nothing is lost"
    empty = b"".join(f.batch_header(n, segment.number, 0, 0, seed) for n in range(first, following - 1))
    room = follow - offset - len(empty) - f.BATCH.size
    if room < _RECORD_MIN:
        raise JournalError(f"{name}: the gap at offset {offset} is too small for {following - first} batches{_WAY_OUT}")
    last = f.batch_header(following - 1, segment.number, room, 1, seed) + _void(room, checksum)
    mended = data[:offset] + empty + last + data[follow:]
    return mended, f"{name}: dropped bytes {offset}–{follow} (batches {first}–{following - 1})"
