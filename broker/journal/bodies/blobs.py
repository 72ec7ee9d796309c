"""Large bodies in files of their own: `blobs/<id>`, written once, read in pieces, removed when nobody refers to them.

Rule: a blob's id is given out once and never again, by all owners of a cluster together (its upper half comes from
the disk id; copies on other disks keep it); a file nobody refers to at recovery is removed.
Must not know which messages there are: the journal's live index says which blobs are referred to.
"""

# The life of a large body. A client sends 80 MB:
#     create      the leader numbers it; no file yet
#     write …     pieces as they come, each summed up (bodies.Sums). A crash: an orphan, which the next start removes
#     finish      checksums behind it; synced, and then its name in the folder. Only now a RUN that names it is
#                 appended: a record whose body may be missing would be a message that cannot be delivered (I3)
#     settled     the live index counts references per queue; with the last one the blob is idle, and when the settle is
#                 durable its file is `doomed` and removed behind a batch. A crash before that: again an orphan
# On a follower `receive` makes the same file under the same id, before the item that names it is appended.

from __future__ import annotations

import re
from collections.abc import Callable

from broker.core.errors import CorruptJournal, JournalDead, JournalError
from broker.core.message import Blob
from broker.seams.files import File

from ..log.store import Store, write_all
from .bodies import BodyFile, Sums


class BlobWriter:
    """A body that arrives in pieces. Use it from one thread at a time; the file is made by the first write.

    `again`: what an earlier attempt with this id has left is overwritten."""

    __slots__ = ("_again", "_file", "_id", "_made", "_offset", "_store", "_sums")

    def __init__(self, store: BlobStore, id: int, again: bool = False) -> None:
        self._store = store
        self._id = id
        self._again = again
        self._made = False
        self._offset = 0
        self._sums = Sums()
        self._file: File | None = None

    def write(self, data: bytes) -> None:
        """Appends. Raises JournalFull | JournalDead."""
        # Written before it is summed up: a write that a full disk has refused may be repeated, and counts once.
        with self._store.store.guard("write a large body"):
            write_all(self._open(), data, self._offset)
        self._sums.add(data)
        self._offset += len(data)

    def finish(self, sync: bool) -> Blob:
        """Closes the file; with `sync` body and name are on stable storage when it returns."""
        store = self._store.store
        file = self._open()
        with store.guard("write a large body"):
            write_all(file, self._sums.trailer(), self._offset)
        if sync and store.settings.sync:
            with store.guard("sync a large body", full=False):
                file.sync()
                # A synced file whose name is not synced is gone after a crash of the machine.
                store.files.sync_dir(self._store.folder)
        self._close()
        store.wrote_beside(self._offset)
        return Blob(self._id, self._offset)

    def abort(self) -> None:
        """Forgets what was written, also when it is finished already: nobody may refer to it then."""
        if self._made:
            self._made = False
            self._close()
            self._store.remove(self._id)

    def _open(self) -> File:
        if self._file is None:
            # A stream that broke may have left part of it. What is longer than the new body would stand behind its
            # footer.
            if self._again:
                self._store.remove(self._id)
            with self._store.store.guard("make a large body's file"):
                self._file = self._store.store.files.open(self._store.path(self._id), create=True)
            self._made = True
        return self._file

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class BlobStore:
    """The folder. `allocate` gives the next id, `known` says whether a record refers to one (loop thread)."""

    def __init__(self, store: Store, allocate: Callable[[], int], known: Callable[[int], bool]) -> None:
        self.store = store
        self.folder = store.path("blobs")
        self._allocate = allocate
        self._known = known
        self.missing: list[int] = []
        """Bodies that messages refer to, and whose files were not there at the start."""

    def path(self, id: int) -> str:
        return f"{self.folder}/{id:016x}"

    def create(self) -> BlobWriter:
        return BlobWriter(self, self._allocate())

    def has(self, id: int) -> bool:
        """Is the body here, for records appended before this thread does anything else. Loop thread."""
        return self._known(id)

    def receive(self, id: int) -> BlobWriter:
        """For a body that a leader sends: it has its id there. Loop thread; one writer per id at a time.

        Raises JournalError when the body is here already."""
        if self.has(id):
            raise JournalError(f"large body {id:016x} is here already")
        # The same body may come back while its removal is on its way.
        self.store.spare(self.path(id))
        return BlobWriter(self, id, again=True)

    def doom(self, id: int) -> str:
        """The path, to be removed behind a batch. Loop thread."""
        path = self.path(id)
        self.store.doomed.add(path)
        return path

    def open(self, id: int, length: int = -1) -> BodyFile:
        """`length`: by its message. The file may be removed meanwhile. Raises CorruptJournal when there is no such
        file, JournalError when it cannot be opened."""
        if self.store.dead:
            raise JournalDead(self.store.dead)
        try:
            return BodyFile(self.store.files.open(self.path(id)), f"large body {self.path(id)}", length)
        except FileNotFoundError:
            raise CorruptJournal(f"large body {self.path(id)} is missing") from None
        except OSError as error:
            raise JournalError(f"large body {id:016x} cannot be opened: {error.strerror}") from error

    def length(self, id: int) -> int:
        """Bytes of the body. Raises like open()."""
        reader = self.open(id)
        try:
            return reader.size()
        finally:
            reader.close()

    def read(self, id: int, offset: int, n: int) -> bytes:
        reader = self.open(id)
        try:
            return reader.read(offset, n)
        finally:
            reader.close()

    def remove(self, id: int) -> None:
        """Not made durable: after a crash the file is an orphan, which recovery removes."""
        with self.store.guard("remove a large body", full=False):
            try:
                self.store.files.remove(self.path(id))
            except FileNotFoundError:
                pass

    def recover(self, live: set[int], alone: bool, keep: bool = False) -> tuple[set[int], list[int]]:
        """Removes orphans, or says which are there if they are to be kept; returns (all ids seen, orphans kept). A live
        body that is missing is `missing`; unless `alone`, so that no replica has it, raises CorruptJournal."""
        with self.store.guard("open the folder of large bodies"):
            self.store.files.mkdir(self.folder)
            self.store.files.sync_dir(self.store.folder)
            names = self.store.files.listdir(self.folder)
        found = {int(name, 16) for name in names if re.fullmatch(r"[0-9a-f]{16}", name)}
        self.missing = sorted(live - found)
        if self.missing and not alone:
            raise CorruptJournal(
                f"large body {self.missing[0]:016x} is missing; restore blobs/ from a replica or backup"
            )
        if keep:
            return found, sorted(found - live)
        # The log has been read to its end, so nothing can refer to these any more. With archives they are kept: older
        # items name them.
        for id in found - live:
            self.remove(id)
        return found, []
