"""A copy of a journal folder in which a broker may be at work: what a crash at one position of the log would have left.

Nobody is asked, and nobody waits (docs/adr/0011-backup.md has the proof):
1. From here on no large body is removed (copying_guard.py).
2. All segments are opened, again and again until none of a listing was gone by then: an open file stays readable when
   compaction removes its name. What had been freed before that is listed out in front of every position to come.
3. The end of the last segment is read: the last whole batch there is the position.
4. The log up to there is replayed as at recovery, which checks every byte and says which large bodies live.
5. Those are copied, and bodies may be removed again; then the segments, the last one cut at the position.

Rule: reads only, whatever it finds; what it cannot copy is said, or fails by name. Must not know where copies go.
"""

# Example. Segments 5, 6 and 7 are there, each of 4,096 bytes here; the broker writes into 7 and compaction frees 5.
#     round 1    listed: 5, 6, 7. Opening 5 fails, it has just gone; 6 and 7 are open
#     round 2    listed: 6, 7, and 8, which was begun meanwhile. All are open, so all three existed at one moment
#     position   8 has its header (64 bytes) and no whole batch: it says nothing and is left out. In 7 the last whole
#                batch ends at 975: that is the position, (7, 975). What stands behind it may be half a batch
#     replay     6 and 7 up to there. Its live index says: message 3 with body c1 lives, body c0 is of nobody
#     copied     blobs/c1, identity, 6, then 7: its first 975 bytes, rounded up with zeros to a page, under a header
#                that says so; backup.json last, with the position and the size of each file
# A restart from the copy finds what one would have found here, had the power failed when 975 was the end.

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal, JournalError
from broker.seams.files import File, Files

from ..bodies.bodies import BodyFile
from ..log import format as f
from ..log.appender import Appender
from ..log.copying_guard import NAME as LOCK
from ..log.live_index import LiveIndex
from ..log.store import Store, read_all, read_identity, segment_name
from ..recovery.recovery import RecoveryScan

STATEMENT: Final = "backup.json"
"""In the copied folder: what it is a copy of. Written last."""
FILE: Final = re.compile(r"identity|backup\.json|[0-9a-f]{16}\.log|blobs/[0-9a-f]{16}")
"""Files of a backup."""
_FORMAT: Final = 1
_PIECE: Final = 1 << 20
_ROUNDS: Final = 100
"""Listings until all segments of one were there. Compaction frees a segment in many steps, so two mostly do."""
_LOOK_BYTES: Final = 64 << 20
"""How often it is looked whether the broker's disk still has room for the segments that are held."""
_ALIGN: Final = 4096

Pace = Callable[[int], None]
"""Called between all steps, with the bytes copied since the last call: it may wait, or raise. WAIT: it shall wait a
little, because other work goes on."""
WAIT: Final = -1


