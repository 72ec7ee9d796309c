"""Where an archive lies: a folder of this machine, or what Spark's file systems reach (hadoop.py).

A store has one thing that must not go wrong: `create`, which makes a file whole or fails because the name is taken.
That is the commit of a manifest. The rest may be done again.

Rule: names are relative to the archive. Knows files, not what is in them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from broker.seams.files import OsFile, OsFiles, read_whole

from ..errors import PipelineError
from .files import remove, write_pieces

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/")


def remote(folder: str) -> bool:
    """Is it a name for Spark's file systems, such as s3a://bucket/lake."""
    return bool(_SCHEME.match(folder)) and not folder.startswith("file:/")


class Lock(Protocol):
    """Held by who writes."""

    def renew(self) -> None:
        """Before something is made true. Raises PipelineError when somebody else has taken over."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """All may raise OSError or PipelineError."""

    remote: bool

    def path(self, relative: str) -> str:
        """As Spark and others open it."""
        ...

    def read(self, relative: str) -> bytes: ...
    def names(self, folder: str) -> list[str]:
        """In order; of a folder that is not there none."""
        ...

    def exists(self, relative: str) -> bool: ...
    def remove(self, relative: str) -> None:
        """A file or a whole folder; it may be gone."""
        ...

    def write(self, relative: str, pieces: Iterable[bytes]) -> None:
        """Replaces what is there."""
        ...

    def create(self, relative: str, data: bytes) -> None:
        """Whole or not at all. Raises FileExistsError when the name is taken."""
        ...

    def lock(self) -> Lock:
        """Raises PipelineError when somebody else holds it."""
        ...

    def free(self) -> int | None:
        """Bytes; None: nobody can say."""
        ...


class LocalLock:
    """Of the operating system: nobody takes it over."""

    def __init__(self, file: OsFile) -> None:
        self._file = file

    def renew(self) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        self._file.close()


class LocalStore:
    """A folder of a file system with atomic rename and hard links."""

    remote = False

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder.removeprefix("file://").removeprefix("file:")).absolute()

    def path(self, relative: str) -> str:
        return str(self.folder / relative)

    def read(self, relative: str) -> bytes:
        return read_whole(self.path(relative))

    def names(self, folder: str) -> list[str]:
        path = self.folder / folder
        return sorted(os.listdir(path)) if path.exists() else []

    def exists(self, relative: str) -> bool:
        return os.path.exists(self.path(relative))

    def remove(self, relative: str) -> None:
        path = self.path(relative)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            remove(path)

    def write(self, relative: str, pieces: Iterable[bytes]) -> None:
        write_pieces(self.path(relative), pieces)

    def create(self, relative: str, data: bytes) -> None:
        """A link to a file that is on the disk: it appears whole, and fails when the name is taken."""
        name = self.path(relative)
        beside = self.path(f"_staging/{os.path.basename(relative)}")
        write_pieces(beside, [data])
        os.makedirs(os.path.dirname(name), exist_ok=True)
        os.link(beside, name)
        OsFiles().sync_dir(os.path.dirname(name))

    def lock(self) -> LocalLock:
        os.makedirs(self.folder, exist_ok=True)
        try:
            return LocalLock(OsFiles().lock(self.path(".lock")))
        except BlockingIOError:
            raise PipelineError(f"{self.folder}: another run is writing this archive; wait for it") from None
        except OSError as error:
            raise PipelineError(f"{self.folder}: {error.strerror}") from None

    def free(self) -> int:
        return shutil.disk_usage(self.folder).free


def store(folder: str, spark: Any = None) -> Store:
    """`spark`: the session by whose file systems a remote one is reached."""
    if not remote(folder):
        return LocalStore(folder)
    if spark is None:
        raise PipelineError(f"{folder} is reached by Spark's file systems only, and there is no session")
    from .hadoop import HadoopStore

    return HadoopStore(spark, folder)
