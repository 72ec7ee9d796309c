"""Bytes of the log: headers, record encodings, checksums (docs/adr/0002-journal-format.md).

Rule: pure functions between values and bytes; a layout that was released is never changed, only followed by
a new version. Must not know files, segments in use or who is alive. All integers are little-endian.
"""

# A segment, as it lies on the disk (numbers are bytes):
#
#     0      64    SEGMENT header: whose disk, which segment, how large, which checksum
#     64     36    BATCH header: number 12, 2 records, 172 bytes. Its CRC starts from the disk's id
#     100    124   RUN      24 of RECORD: CRC, length, kind, flags, slot, epoch, lsn; then 100 of payload
#            (run_payload)
#     224    48    SETTLE   queue, first id, last id
#     272    36    BATCH header: number 13 …
#     …            zeroes up to the size in the header: where they begin the log ends
#
# Two levels, since they answer two questions: a batch is what was synced at once, so it counts whole or not at all; a
# record has a checksum of its own, since it is read alone (pages) and travels alone (items).

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any, Final

import msgspec

from broker.core.errors import CorruptJournal, JournalError, UnknownFormat
from broker.core.message import STORED, Blob, Run
from broker.core.records import MetaRecord, RunRecord, SettleRecord

VERSION: Final = 1
# A payload of the full 4 GiB would leave no room for the segment's header in front of it.
MAX_RECORD: Final = (1 << 32) - 4096
"""Offsets inside a segment have 32 bits."""

Checksum = Callable[[bytes], int]

CRC32C: Final = 1
CRC32: Final = 2


def _checksums() -> dict[int, Checksum]:
    known: dict[int, Checksum] = {CRC32: zlib.crc32}
    try:
        from google_crc32c import value
    except ImportError:  # no wheel for this platform: zlib's CRC-32 is twice as slow and as good
        return known
    return {CRC32C: value, **known}


CHECKSUMS: Final = _checksums()
"""Algorithm byte of a segment → function, the preferred one first."""
# The order of the dict is the preference: CRC-32C is in the processor's instructions.
PREFERRED: Final = next(iter(CHECKSUMS))


def _extenders() -> dict[int, Callable[[int, bytes], int]]:
    known: dict[int, Callable[[int, bytes], int]] = {CRC32: lambda crc, data: zlib.crc32(data, crc)}
    try:
        from google_crc32c import extend
    except ImportError:
        return known
    return {CRC32C: extend, **known}


EXTENDERS: Final = _extenders()
"""The same functions for bytes that come in parts: (checksum so far, 0 at first; next bytes)."""

SEGMENT: Final = Struct("<8sHBx16sQQI")
"""magic, version, checksum algorithm, disk id, segment number, size of the file, CRC-32 of all before."""
SEGMENT_BYTES: Final = 64
"""Where the first batch begins; the rest of the header is zero."""
SEGMENT_MAGIC: Final = b"STMPLOG\n"

# The segment's number is in each batch: a file of zeroes that was an older segment's (a disk that gives old blocks
# back) must not be read as this one's.
BATCH: Final = Struct("<8sQQIII")
"""magic, batch number, segment number, bytes and number of the records, CRC-32 of (disk id, all before)."""
BATCH_MAGIC: Final = b"STMPBAT\n"

RECORD: Final = Struct("<IIBBHIQ")
"""CRC of all that follows, bytes of the payload, kind, flags, slot, epoch, lsn."""
_HEAD: Final = Struct("<IBBHIQ")
_CRC: Final = Struct("<I")
_KIND: Final = 8
"""Offset of the kind within a record."""

