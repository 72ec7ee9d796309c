"""The files of the journal folder: identity, lock, segments, spares; and what an errno means.

Rule: an error of write or sync is judged once. ENOSPC before a sync = JournalFull, nothing is believed and the
same call may be repeated; anything else = JournalDead for good, because after a failed fsync the kernel may
have dropped the pages (nothing that follows could be trusted). Must not know what records mean.
"""

# What is on the disk, in which order, when a segment begins (write → _adopt):
#     spare-7           zeroes, synced (prepare, in a helper thread, mostly long before)
#     spare-7           its header is written and synced; a crash: a spare, removed at the next start
#     00…0b.log         renamed, then the folder synced; a crash: the name with an empty log in it, or the spare
#     00…0b.log         the batch is written into the zeroes and synced; a crash within: a torn tail
# The space is there, as zeroes, before a batch is begun: so a full disk shows before anything of it is written.

from __future__ import annotations

import errno
import re
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal, JournalDead, JournalError, JournalFull
from broker.seams.entropy import token
from broker.seams.files import File, Files

from . import format as f
from .appender import Batch, BatchPart
from .copying_guard import BlobGuard

SEGMENT_NAME: Final = re.compile(r"([0-9a-f]{16})\.log")
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
"""Too little of something that may come back: space, or file handles."""
_ZEROES: Final = bytes(1 << 20)
_JOIN: Final = 512
"""Buffers joined per write: a bounded copy, a bounded time with the GIL held."""
_HANDLES: Final = 128
"""Open files of closed segments."""
LOOK_BYTES: Final = 1 << 20
"""Of commits, between two looks at the free space of the volume."""
CLEARED: Final = 4
"""Large bodies removed at once: the thread that does it makes new segments, too."""
SPARES: Final = 2
"""The next segment, and the reserve for settling when the disk is full."""


def segment_name(number: int) -> str:
    return f"{number:016x}.log"


