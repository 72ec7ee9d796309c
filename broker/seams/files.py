"""Files, fourteen verbs. Rule: nobody else opens, writes or renames files of the data folder.

Tests replace `Files` by a simulated disk that loses, tears and reorders whatever was not synced.
All verbs raise OSError; what an errno means is decided by the caller (journal/log/store.py).
"""

from __future__ import annotations

import fcntl
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from .entropy import token

LONGEST_ADDRESS: Final = 100
"""Bytes that the path of a unix socket may have, with some to spare (108 on Linux, 104 elsewhere)."""


class File(Protocol):
    """An open file. Offsets and sizes in bytes."""

    def pread(self, n: int, offset: int) -> bytes: ...
    def pwrite(self, data: bytes, offset: int) -> int:
        """May write less than asked (the count is returned), like the system call."""
        ...

    def sync(self) -> None:
        """fdatasync: data and size are on stable storage when it returns. Never retry one that failed."""
        ...

    def truncate(self, size: int) -> None: ...
    def size(self) -> int: ...
    def close(self) -> None: ...


class Files(Protocol):
    """A folder tree."""

    def open(self, path: str, create: bool = False) -> File:
        """Read/write. `create`: must not exist yet."""
        ...

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def listdir(self, path: str) -> list[str]:
        """Names, sorted. A folder that does not exist is empty."""
        ...

    def mkdir(self, path: str) -> None:
        """With parents; no error when it exists."""
        ...

    def sync_dir(self, path: str) -> None:
        """Makes creations, renames and removals in the folder durable."""
        ...

    def free_bytes(self, path: str) -> int: ...
    def lock(self, path: str) -> File:
        """Opens (or makes) the file and holds it exclusively until it is closed or the process ends.

        BlockingIOError when another holds it."""
        ...


def read_whole(path: str, most: int = 1 << 62) -> bytes:
    """A small file that is only read: configuration, certificates. It may lie on a read-only mount, which `open`
    (read/write) would refuse. most: bytes that are looked at. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while most > 0 and (piece := os.read(fd, min(most, 1 << 16))):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def mode(path: str) -> int:
    """Its permission bits; 0 when it is not there."""
    try:
        return os.stat(path).st_mode & 0o777
    except OSError:
        return 0


def fingerprint(path: str) -> tuple[int, int, int] | None:
    """Changes whenever the file is replaced or rewritten (inode, mtime, size); None when it is not there."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class OsFile:
    """A real file."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def pread(self, n: int, offset: int) -> bytes:
        return os.pread(self.fd, n, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        return os.pwrite(self.fd, data, offset)

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        os.close(self.fd)


class OsFiles:
    """The real file system."""

    def open(self, path: str, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        return OsFile(os.open(path, flags, 0o600))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def mkdir(self, path: str) -> None:
        os.makedirs(path, mode=0o700, exist_ok=True)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, path: str) -> int:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def lock(self, path: str) -> OsFile:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return OsFile(fd)


@contextmanager
def reached(path: str) -> Iterator[str]:
    """The path as the address of a unix socket, to bind or to connect: a long one goes by its folder."""
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def open_file_limit() -> int:
    """How many files and sockets this process may have open; raised to what it is allowed to give itself first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS allows less than it says
            return soft
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def temporary_file(folder: str = "") -> OsFile:
    """An unnamed file that is gone when it is closed, or when the process ends. `folder`: made if need be; "": the
    system's for such files."""
    if folder:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    fd, path = tempfile.mkstemp(prefix="stampede-", dir=folder or None)
    os.unlink(path)
    return OsFile(fd)


def open_for_reading(path: str) -> OsFile:
    """A file of the user's (not of the data folder)."""
    return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def open_for_writing(path: str) -> OsFile:
    """A file of the user's, made or emptied, with the permissions of their umask."""
    return OsFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666))


def replace_whole(path: str, data: bytes) -> None:
    """The file holds just `data` when this returns, durably; a process that reads it (or starts after a crash)
    meanwhile finds all of the old or all of the new. Mode 0600. Raises OSError."""
    files = OsFiles()
    folder = os.path.dirname(path) or "."
    new = f"{path}.{token(4)}.new"
    files.mkdir(folder)
    file = files.open(new, create=True)
    try:
        done = 0
        while done < len(data):
            done += file.pwrite(data[done:], done)
        file.sync()
        files.rename(new, path)
    except BaseException:
        files.remove(new)
        raise
    finally:
        file.close()
    files.sync_dir(folder)