# Numbers are for ever: what was written by any release is read by all later ones.
RUN: Final = 1
SETTLE: Final = 2
META: Final = 3
GROUP: Final = 4
EPOCH: Final = 5
CLEAN: Final = 6
SEGMENTS: Final = 7
VOID: Final = 8
RESET: Final = 9
SEEDED: Final = 10
KINDS: Final = {
    RUN: "RUN", SETTLE: "SETTLE", META: "META", GROUP: "GROUP", EPOCH: "EPOCH", CLEAN: "CLEAN",
    SEGMENTS: "SEGMENTS", VOID: "VOID", RESET: "RESET", SEEDED: "SEEDED",
}  # fmt: skip

# flags of RUN
DISPATCHED: Final = 1
IDS: Final = 2
DEDUP: Final = 4
BLOB_REF: Final = 8
COPY: Final = 16
DUE: Final = 32
# flags of META
SNAPSHOT_BEGIN: Final = 1
SNAPSHOT_END: Final = 2
# flags of SETTLE: `why` (core.records.Left) in the lower bits
# Room for 16 reasons.
WHY: Final = 15
TIMED: Final = 128
# flag of EPOCH
SEEDING: Final = 1

RUN_FIXED: Final = Struct("<QQQQIIIIIBB")
"""first id, nbytes, expires, time, count, bytes of lines, queues, bytes of address, attempts, priority, run flags."""
RUN_BRIEF: Final = Struct("<Q24xI4xI9xB")
"""The same bytes, only: first id, count, queues, run flags."""
PAIR: Final = Struct("<QQ")
QUEUE: Final = Struct("<Q")


def seed_of(disk_id: bytes) -> int:
    """Start value of batch header checksums: nobody who only sends messages can forge a batch."""
    # A client could send a body that holds a whole batch, header and all. Without the disk's id, which no client
    # knows, it would not check: so find_batch, which searches damaged bytes, cannot be led.
    return zlib.crc32(disk_id)


def segment_header(algorithm: int, disk_id: bytes, number: int, size: int) -> bytes:
    head = SEGMENT.pack(SEGMENT_MAGIC, VERSION, algorithm, disk_id, number, size, 0)[:-4]
    return (head + _CRC.pack(zlib.crc32(head))).ljust(SEGMENT_BYTES, b"\0")


def parse_segment_header(data: bytes, disk_id: bytes, number: int, name: str) -> tuple[int, int]:
    """(algorithm, size of the file). Raises CorruptJournal with a text that says what to do; UnknownFormat, one of
    these, when the header is whole."""
    if len(data) < SEGMENT_BYTES or data[:8] != SEGMENT_MAGIC:
        raise CorruptJournal(f"{name}: not a segment of a journal; {ADVICE}")
    _, version, algorithm, disk, seq, size, crc = SEGMENT.unpack_from(data)
    # The rest of the 64 bytes must be zero: a release that gives it a meaning is refused by this one, not half
    # understood.
    if crc != zlib.crc32(data[: SEGMENT.size - 4]) or data[SEGMENT.size : SEGMENT_BYTES].strip(b"\0"):
        raise CorruptJournal(f"{name}: damaged segment header at offset 0; {ADVICE}")
    # Asked behind the checksum: a damaged version number is damage, not another release.
    if version != VERSION:
        raise UnknownFormat(f"{name}: format version {version}, this release reads {VERSION}; use a matching release")
    if disk != disk_id or seq != number:
        raise CorruptJournal(f"{name}: belongs to another journal (disk {disk.hex()}, segment {seq}); {ADVICE}")
    if algorithm not in CHECKSUMS:
        raise UnknownFormat(f"{name}: needs CRC-32C: install google-crc32c")
    return algorithm, size


ADVICE: Final = (
    "see `stampede journal verify`; restore from a replica or backup, or use `stampede journal repair`, or, when that "
    "cannot, `stampede journal salvage`"
)


def batch_header(number: int, segment: int, length: int, count: int, seed: int) -> bytes:
    head = BATCH.pack(BATCH_MAGIC, number, segment, length, count, 0)[:-4]
    return head + _CRC.pack(zlib.crc32(head, seed))


