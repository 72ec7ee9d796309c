"""A damaged journal folder, read for whatever of it still checks: segments cut short, empty or missing, broken headers,
a lost `identity`.

A normal start refuses all of these, and is right to: it must not choose what to forget. Here an operator has chosen.

Rule: reads only. A record counts when its checksum is right and its place is certain: it is reached by lengths, from a
batch header or another record, or the records from it on end exactly where the batch does. Nothing is looked for inside
of bodies, or who sends messages could write the log. Must not know what records mean.
"""

# Example: a batch of three records, 100 bytes each with head, the second of which has a flipped bit:
#     in its body      the lengths still add up to the batch: the second is passed over by its length, the third
#                      counts
#     in its length    the lengths do not add up: from byte to byte a place is looked for from which on good records
#                      fill the batch to its very end. That cannot be a record inside of a body, as such a one ends
#                      before the batch

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from broker.core.errors import CorruptJournal, JournalError, UnknownFormat
from broker.seams.files import File, Files

from ..log import format as f
from ..log.store import Store, read_all, read_identity, segment_name

_HEAD: Final = f.RECORD.size
_BLOCK: Final = 1 << 20
_SECTOR: Final = 4096


class Bad:
    """Bytes that do not check.

    record   (offset, length of the payload) of the record that they are, by its header.
    loss     something stood there that counted.
    short    the file ends there: no write that was under way leaves that behind."""

    def __init__(
        self,
        segment: int,
        offset: int,
        end: int,
        what: str,
        record: tuple[int, int] | None = None,
        loss: bool = True,
        short: bool = False,
    ) -> None:
        self.segment = segment
        self.offset = offset
        self.end = end
        self.what = what
        self.record = record
        self.loss = loss
        self.short = short

    def __str__(self) -> str:
        return f"{segment_name(self.segment)}: offset {self.offset}: {self.what}, {self.end - self.offset} bytes"


class Piece:
    """What can be read of one segment.

    stretches   (start, end) of good records without anything between them, ascending.
    bad         what does not check, ascending."""

    def __init__(self, number: int, data: bytes, algorithm: int) -> None:
        self.number = number
        self.data = data
        self.algorithm = algorithm
        self.stretches: list[tuple[int, int]] = []
        self.bad: list[Bad] = []


