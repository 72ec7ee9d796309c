"""Where backups lie: a folder, or a bucket of an object store (S3 and what speaks like it, GCS, Azure).

Rule: a file has its name when it is complete, never before. What a name means is decided elsewhere.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Final, Protocol

from broker.core.errors import BrokerError, JournalError
from broker.seams.files import File, OsFile, OsFiles, open_for_reading

PIECE: Final = 1 << 20
PART: Final = 32 << 20
"""Bytes of a part of an upload: stores take 10,000 of them, so 320 GB of one owner."""
AT_ONCE: Final = 2
_MISSING: Final = "No package for object stores: install stampede-broker[store]."
_OPTIONS: Final[Mapping[str, Any]] = {"timeout": "600s", "allow_http": True}
"""A part may go over a slow line."""


class NoPlace(BrokerError):
    """What is said of a place cannot be: another scheme, a library that is not there."""


class Writer(Protocol):
    """A file of a place that is being written: finish() or abandon()."""

    @property
    def stream(self) -> IO[bytes]: ...
    def finish(self) -> None: ...
    def abandon(self) -> None:
        """Nothing is left. The stream may be closed then, or forgotten: nothing goes anywhere any more."""
        ...


class CopyPlace(Protocol):
    """Names have slashes. All raise OSError or JournalError."""

    def writer(self, name: str) -> Writer:
        """Raises FileExistsError when there is such a file."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Raises FileNotFoundError."""
        ...

    def sizes(self) -> dict[str, int]:
        """All files, those in folders inside too."""
        ...

    def remove(self, name: str) -> None: ...
    def room(self) -> int | None:
        """Bytes that are free there, None: nobody knows."""
        ...


def is_url(text: str) -> bool:
    return "://" in text


def place_of(text: str) -> CopyPlace:
    """A folder's path, or a URL such as s3://bucket/folder. Raises NoPlace."""
    return ObjectPlace(text) if is_url(text) else Folder(text)


def split(text: str) -> tuple[str, str]:
    """(the place, the name in it) of a file that is named as a whole."""
    head, slash, name = text.rstrip("/").rpartition("/")
    return head or slash or ".", name