def parse_batch(data: bytes, offset: int, segment: int, seed: int) -> tuple[int, int, int] | None:
    """(number, bytes, count) of the batch header at `offset`, or None if there is no valid one."""
    if len(data) - offset < BATCH.size:
        return None
    magic, number, seq, length, count, crc = BATCH.unpack_from(data, offset)
    if magic != BATCH_MAGIC or seq != segment or crc != zlib.crc32(data[offset : offset + BATCH.size - 4], seed):
        return None
    # A header that promises more than the file has is no header, however well it checks.
    if offset + BATCH.size + length > len(data):
        return None
    return number, length, count


def find_batch(data: bytes, offset: int, segment: int, seed: int) -> tuple[int, int] | None:
    """(offset, number) of the first valid batch header at or behind `offset`."""
    # Linear: find is C, and each magic costs one checksum of 32 bytes.
    while (offset := data.find(BATCH_MAGIC, offset)) >= 0:
        if (batch := parse_batch(data, offset, segment, seed)) is not None:
            return offset, batch[0]
        offset += 1
    return None


_ZEROES: Final = bytes(1 << 16)


def used_bytes(data: bytes) -> int:
    """Where the zeroes at the end begin. Looks at pieces, so a segment is not copied."""
    end = len(data)
    # 64 KiB at a time from behind: of a fresh segment nearly all is zeroes, and rstrip would copy all of it.
    while end >= len(_ZEROES) and data[end - len(_ZEROES) : end] == _ZEROES:
        end -= len(_ZEROES)
    start = max(0, end - len(_ZEROES))
    return start + len(data[start:end].rstrip(b"\0"))


def bad_record(data: bytes, offset: int, end: int, count: int, checksum: Checksum) -> int:
    """Offset of the first bad record of `count` between offset and end; -1 = all are good and fill the space."""
    unpack, head = PREFIX.unpack_from, RECORD.size
    while count:
        if offset + head > end:
            return offset
        crc, length = unpack(data, offset)
        stop = offset + head + length
        # The length is believed only as far as the batch goes; whether it is right the checksum says, which covers
        # it.
        if stop > end or checksum(data[offset + 4 : stop]) != crc:
            return offset
        offset = stop
        count -= 1
    # Bytes behind the last record are as bad as a bad record: the header counted both.
    return -1 if offset == end else offset


PREFIX: Final = Struct("<II")


def record(
    kind: int, flags: int, slot: int, epoch: int, lsn: int, payload: Sequence[bytes], checksum: Checksum
) -> tuple[bytes, bytes]:
    """The two buffers of a record: its checksum and the rest."""
    length = sum(map(len, payload))
    if length > MAX_RECORD:
        raise JournalError(f"a log record of {length} bytes is too large: at most {MAX_RECORD}")
    body = b"".join((_HEAD.pack(length, kind, flags, slot, epoch, lsn), *payload))
    # Two buffers, not one: the checksum is of the other one, and joining them here would copy each message once more.
    # The batch is joined at the write.
    return _CRC.pack(checksum(body)), body


def small(item: SettleRecord | MetaRecord, epoch: int, lsn: int, checksum: Checksum) -> tuple[bytes, bytes]:
    """The two buffers of a record without messages."""
    flags = 0
    if type(item) is SettleRecord:
        kind = SETTLE
        flags, payload = settle_payload(item)
    else:
        kind, payload = META, meta_payload(item.kind, item.data)  # type: ignore[union-attr]
    return record(kind, flags, item.slot, epoch, lsn, payload, checksum)


def group_head(slot: int, size: int) -> bytes:
    """What stands between the checksum of a group of `size` bytes and its records."""
    length = size - RECORD.size
    if length > MAX_RECORD:
        raise JournalError(f"a log record of {length} bytes is too large: at most {MAX_RECORD}")
    return _HEAD.pack(length, GROUP, 0, slot, 0, 0)


def checked(crc: int) -> bytes:
    """The checksum as it stands before its record."""
    return _CRC.pack(crc)


