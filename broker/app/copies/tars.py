"""A backup of one journal as a tar file: written from front to back, read the same way.

Rule: nothing is unpacked by a name that stands in it, and what fails leaves no file under a good name.
"""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Iterable, Iterator
from typing import IO

from broker.core.errors import JournalError
from broker.seams.clock import SystemClock

from .places import PIECE, CopyPlace, Writer, joined


class _Stdout:
    """Nothing can be taken back from there."""

    stream: IO[bytes]

    def __init__(self) -> None:
        self.stream = sys.stdout.buffer

    def finish(self) -> None:
        self.stream.flush()

    def abandon(self) -> None:
        pass


class TarTarget:
    """`journal/…` inside, as it would lie in a data folder. place None: stdout."""

    def __init__(self, place: CopyPlace | None, name: str) -> None:
        """Raises FileExistsError, JournalError."""
        self._place = place
        self._name = name
        self._writer: Writer = _Stdout() if place is None else place.writer(name)
        self._tar = tarfile.open(fileobj=self._writer.stream, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - finish() closes it

    def begin(self, nbytes: int) -> None:
        free = self._place.room() if self._place is not None else None
        if free is not None and nbytes > free:
            raise JournalError(f"{self._name}: {nbytes} bytes are to be copied, and there is room for {free}")

    def file(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        info = tarfile.TarInfo(f"journal/{name}")
        info.size, info.mode, info.mtime = size, 0o600, SystemClock().wall_ms() // 1000
        self._tar.addfile(info, joined(pieces))

    def finish(self) -> None:
        self._tar.close()
        self._writer.finish()

    def abandon(self) -> None:
        self._writer.abandon()
        if self._place is not None:
            self._tar.close()


def tarred(stream: IO[bytes], named: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The files of a backup in a tar file, which may be compressed. Raises JournalError."""
    try:
        with tarfile.open(fileobj=stream, mode="r|*") as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                if content is None or not info.name.startswith("journal/"):
                    raise JournalError(f"{info.name[:100]!r} is no file of a backup")
                yield info.name.removeprefix("journal/"), iter(lambda: content.read(PIECE), b"")  # noqa: B023 - at once
    except tarfile.TarError as error:
        raise JournalError(f"{named}: {error}") from None