def whole(place: CopyPlace, name: str, most: int = 64 << 20) -> bytes:
    """A small file. Raises FileNotFoundError, JournalError."""
    pieces, size = [], 0
    for piece in place.read(name):
        size += len(piece)
        if size > most:
            raise JournalError(f"{name}: is larger than {most} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def put(place: CopyPlace, name: str, data: bytes) -> None:
    """A small file."""
    writer = place.writer(name)
    try:
        writer.stream.write(data)
        writer.finish()
    except BaseException:
        writer.abandon()
        raise


class _Out(io.RawIOBase):
    """A file of ours, for a writer that goes from front to back."""

    def __init__(self, file: OsFile) -> None:
        self._file: OsFile | None = file
        self._at = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._file is None:
            return len(data)
        n = self._file.pwrite(data, self._at)
        self._at += n
        return n

    def let_go(self) -> None:
        """Nothing goes to the file any more."""
        # A writer that is closed, or forgotten, writes what it has in memory: after close() the number of the file may
        # be another one's.
        self._file = None


class FileWriter:
    """Beside its name until it is complete."""

    def __init__(self, path: str) -> None:
        """Raises FileExistsError."""
        if os.path.lexists(path):
            raise FileExistsError(17, "exists already", path)
        if os.path.lexists(path + ".partial"):
            os.unlink(path + ".partial")
        self._path = path
        self._file = OsFiles().open(path + ".partial", create=True)
        self._raw = _Out(self._file)
        self.stream: IO[bytes] = io.BufferedWriter(self._raw, PIECE)

    def finish(self) -> None:
        self.stream.flush()
        self._file.sync()
        self._file.close()
        os.rename(self._path + ".partial", self._path)
        OsFiles().sync_dir(os.path.dirname(self._path) or ".")

    def abandon(self) -> None:
        self._raw.let_go()
        self._file.close()
        os.unlink(self._path + ".partial")


class Folder:
    """A folder of the file system."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def writer(self, name: str) -> FileWriter:
        path = os.path.join(self._folder, name)
        OsFiles().mkdir(os.path.dirname(path))
        return FileWriter(path)

    def read(self, name: str) -> Iterator[bytes]:
        return _pieces(open_for_reading(os.path.join(self._folder, name)))

    def sizes(self) -> dict[str, int]:
        found = {}
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self._folder)] = os.path.getsize(path)
        return found

    def remove(self, name: str) -> None:
        path = os.path.join(self._folder, name)
        os.unlink(path)
        while (path := os.path.dirname(path)) != self._folder.rstrip("/") and not os.listdir(path):
            os.rmdir(path)

    def room(self) -> int:
        return OsFiles().free_bytes(self._folder)


def _pieces(file: File) -> Iterator[bytes]:
    at = 0
    try:
        while piece := file.pread(PIECE, at):
            at += len(piece)
            yield piece
    finally:
        file.close()


class _Upload(io.RawIOBase):
    """What goes into an object. Closing it completes nothing: only finish() does."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._writer is not None:
            with _told():
                self._writer.write(bytes(data))
        return len(data)

    def finish(self) -> None:
        writer, self._writer = self._writer, None
        with _told():
            writer.close()

    def let_go(self) -> None:
        self._writer = None


class _ObjectWriter:
    def __init__(self, writer: Any) -> None:
        self._raw = _Upload(writer)
        self.stream: IO[bytes] = io.BufferedWriter(self._raw, PIECE)

    def finish(self) -> None:
        self.stream.flush()
        self._raw.finish()

    def abandon(self) -> None:
        # An upload that is not completed is no object; the store's own rule takes its parts away (docs/operations.md).
        self._raw.let_go()


class ObjectPlace:
    """A folder in a bucket. Keys, endpoint and region come from the variables that the store's own tools read
    (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)."""

    def __init__(self, url: str) -> None:
        """Raises NoPlace."""
        try:
            import obstore
            from obstore.exceptions import BaseError
        except ImportError:
            raise NoPlace(_MISSING) from None
        self._url = url.rstrip("/")
        self._library = obstore
        try:
            self._store = obstore.store.from_url(self._url, client_options=_OPTIONS)
        except (BaseError, ValueError, TypeError) as error:
            raise NoPlace(f"{url}: {_line(error)}") from None

    def writer(self, name: str) -> _ObjectWriter:
        with _told():
            try:
                self._library.head(self._store, name)
            except FileNotFoundError:
                made = self._library.open_writer(self._store, name, buffer_size=PART, max_concurrency=AT_ONCE)
                return _ObjectWriter(made)
        raise FileExistsError(17, "exists already", f"{self._url}/{name}")

    def read(self, name: str) -> Iterator[bytes]:
        with _told():
            found = self._library.get(self._store, name)
        return self._stream(found)

    def _stream(self, found: Any) -> Iterator[bytes]:
        with _told():
            for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def sizes(self) -> dict[str, int]:
        with _told():
            return {one["path"]: int(one["size"]) for some in self._library.list(self._store) for one in some}

    def remove(self, name: str) -> None:
        with _told():
            self._library.delete(self._store, name)

    def room(self) -> None:
        return None


class _told:
    """What the library says of a store becomes ours; what is not there stays FileNotFoundError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, (FileNotFoundError, FileExistsError, BrokerError, GeneratorExit)):
            return
        from obstore.exceptions import BaseError

        if isinstance(error, (BaseError, OSError)):
            raise JournalError(f"the object store: {_line(error)}") from None


def _line(error: BaseException) -> str:
    """The library adds all that it was made of."""
    return " ".join(str(error).split("Debug source:")[0].split())[:400]


def joined(pieces: Iterable[bytes]) -> IO[bytes]:
    """What comes in pieces, for a reader that asks for bytes."""
    return io.BufferedReader(_Pieces(pieces), PIECE)


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n