def extender(checksum: Checksum) -> Callable[[int, bytes], int]:
    """The same checksum for what comes in parts."""
    return EXTENDERS[next(number for number, known in CHECKSUMS.items() if known is checksum)]


def run_payload(item: RunRecord, copy: bool = False) -> tuple[int, list[bytes]]:
    """(flags, buffers) of a RUN: fixed fields, columns, then the bodies as they came."""
    run = item.run
    records = run.records
    count = len(records)
    ids: Any = run.ids
    address = item.address.encode()
    lines = run.lines
    queues = item.queues
    # Order of the columns as read_run reads them. Lengths stand before the bodies, so a reader without `bodies` stops
    # there.
    flags = COPY if copy else 0
    parts = [
        RUN_FIXED.pack(
            ids[0], run.nbytes, run.expires, run.time, count, len(lines), len(queues), len(address),
            run.attempts, run.priority, run.flags & STORED,
        )
    ]  # fmt: skip
    if item.dispatched:
        flags |= DISPATCHED
    if item.dedup is not None:
        flags |= DEDUP
        parts.append(PAIR.pack(*item.dedup))
    if run.blob is not None:
        flags |= BLOB_REF
        parts.append(PAIR.pack(run.blob.id, run.blob.length))
    if run.due:
        flags |= DUE
        parts.append(QUEUE.pack(run.due))
    parts.append(QUEUE.pack(queues[0]) if len(queues) == 1 else array("Q", queues).tobytes())
    # Ids are mostly consecutive and cost nothing then. Copies that compaction cuts out may have gaps.
    if (type(ids) is not range or ids.step != 1) and ids[-1] - ids[0] + 1 != count:
        flags |= IDS
        parts.append(array("Q", ids).tobytes())
    parts.append(array("I", map(len, records)).tobytes())
    parts.append(address)
    parts.append(lines)
    parts += records
    return flags, parts


def read_run(data: bytes, offset: int, flags: int, slot: int, bodies: bool = True, size: int = 0) -> RunRecord:
    """The RunRecord whose payload begins at `offset`; without `bodies` its run has no lines and no records.

    `size`: bytes it must have by its own counts; 0 = they are believed. Raises struct.error or ValueError."""
    begin = offset
    first, nbytes, expires, time, count, nlines, nqueues, naddress, attempts, priority, run_flags = (
        RUN_FIXED.unpack_from(data, offset)
    )
    offset += RUN_FIXED.size
    dedup = blob = None
    if flags & DEDUP:
        dedup = PAIR.unpack_from(data, offset)
        offset += 16
    if flags & BLOB_REF:
        blob = Blob(*PAIR.unpack_from(data, offset))
        offset += 16
    due = 0
    if flags & DUE:
        (due,) = QUEUE.unpack_from(data, offset)
        offset += 8
    stop = offset + 8 * nqueues
    queues = list(QUEUE.unpack_from(data, offset)) if nqueues == 1 else array("Q", data[offset:stop]).tolist()
    ids: Sequence[int] = range(first, first + count)
    if flags & IDS:
        offset = stop
        stop += 8 * count
        ids = array("Q", data[offset:stop]).tolist()
    offset = stop + 4 * count
    address = data[offset : offset + naddress].decode()
    lines = b""
    records: list[bytes] = []
    if size:
        # From a leader, or from damaged bytes: what the counts promise must be what there is, before slices of it are
        # believed.
        total = _CRC.unpack_from(data, stop)[0] if count == 1 else sum(array("I", data[stop:offset]))
        if offset - begin + naddress + nlines + total != size:
            raise ValueError("its counts do not add up")
    if bodies:
        lengths = array("I", data[stop:offset])
        offset += naddress
        lines = data[offset : offset + nlines]
        # Slices copy: the bodies must not keep the whole segment in memory alive.
        records = [data[a:b] for a, b in pairwise(accumulate(lengths, initial=offset + nlines))]
    run = Run(ids, lines, records, nbytes, run_flags, priority, expires, time, attempts, 0, blob, due)
    return RunRecord(slot, address, queues, run, bool(flags & DISPATCHED), dedup)