class DamagedFolder:
    """Call close(). Raises JournalError when a broker holds the folder, or nothing says whose it is."""

    def __init__(self, files: Files, store: Store) -> None:
        self._files = files
        self._store = store
        store.acquire_lock()
        try:
            self.numbers = store.numbers(files.listdir(store.folder))
            self.notes: list[str] = []
            self.disk_id = self._identity()
        except BaseException:
            store.close()
            raise
        store.identify(self.disk_id)
        self._seed = f.seed_of(self.disk_id)

    def close(self) -> None:
        self._store.close()

    def _identity(self) -> bytes:
        try:
            return read_identity(self._files, self._store.folder)
        except (CorruptJournal, OSError) as error:
            why = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        # A single header may be damaged, or be a file that was copied in from elsewhere: the most frequent one it is.
        votes = Counter(disk for number in self.numbers if (disk := self._named_by(number)))
        if not votes:
            folder = self._store.folder
            raise JournalError(f"{folder}: no journal: neither `identity` nor a segment's header says whose it is")
        self.notes.append(f"`identity` {why}; the segments' headers say the same")
        return votes.most_common(1)[0][0]

    def _named_by(self, number: int) -> bytes:
        """The disk id in a segment's header; b"" when that is damaged."""
        head = self._raw(number, f.SEGMENT_BYTES)
        if len(head) < f.SEGMENT_BYTES or head[:8] != f.SEGMENT_MAGIC:
            return b""
        disk: bytes = f.SEGMENT.unpack_from(head)[3]
        try:
            f.parse_segment_header(head, disk, number, segment_name(number))
        except CorruptJournal:
            return b""
        return disk

    def _raw(self, number: int, most: int = 0) -> bytes:
        file = self._files.open(self._store.path(segment_name(number)))
        try:
            size = min(most or file.size(), file.size())
            return b"".join(
                readable(file, at, min(_BLOCK, size - at)).ljust(min(_BLOCK, size - at), b"\0")
                for at in range(0, size, _BLOCK)
            )
        finally:
            file.close()

    def pieces(self) -> Iterator[Piece]:
        """Segment by segment, in the order of the log; one is in memory at a time."""
        for number in self.numbers:
            yield self.piece(number)

    def piece(self, number: int) -> Piece:
        data = self._raw(number)
        name = segment_name(number)
        try:
            algorithm, size = f.parse_segment_header(data, self.disk_id, number, name)
        except UnknownFormat:
            raise  # intact: taken for a wreck, all of it would count as lost
        except CorruptJournal:
            tried = [self._read(number, data, algorithm) for algorithm in f.CHECKSUMS]
            # Under the wrong checksum nothing checks.
            best = max(tried, key=lambda piece: sum(end - start for start, end in piece.stretches))
            what = "segment header damaged" if data.strip(b"\0") else "empty"
            end = min(len(data), f.SEGMENT_BYTES)
            best.bad.insert(0, Bad(number, 0, end, what, loss=not best.stretches or bool(best.bad)))
            return best
        piece = self._read(number, data.ljust(size, b"\0"), algorithm)
        if len(data) < size:
            piece.bad.append(Bad(number, len(data), size, "cut off: the file is too short", short=True))
        return piece

    def _read(self, number: int, data: bytes, algorithm: int) -> Piece:
        piece = Piece(number, data, algorithm)
        offset, used = f.SEGMENT_BYTES, f.used_bytes(data)
        while offset < used:
            batch = f.parse_batch(data, offset, number, self._seed)
            if batch is not None:
                offset += f.BATCH.size
                self._records(piece, offset, offset + batch[1], batch[2])
                offset += batch[1]
                continue
            later = f.find_batch(data, offset + 1, number, self._seed)
            end = later[0] if later is not None else used
            # Its header is damaged. What follows it counts if it is records up to the next header, or up to the end.
            start = offset + f.BATCH.size
            stop = _good(data, start, len(data) if later is None else end, f.CHECKSUMS[algorithm])
            if stop > start and (later is None or stop == end):
                piece.stretches.append((start, stop))
                piece.bad.append(Bad(number, offset, start, "batch header damaged, its records check", loss=False))
                end = max(stop, end)
            else:
                piece.bad.append(Bad(number, offset, end, "batch damaged"))
            offset = end
        return piece

    def _records(self, piece: Piece, start: int, end: int, count: int) -> None:
        """All good ones of a batch. Damaged ones are passed over by their lengths, if these add up; else everything up
        to the place from which on as many records as are missing at most fill the batch exactly."""
        data, checksum = piece.data, f.CHECKSUMS[piece.algorithm]
        good = _good(data, start, end, checksum)
        if good == end:
            piece.stretches.append((start, end))
            return
        lengths = _lengths(data, start, end)
        trusted = len(lengths) == count
        while start < end:
            if good > start:
                piece.stretches.append((start, good))
            if good == end:
                return
            if trusted:
                follow = good + _HEAD + f.PREFIX.unpack_from(data, good)[1]
                record: tuple[int, int] | None = (good, follow - good - _HEAD)
            else:
                follow, record = self._resume(piece, good, end, count), None
            piece.bad.append(Bad(piece.number, good, follow, "record damaged", record))
            start, good = follow, _good(data, follow, end, checksum)

    @staticmethod
    def _resume(piece: Piece, bad: int, end: int, most: int) -> int:
        checksum = f.CHECKSUMS[piece.algorithm]
        for offset in range(bad + _HEAD, end - _HEAD + 1):
            if piece.data[offset + 8] not in f.KINDS:
                continue
            if _good(piece.data, offset, end, checksum) == end and len(_lengths(piece.data, offset, end)) < most:
                return offset
        return end


def readable(file: File, offset: int, n: int) -> bytes:
    """Those bytes, zeroes in place of what the disk cannot read."""
    try:
        return read_all(file, n, offset)
    except OSError:
        if n <= _SECTOR:
            return bytes(n)
        # By halves down to a sector: an unreadable sector costs about 20 reads, not 256 for each block.
        half = max(n // 2 // _SECTOR * _SECTOR, _SECTOR)
        return readable(file, offset, half).ljust(half, b"\0") + readable(file, offset + half, n - half)


def _good(data: bytes, offset: int, end: int, checksum: f.Checksum) -> int:
    """Where the good records that begin at `offset` end."""
    while offset + _HEAD <= end:
        crc, length = f.PREFIX.unpack_from(data, offset)
        stop = offset + _HEAD + length
        if stop > end or checksum(data[offset + 4 : stop]) != crc:
            break
        offset = stop
    return offset


def _lengths(data: bytes, offset: int, end: int) -> list[int]:
    """Offsets of the records, by their lengths; none unless they fill the space exactly."""
    found: list[int] = []
    while offset + _HEAD <= end:
        found.append(offset)
        offset += _HEAD + f.PREFIX.unpack_from(data, offset)[1]
    return found if offset == end else []