class Store:
    """Folder and files. Thread-safe where said: `write` in the commit thread, `prepare` and `clear` in a helper thread,
    `acquire`/`release` in any."""

    def __init__(self, files: Files, folder: str, settings: JournalSettings) -> None:
        self.files = files
        self.folder = folder
        self.settings = settings
        self.disk_id = b""
        # The first reason, for ever: after a failed fsync the pages may be marked clean although they are not on the
        # disk, so a second fsync that succeeds says nothing.
        self.dead = ""
        self.no_space = False
        """A write was refused."""
        self.low_space = False
        """The reserve has been reached."""
        self.full = False
        """One of the two."""
        self._space_lock = threading.Lock()
        self._unlooked = 0
        """Bytes written since the free space of the volume was looked at."""
        self.free = 0
        """Bytes of the volume when it was last looked at."""
        self.next_batch = 1
        self.durable = 0
        """Position up to which everything appended is on stable storage."""
        self.algorithms: dict[int, int] = {}
        self.doomed: set[str] = set()
        """Files that a batch is to remove. Making one of them anew before that takes it out (spare)."""
        self._going = ""
        """The one that is being unlinked."""
        self._removing = threading.Lock()
        """Held while one of them becomes that, or is spared."""
        self._gone = threading.Lock()
        """… and while it is unlinked."""
        self.lock = threading.Lock()
        self._spares: list[tuple[str, int]] = []
        """(name, size); an extra large one may wait here after JournalFull."""
        self.missing = SPARES
        """Prepared segments that have still to be made."""
        self._spare_count = 0
        self._handles: dict[int, File] = {}
        self._pins: dict[int, int] = {}
        self._lock_file: File | None = None
        self.has_dead = False
        """Something waits for clear(). Written by the commit thread when there is more, else by who removes it."""
        self._dead_segments: deque[int] = deque()
        self._dead_files: deque[str] = deque()
        self.keeper: BlobGuard | None = None
        """None: nobody ever copies the folder while it is in use."""

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    @contextmanager
    def guard(self, what: str, full: bool = True) -> Iterator[None]:
        """Turns OSError into JournalFull (if `full` allows it) or JournalDead, which is remembered."""
        if self.dead:
            raise JournalDead(self.dead)
        try:
            yield
        except OSError as error:
            raise self._judged(error, what, full) from error

    def _judged(self, error: OSError, what: str, full: bool) -> JournalError:
        """What that means: see guard()."""
        # Never for a sync: space that is missing at an fsync means that a write was accepted and lost.
        if full and error.errno in _FULL:
            self.lacks(no_space=True)
            return JournalFull(f"{self.folder}: no space to {what}: {error.strerror}")
        self.dead = f"{self.folder}: cannot {what}: {error.strerror or error}; restart when that is repaired"
        return JournalDead(self.dead)

    # ── opening ────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> list[int]:
        """Locks the folder, reads or makes its identity. Returns the numbers of the segments, ascending."""
        with self.guard("open the journal folder"):
            self.files.mkdir(self.folder)
            self.files.sync_dir(self.folder.rpartition("/")[0] or ".")
            self.acquire_lock()
            names = self.files.listdir(self.folder)
            for name in names:
                # Nothing refers to them: they get a name that counts only when they are whole.
                if name.startswith("spare-") or name == "identity.tmp":
                    self.files.remove(self.path(name))
            numbers = self.numbers(names)
            if "identity" in names:
                self.disk_id = read_identity(self.files, self.folder)
            elif numbers or any(name.endswith(".log") for name in names):
                raise CorruptJournal(f"{self.folder}: segments without an `identity` file; {f.ADVICE}")
            else:
                self._create_identity()
        self.check_space()
        return numbers

    def identify(self, disk_id: bytes) -> None:
        """The folder is another disk's, of this name."""
        self.disk_id = disk_id

    def expect(self, batch: int) -> None:
        """The log ends before the batch of that number."""
        self.next_batch = batch

    def keep_bodies(self, keeper: BlobGuard) -> None:
        """From now on the folder may be copied while it is in use."""
        self.keeper = keeper

    def acquire_lock(self) -> None:
        try:
            self._lock_file = self.files.lock(self.path("lock"))
        except BlockingIOError:
            raise JournalError(f"{self.folder}: in use by a running broker") from None

    @staticmethod
    def numbers(names: list[str]) -> list[int]:
        return sorted(int(m[1], 16) for name in names if (m := SEGMENT_NAME.fullmatch(name)))

    def _create_identity(self) -> None:
        """Written aside, synced, renamed, folder synced: it is there whole or not at all."""
        disk = token(16)
        text = f"STAMPEDE JOURNAL\nversion {f.VERSION}\ndisk {disk}\n".encode()
        text += f"crc {zlib.crc32(text):08x}\n".encode()
        file = self.files.open(self.path("identity.tmp"), create=True)
        try:
            write_all(file, text, 0)
            file.sync()
        finally:
            file.close()
        self.files.rename(self.path("identity.tmp"), self.path("identity"))
        self.files.sync_dir(self.folder)
        self.disk_id = bytes.fromhex(disk)

    # ── segments ───────────────────────────────────────────────────────────────────────────────────

    def load(self, number: int) -> bytes:
        """The whole segment, header checked. Raises CorruptJournal."""
        name = segment_name(number)
        with self.pinned(number) as file, self.guard(f"read segment {name}"):
            size = file.size()
            data = read_all(file, size, 0)
        algorithm, expected = f.parse_segment_header(data, self.disk_id, number, name)
        if size != expected:
            raise CorruptJournal(f"{name}: has {size} bytes instead of {expected}; {f.ADVICE}")
        # Also says that the segment exists: readers ask it (acquire, known).
        self.algorithms[number] = algorithm
        return data

    def acquire(self, number: int, known: bool = False) -> File | None:
        """An open file of the segment that stays open until `release`. `known`: None if it was freed."""
        with self.lock:
            # Under the lock with forget(): a file that is about to be unlinked is not opened any more.
            if known and number not in self.algorithms:
                return None
            file = self._handles.get(number)
            if file is None:
                with self.guard(f"open segment {segment_name(number)}"):
                    file = self._handles[number] = self.files.open(self.path(segment_name(number)))
            self._pins[number] = self._pins.get(number, 0) + 1
            if len(self._handles) > _HANDLES:
                self._close_idle()
            return file

    def release(self, number: int) -> None:
        with self.lock:
            self._pins[number] -= 1
            if not self._pins[number]:
                del self._pins[number]

    @contextmanager
    def pinned(self, number: int) -> Iterator[File]:
        file = self.acquire(number)
        assert file is not None  # only `known` may say no
        try:
            yield file
        finally:
            self.release(number)

    def set_aside(self, number: int, data: bytes) -> str:
        """Keeps bytes of a segment in a file of their own, which is on the disk when it returns; its name."""
        taken = set(self.files.listdir(self.folder))
        base = f"{segment_name(number)}.broken"
        name = next(n for i in range(len(taken) + 1) if (n := f"{base}.{i}" if i else base) not in taken)
        file = self.files.open(self.path(name), create=True)
        try:
            write_all(file, data, 0)
            file.sync()
        finally:
            file.close()
        self.files.sync_dir(self.folder)
        return name

    def _close_idle(self) -> None:
        # Half at once, so that this is rare; what is being read stays.
        for number in [n for n in self._handles if n not in self._pins][: _HANDLES // 2]:
            self._handles.pop(number).close()

    def forget(self, number: int) -> None:
        """The segment's file is about to go: nobody opens it any more; a reader that has it open may finish."""
        with self.lock:
            self.algorithms.pop(number, None)
            if number not in self._pins and (file := self._handles.pop(number, None)):
                file.close()

    # ── writing (commit thread) ────────────────────────────────────────────────────────────────────

    def write(self, batch: Batch) -> None:
        """The batch is on stable storage when this returns; from then on what it removes may go (clear).

        JournalFull: nothing counts as written; the same batch may be written again when there is space.
        JournalDead: the disk failed; nothing may be written ever again.
        JournalError: the batch before this one has not been written."""
        if batch.parts and batch.parts[0].number != self.next_batch:
            raise JournalError("an earlier batch of the journal has not been written")
        self._unlooked += batch.nbytes
        for part in batch.parts:
            # All space first: a batch of two segments is not begun when the second cannot be had.
            if part.segment not in self.algorithms:
                self._adopt(part.segment, part.size)
        for part in batch.parts:
            # One segment is synced before the next is touched: only the very last batch can ever be torn.
            self._write_part(part)
        # Behind the sync of what replaces them; by another thread: to unlink 20 MB takes some milliseconds, and all
        # who want a receipt wait for this one.
        if batch.freed or batch.removals:
            self._dead_segments += batch.freed
            self._dead_files += batch.removals
            self.has_dead = True
        if batch.parts:
            # After everything: a batch that JournalFull has stopped is written again as a whole, to the same places.
            self.next_batch = batch.parts[-1].number + 1
        # Its bytes were zeroes of a segment before, so a commit takes no space of the volume. What others take of it
        # is looked at now and then here (a look takes as long as the write), and by the clock (admin/space).
        if self._unlooked >= LOOK_BYTES or self.full:
            self.check_space()

    def follows(self, batch: Batch) -> bool:
        """Whether everything before this batch has been written (a gap would read as rot)."""
        return not batch.parts or batch.parts[0].number == self.next_batch

    def _write_part(self, part: BatchPart) -> None:
        # guard() and pinned() in line: as what they are their frames would be half of all that a commit calls.
        if self.dead:
            raise JournalDead(self.dead)
        file = self.acquire(part.segment)
        assert file is not None  # only `known` may say no
        syncs = False
        try:
            offset = part.offset
            # A batch of one turn is thousands of buffers: writing each would be a system call each, joining all a
            # copy of megabytes with the GIL held.
            for at in range(0, len(part.buffers), _JOIN):
                data = b"".join(part.buffers[at : at + _JOIN])
                if (done := file.pwrite(data, offset)) < len(data):
                    write_all(file, data[done:], offset + done)
                offset += len(data)
            syncs = True
            if self.settings.sync:
                file.sync()
        except OSError as error:
            raise self._judged(error, f"{'sync' if syncs else 'write'} the journal", not syncs) from error
        finally:
            self.release(part.segment)
        # One assignment of an int, which threads may read without a lock.
        self.durable = part.segment << 32 | part.end

    def remove(self, number: int) -> None:
        """Removes a segment, for good: were a later one gone and this one back after a crash, the settles of
        its messages would be missing."""
        self.forget(number)
        with self.guard("remove a dead segment", full=False):
            self._unlink(self.path(segment_name(number)))
            self.files.sync_dir(self.folder)

    def _unlink(self, path: str) -> None:
        try:
            self.files.remove(path)
        except FileNotFoundError:
            pass

    def _adopt(self, number: int, size: int) -> None:
        """Makes a spare the segment `number`. Its name appears only when header and zeroes are on disk."""
        with self.lock:
            spare = next((name for name, bytes_ in self._spares if bytes_ == size), "")
        if not spare:
            spare = self._make_spare(size)
        with self.guard("begin a segment"):
            file = self.files.open(self.path(spare))
            write_all(file, f.segment_header(f.PREFERRED, self.disk_id, number, size), 0)
        # A sync that fails is never a matter of space.
        with self.guard("begin a segment", full=False):
            file.sync()
        with self.guard("begin a segment"):
            self.files.rename(self.path(spare), self.path(segment_name(number)))
        with self.lock:
            self._spares.remove((spare, size))
            self._count_spares()
            self._handles[number] = file
            self.algorithms[number] = f.PREFERRED
        with self.guard("begin a segment", full=False):
            self.files.sync_dir(self.folder)

    # ── removing (helper thread) ───────────────────────────────────────────────────────────────────

    def clear(self) -> list[int] | None:
        """Removes some of what is dead, segments in their order. Returns the segments among it; None: there is nothing
        that may go now. After a crash what is left is removed by the next start."""
        gone: list[int] = []
        self.has_dead = False  # first: what comes meanwhile says so again
        if self._dead_segments:
            self.remove(self._dead_segments[0])
            gone.append(self._dead_segments.popleft())
        cleared = self._clear_files()
        if self._dead_segments or self._dead_files:
            self.has_dead = True
        return gone if cleared or gone else None

    def _clear_files(self) -> bool:
        """Some large bodies, unless the folder is being copied and there is room for it. False: none."""
        if not self._dead_files:
            return False
        if self.keeper is None or self.full:
            self._remove_files()
            return True
        with self.keeper.removing() as free:
            if free:
                self._remove_files()
        return free

    def _remove_files(self) -> None:
        files = self._dead_files
        for _ in range(min(len(files), CLEARED)):
            path = files[0]
            with self._gone, self.guard("remove a dead file", full=False):
                with self._removing:
                    # Whoever receives the same body anew has spared it: its file must stay.
                    self._going = path if path in self.doomed else ""
                    self.doomed.discard(path)
                if self._going:
                    self._unlink(path)
                    self._going = ""
            files.popleft()

    def spare(self, path: str) -> None:
        """A file that may be doomed is made anew: it is not removed. Waits where this very one is being removed."""
        with self._removing:
            self.doomed.discard(path)
            going = self._going == path
        if going:
            with self._gone:
                pass

    # ── space (helper thread) ──────────────────────────────────────────────────────────────────────

    def lacks(self, no_space: bool | None = None, low_space: bool | None = None) -> None:
        """What is known of it by now; None: as before. Kept as `full`, which every turn asks."""
        # Whoever commits and whoever prepares find it out at the same time: of two, neither may undo the other's.
        with self._space_lock:
            self.no_space = self.no_space if no_space is None else no_space
            self.low_space = self.low_space if low_space is None else low_space
            self.full = self.no_space or self.low_space

    def _count_spares(self) -> None:
        self.missing = max(SPARES - sum([size == self.settings.segment_bytes for _, size in self._spares]), 0)

    def wrote_beside(self, nbytes: int) -> None:
        """So much was written beside the log: the next commit looks at what is left, if it is much."""
        self._unlooked += nbytes

    def prepare(self) -> None:
        """Zero-fills spare segments ahead. No space is not an error here: it is remembered in `no_space`."""
        size = self.settings.segment_bytes
        try:
            while self.missing > 0:
                with self.guard("ask for free space", full=False):
                    # Else each attempt would fill the disk to the last byte, and others on it would suffer.
                    if self.files.free_bytes(self.folder) < size:
                        self.lacks(no_space=True)  # asked first: this is called again and again while the disk is full
                        break
                self._make_spare(size)
            else:
                self.lacks(no_space=False)
        except JournalFull:
            pass
        self.check_space()

    def _make_spare(self, size: int) -> str:
        """A synced file of zeroes. Zeroes, not fallocate: unwritten extents make every later sync dearer."""
        with self.lock:
            self._spare_count += 1
            name = f"spare-{self._spare_count}"
        file: File | None = None
        try:
            with self.guard("allocate a segment"):
                file = self.files.open(self.path(name), create=True)
                for offset in range(0, size, len(_ZEROES)):
                    write_all(file, _ZEROES[: size - offset], offset)
            with self.guard("allocate a segment", full=False):
                file.sync()
        except JournalFull:
            if file is not None:
                with self.guard("give back space", full=False):
                    self.files.remove(self.path(name))
            raise
        finally:
            if file is not None:
                file.close()
        with self.lock:
            self._spares.append((name, size))
            self._count_spares()
        self.wrote_beside(size)
        return name

    def check_space(self) -> None:
        self._unlooked = 0
        with self.guard("ask for free space", full=False):
            self.free = self.files.free_bytes(self.folder)
            self.lacks(low_space=self.free < self.settings.min_free_bytes)

    def close(self) -> None:
        with self.lock:
            for file in self._handles.values():
                file.close()
            self._handles.clear()
            if self._lock_file is not None:
                self._lock_file.close()
                self._lock_file = None


def read_identity(files: Files, folder: str) -> bytes:
    """The disk id. Raises CorruptJournal."""
    file = files.open(f"{folder}/identity")
    try:
        text = read_all(file, min(file.size(), 4096), 0)
    finally:
        file.close()
    match = re.fullmatch(rb"(STAMPEDE JOURNAL\nversion (\d+)\ndisk ([0-9a-f]{32})\n)crc ([0-9a-f]{8})\n", text)
    if match is None or zlib.crc32(match[1]) != int(match[4], 16):
        raise CorruptJournal(f"{folder}/identity: damaged or not ours; {f.ADVICE}")
    if int(match[2]) != f.VERSION:
        raise CorruptJournal(
            f"{folder}/identity: format version {int(match[2])}, this release reads {f.VERSION}; use a matching release"
        )
    return bytes.fromhex(match[3].decode())


def write_all(file: File, data: bytes, offset: int) -> None:
    """pwrite until everything is written."""
    # A write may be short, when a signal comes or the disk is nearly full.
    done = file.pwrite(data, offset)
    while done < len(data):
        n = file.pwrite(data[done:], offset + done)
        if n <= 0:
            raise OSError(errno.EIO, "wrote nothing")
        done += n


def read_all(file: File, n: int, offset: int) -> bytes:
    """Up to n bytes; fewer only at the end of the file."""
    data = file.pread(n, offset)
    while 0 < len(data) < n:
        more = file.pread(n - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data