def before_queues(flags: int) -> int:
    """Bytes of a RUN between its fixed fields and the queues."""
    return (16 if flags & DEDUP else 0) + (16 if flags & BLOB_REF else 0) + (8 if flags & DUE else 0)


def settle_payload(item: SettleRecord) -> tuple[int, list[bytes]]:
    """(flags, buffers) of a SETTLE: queue, time if there is one, spans."""
    spans, flags = item.spans, item.why
    head = QUEUE.pack(item.queue)
    if item.at:
        flags |= TIMED
        head = PAIR.pack(item.queue, item.at)
    if len(spans) == 1:
        return flags, [head, PAIR.pack(*spans[0])]
    flat = array("Q")
    for span in spans:
        flat.extend(span)
    return flags, [head, flat.tobytes()]


def read_settle(data: bytes, offset: int, length: int, slot: int, flags: int = 0) -> SettleRecord:
    queue, *flat = array("Q", data[offset : offset + length])
    at = flat.pop(0) if flags & TIMED else 0
    return SettleRecord(slot, queue, list(zip(flat[::2], flat[1::2], strict=True)), True, flags & WHY, at)


def meta_payload(kind: str, data: dict[str, Any]) -> list[bytes]:
    return [msgspec.json.encode([kind, data])]


def read_meta(data: bytes, offset: int, length: int, slot: int) -> MetaRecord:
    kind, content = msgspec.json.decode(data[offset : offset + length])
    return MetaRecord(slot, kind, content)


def pairs_payload(pairs: Sequence[tuple[int, int]]) -> bytes:
    """SEGMENTS: (next blob id, 0), then (segment, its last batch) …; SEEDED: (epoch, first lsn) …;
    EPOCH: (position of the slot's last RESET or 0, 0), then (epoch, first lsn) …"""
    return array("Q", [n for pair in pairs for n in pair]).tobytes()


def read_pairs(data: bytes, offset: int, length: int) -> list[tuple[int, int]]:
    flat = array("Q", data[offset : offset + length]).tolist()
    return list(zip(flat[::2], flat[1::2], strict=True))


def resealed(data: bytes, checksum: Checksum) -> bytes:
    """A good record with checksums of another algorithm, those of a group's members included."""
    parts = [data[_CRC.size :]]
    if data[_KIND] == GROUP:
        parts = [data[_CRC.size : RECORD.size]]
        at = RECORD.size
        while at < len(data):
            stop = at + RECORD.size + PREFIX.unpack_from(data, at)[1]
            member = data[at + _CRC.size : stop]
            parts += (_CRC.pack(checksum(member)), member)
            at = stop
    # Only the checksums differ; the order and the bytes of the payloads stay, so replicas agree on content (I5).
    body = b"".join(parts)
    return _CRC.pack(checksum(body)) + body


def top_records(data: bytes, offset: int, end: int) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """Like `records_in`, but a GROUP comes as one record."""
    unpack, head = RECORD.unpack_from, RECORD.size
    while offset < end:
        _, length, kind, flags, slot, epoch, lsn = unpack(data, offset)
        offset += head
        yield offset, length, kind, flags, slot, epoch, lsn
        offset += length


def records_in(data: bytes, offset: int, end: int) -> Iterator[tuple[int, int, int, int, int, int, int]]:
    """(offset of the payload, its length, kind, flags, slot, epoch, lsn) of each record; checksums not looked at.

    Records of a GROUP follow their envelope as if they stood alone."""
    unpack, head = RECORD.unpack_from, RECORD.size
    while offset < end:
        _, length, kind, flags, slot, epoch, lsn = unpack(data, offset)
        offset += head
        yield offset, length, kind, flags, slot, epoch, lsn
        if kind != GROUP:
            offset += length
