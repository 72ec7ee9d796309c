"""A backup becomes a journal folder again, checked byte by byte; and who may not start from one.

Rule: a folder that holds anything is never written into, and what does not check never gets its final name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.core.errors import JournalError
from broker.seams.files import Files

from ..log.store import read_all, write_all
from .backup import FILE, STATEMENT, Statement
from .inspect import verify

_PIECE: Final = 1 << 20
Copied = Iterable[tuple[str, Iterable[bytes]]]
"""Names and contents of a backup's files, one after another."""


class FolderTarget:
    """Copies into a folder beside its final name, which it gets when it is complete: finish() or abandon()."""

    def __init__(self, files: Files, folder: str) -> None:
        """Raises JournalError when there is such a folder already."""
        if files.listdir(folder):
            raise JournalError(f"{folder}: is not empty; name a folder that does not exist yet")
        self._files = files
        self._final = folder
        self.folder = f"{folder}.partial"
        # An earlier attempt that was cut off: its name says that it is worth nothing.
        self._clear()
        files.mkdir(f"{self.folder}/blobs")

    def begin(self, nbytes: int) -> None:
        free = self._files.free_bytes(self.folder)
        if nbytes > free:
            raise JournalError(f"{self._final}: {nbytes} bytes are to be copied, and there is room for {free}")

    def file(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        if (at := self.write(name, pieces)) != size:
            raise JournalError(f"{name}: has {at} bytes instead of {size}")

    def write(self, name: str, pieces: Iterable[bytes]) -> int:
        """Returns the size."""
        file = self._files.open(f"{self.folder}/{name}", create=True)
        try:
            at = 0
            for piece in pieces:
                write_all(file, piece, at)
                at += len(piece)
            file.sync()
        finally:
            file.close()
        return at

    def finish(self) -> None:
        files = self._files
        files.sync_dir(f"{self.folder}/blobs")
        files.sync_dir(self.folder)
        # The name comes last, when every file and every name in it is synced.
        files.rename(self.folder, self._final)
        files.sync_dir(self._final.rpartition("/")[0] or ".")

    def abandon(self) -> None:
        """Takes away what is there."""
        self._clear()

    def _clear(self) -> None:
        for name in self._files.listdir(f"{self.folder}/blobs"):
            self._files.remove(f"{self.folder}/blobs/{name}")
        for name in self._files.listdir(self.folder):
            if name != "blobs":
                self._files.remove(f"{self.folder}/{name}")


def restore(files: Files, copied: Copied, folder: str, marked: bool = True) -> Statement:
    """Makes the journal folder. `marked`: no owner of a cluster starts from it. Raises JournalError when it exists, or
    the backup is damaged or not whole."""
    target = FolderTarget(files, folder)
    try:
        sizes: dict[str, int] = {}
        text = b""
        for name, pieces in copied:
            if not FILE.fullmatch(name):
                raise JournalError(f"{name[:100]!r} is no file of a backup")
            if name == STATEMENT:
                pieces = [text := b"".join(pieces)]
            sizes[name] = target.write(name, pieces)
        if not text:
            raise JournalError(f"there is no {STATEMENT}: the backup is not complete")
        statement = Statement.of(text)
        _compare({**statement.files, STATEMENT: len(text)}, sizes)
        # Copies were checked when they were made; what is judged here is what arrived.
        report = verify(files, target.folder)
        # Missing bodies that the backup had told of are no new damage.
        if not report.ok and not (statement.lost and not report.damaged):
            raise JournalError("the backup is damaged: " + "; ".join(report.lines[-3:]))
        if not marked:
            files.remove(f"{target.folder}/{STATEMENT}")
        target.finish()
    except BaseException:
        target.abandon()
        raise
    return statement


def _compare(due: dict[str, int], found: dict[str, int]) -> None:
    for name, size in due.items():
        if name not in found:
            raise JournalError(f"the backup is not complete: {name} is missing")
        if found[name] != size:
            raise JournalError(f"the backup is damaged: {name} has {found[name]} bytes instead of {size}")
    if more := found.keys() - due.keys():
        raise JournalError(f"{min(more)} is no part of the backup")


def files_of(files: Files, folder: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """A backup that is a folder."""
    names = [name for name in files.listdir(folder) if name not in ("blobs", "lock", "backup.lock")]
    for name in [*names, *(f"blobs/{name}" for name in files.listdir(f"{folder}/blobs"))]:
        yield name, _pieces(files, f"{folder}/{name}")


def _pieces(files: Files, path: str) -> Iterator[bytes]:
    file = files.open(path)
    try:
        for at in range(0, file.size(), _PIECE):
            yield read_all(file, _PIECE, at)
    finally:
        file.close()


def refuse_restored(files: Files, folder: str) -> None:
    """For an owner of a cluster: the log of this folder went back in time, and other owners believe that it did not.

    Raises JournalError."""
    if STATEMENT in files.listdir(folder):
        raise JournalError(
            f"{folder} was restored from a backup: an owner with an older log than the cluster knows would lose what "
            "was receipted since. Give it an empty data folder, its slots are copied from the others; read the backup "
            "with `stampede serve`; or, when all owners and etcd are lost, see `stampede restore --whole-cluster`."
        )