class BackupTarget(Protocol):
    """Where copies go."""

    def begin(self, nbytes: int) -> None:
        """So much will come. Raises JournalError when there is no room for it."""
        ...

    def file(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """A file of the journal folder, durable when finish() returns."""
        ...


class Statement(NamedTuple):
    """What a backup holds: everything that stands in the log before the position, and nothing behind it.

    slots     slot → (epoch, lsn) of its last item.    messages  in queues, once for each queue they are in.
    lost      large bodies that could not be copied, because they are damaged: their messages cannot be delivered."""

    disk: str
    segment: int
    offset: int
    batch: int
    taken_ms: int
    messages: int
    slots: dict[int, tuple[int, int]]
    files: dict[str, int]
    lost: list[str]

    def text(self) -> bytes:
        return json.dumps({"stampede-backup": _FORMAT, **self._asdict()}, indent=1).encode() + b"\n"

    @classmethod
    def of(cls, text: bytes) -> Statement:
        """Raises JournalError."""
        try:
            data: dict[str, Any] = json.loads(text)
            version = data.pop("stampede-backup")
            slots = {int(slot): (int(epoch), int(lsn)) for slot, (epoch, lsn) in data.pop("slots").items()}
            statement = cls(**data, slots=slots)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise JournalError(f"{STATEMENT} is damaged: {error}") from None
        if version != _FORMAT:
            raise JournalError(f"{STATEMENT}: version {version}, this release reads {_FORMAT}; use a matching release")
        return statement


class _Frozen:
    """The last segment as it was when it was read."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def pread(self, n: int, offset: int) -> bytes:
        return self.data[offset : offset + n]

    def size(self) -> int:
        return len(self.data)

    def close(self) -> None:
        pass


class _Held(Store):
    """The folder as it is held: every segment open, the last one frozen. Writes nothing."""

    def __init__(self, files: Files, folder: str) -> None:
        super().__init__(files, folder, JournalSettings())
        self.held: dict[int, File] = {}

    def acquire(self, number: int, known: bool = False) -> File | None:
        return self.held[number]

    def release(self, number: int) -> None:
        pass

    def drop(self, number: int) -> None:
        if (file := self.held.pop(number, None)) is not None:
            file.close()

    def close(self) -> None:
        for number in list(self.held):
            self.drop(number)


def take_backup(
    files: Files, folder: str, target: BackupTarget, pace: Pace, now_ms: Callable[[], int], spare: int
) -> Statement:
    """Copies the folder. `spare`: bytes below which the broker's disk must not fall on our account.

    Raises CorruptJournal when the log is damaged, JournalError when there is no room, no journal, or another backup is
    under way; what has been copied by then is worth nothing."""
    if "identity" not in files.listdir(folder):
        raise JournalError(f"{folder}: no journal here (there is no `identity` file)")
    backup = _Backup(files, folder, target, pace, spare)
    try:
        return backup.run(now_ms)
    finally:
        backup.close()


class _Backup:
    def __init__(self, files: Files, folder: str, target: BackupTarget, pace: Pace, spare: int) -> None:
        self._files = files
        self._folder = folder
        self._target = target
        self._pace = pace
        self._spare = spare
        self._store = _Held(files, folder)
        self._store.identify(read_identity(files, folder))
        self._lock: File | None = None
        self._written: dict[str, int] = {}
        self._lost: list[str] = []
        self._since_look = 0

    def close(self) -> None:
        self._store.close()
        self._unlock()

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def run(self, now_ms: Callable[[], int]) -> Statement:
        # First, before anything is listed: a body that is alive at the position must not go between scan and copy.
        self._acquire_lock()
        # All segments are open before the end is looked for. The other way round a segment could be freed in between
        # that still holds messages alive at the end that was found.
        numbers, taken = self._open_segments(now_ms)
        end = self._freeze(numbers)
        live = LiveIndex()
        appender = Appender(live, self._store.disk_id, self._store.settings.segment_bytes)
        scan = RecoveryScan(self._store, live, appender, watch=lambda share: self._pace(0))
        scan.run(numbers)
        needed = [number for number in numbers if number not in scan.surplus]
        for number in scan.surplus:
            self._store.drop(number)
        bodies = self._bodies(sorted(live.blobs))
        self._target.begin(sum(bodies.values()) + sum(self._store.held[number].size() for number in needed))
        for id, size in bodies.items():
            self._body(id, size)
        # Bodies are copied, the broker may remove some again. Segments are held by open files; the lock is not about
        # them.
        self._unlock()
        self._file("identity", *self._identity())
        for number in needed:
            self._segment(number)
        statement = Statement(
            disk=self._store.disk_id.hex(), segment=end >> 32, offset=end & 0xFFFFFFFF, batch=appender.number,
            taken_ms=taken, messages=sum(usage.live for usage in live.segments.values()),
            slots={slot: appender.logs.last(slot) for slot in sorted(scan.recovered.slots)}, files=self._written,
            lost=self._lost,
        )  # fmt: skip
        # Last, so that a folder with a statement is a whole one.
        text = statement.text()
        self._target.file(STATEMENT, len(text), [text])
        return statement

    # ── the moment ─────────────────────────────────────────────────────────────────────────────────

    def _acquire_lock(self) -> None:
        """The broker has it for moments only."""
        for _ in range(_ROUNDS):
            try:
                self._lock = self._files.lock(f"{self._folder}/{LOCK}")
                return
            except BlockingIOError:
                self._pace(WAIT)
        raise JournalError(f"{self._folder}: another backup is under way")

    def _open_segments(self, now_ms: Callable[[], int]) -> tuple[list[int], int]:
        """Opens all segments. Their numbers, and a time: what was on the disk by then is in them."""
        held = self._store.held
        for _ in range(_ROUNDS):
            taken = now_ms()
            numbers = self._store.numbers(self._files.listdir(self._folder))
            self._pace(0)
            gone = False
            for number in numbers:
                if number not in held:
                    try:
                        held[number] = self._files.open(self._store.path(segment_name(number)))
                    except FileNotFoundError:
                        gone = True
                    self._pace(0)
            # A round without a loss is a moment at which all of the listing existed at once: segments are only ever
            # freed after what lived in them is durable further on, and what is further on is in this listing or begun
            # later.
            if not gone:
                for number in held.keys() - set(numbers):
                    self._store.drop(number)
                return numbers, taken
        raise JournalError(f"{self._folder}: segments are freed faster than they can be held; try again")

    def _freeze(self, numbers: list[int]) -> int:
        """Reads the last segment that has a whole batch; takes those behind it out. Returns the position.

        From the last one backwards: a segment with a batch in it proves that all before it is complete, one without
        says nothing, and may have been there before the last batch of the segment in front of it was."""
        while numbers:
            number = numbers[-1]
            data = self._read(number)
            end = self._end(number, data)
            if end > f.SEGMENT_BYTES:
                algorithm, _ = f.parse_segment_header(data, self._store.disk_id, number, segment_name(number))
                size = -(-end // _ALIGN) * _ALIGN
                head = f.segment_header(algorithm, self._store.disk_id, number, size)
                # Shortened to what counts and with a header for that size: a restored journal goes on in a segment of
                # its own soon.
                frozen = head + data[f.SEGMENT_BYTES : end] + bytes(size - end)
                self._store.drop(number)
                self._store.held[number] = _Frozen(frozen)  # type: ignore[assignment]
                return number << 32 | end
            self._store.drop(numbers.pop())
        return 0

    def _read(self, number: int) -> bytes:
        self._pace(0)
        file = self._store.held[number]
        pieces: list[bytes] = []
        for at in range(0, file.size(), _PIECE):
            pieces.append(read_all(file, _PIECE, at))
            self._pace(0)
        return b"".join(pieces)

    def _end(self, number: int, data: bytes) -> int:
        """Behind the last whole batch. It was read piece by piece while more was written, so what stands behind may be
        half there. Only if it still is when it is read again, after a later batch has been seen, it is rot: a batch is
        begun when the one before it is complete. Raises CorruptJournal."""
        end = self._whole(number, data)
        seed = f.seed_of(self._store.disk_id)
        later = f.find_batch(data, end + 1, number, seed) if f.used_bytes(data) > end else None
        if later is not None and self._whole(number, self._read(number)) <= end:
            raise CorruptJournal(f"{segment_name(number)}: damaged at offset {end}; {f.ADVICE}")
        return end

    def _whole(self, number: int, data: bytes) -> int:
        algorithm, _ = f.parse_segment_header(data, self._store.disk_id, number, segment_name(number))
        checksum, seed = f.CHECKSUMS[algorithm], f.seed_of(self._store.disk_id)
        end = f.SEGMENT_BYTES
        # As at recovery: a batch counts if its header and all its records check. The broker may be writing the one
        # behind it.
        while (batch := f.parse_batch(data, end, number, seed)) is not None:
            _, length, count = batch
            start = end + f.BATCH.size
            if f.bad_record(data, start, start + length, count, checksum) >= 0:
                break
            end = start + length
        return end

    # ── copies ─────────────────────────────────────────────────────────────────────────────────────

    def _identity(self) -> tuple[int, list[bytes]]:
        file = self._files.open(self._store.path("identity"))
        try:
            text = read_all(file, file.size(), 0)
        finally:
            file.close()
        return len(text), [text]

    def _bodies(self, ids: list[int]) -> dict[int, int]:
        """Sizes of the files of those that are there."""
        sizes: dict[int, int] = {}
        for id in ids:
            try:
                file = self._files.open(self._body_path(id))
            except FileNotFoundError:
                if self._files.free_bytes(self._folder) < self._spare:
                    raise self._short() from None  # then the broker does not wait for us
                self._lost.append(f"large body {id:016x} is missing")
                continue
            sizes[id] = file.size()
            file.close()
            self._pace(0)
        return sizes

    def _body_path(self, id: int) -> str:
        return self._store.path(f"blobs/{id:016x}")

    def _body(self, id: int, size: int) -> None:
        """One that does not check is left out: its message is refused by name anyway, and others are whole."""
        try:
            file = self._files.open(self._body_path(id))
        except FileNotFoundError:
            raise self._short() from None
        body = BodyFile(file, f"large body {id:016x}")
        try:
            at, length = 0, body.size()
            while at < length:
                at = body.check(at)
                self._pace(0)
            self._file(f"blobs/{id:016x}", size, self._pieces(file, size))
        except CorruptJournal as error:
            self._lost.append(str(error))
        finally:
            body.close()

    def _segment(self, number: int) -> None:
        file = self._store.held[number]
        self._file(segment_name(number), file.size(), self._pieces(file, file.size()))
        self._store.drop(number)

    def _file(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        self._target.file(name, size, pieces)
        self._written[name] = size

    def _pieces(self, file: File, size: int) -> Iterator[bytes]:
        for at in range(0, size, _PIECE):
            piece = read_all(file, min(_PIECE, size - at), at)
            if len(piece) < min(_PIECE, size - at):
                raise JournalError(f"{self._folder}: a file has become shorter while it was copied")
            yield piece
            self._pace(len(piece))
            self._since_look += len(piece)
            if self._since_look >= _LOOK_BYTES:
                self._since_look = 0
                if self._files.free_bytes(self._folder) < self._spare:
                    raise self._short()

    def _short(self) -> JournalError:
        return JournalError(
            f"{self._folder}: its disk is nearly full; the backup was given up, so that what it holds can be freed"
        )
