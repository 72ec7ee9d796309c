"""`stampede backup` of a broker that may be running, and `stampede restore`.

Rule: the broker is not asked and does not wait; nothing is said to be there before it is on the disk. Messages for
people go to stderr when the backup itself goes to stdout.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from threading import Event
from typing import IO, Any, Final

import click

from broker.core.errors import JournalError
from broker.seams.clock import SystemClock
from broker.seams.files import OsFile, OsFiles, open_file_limit, open_for_reading

from .data_cli import folder_of, told
from .options import Misuse, settings_of, source_options

_LOST: Final = 3
_PIECE: Final = 1 << 20
_SHORT_S: Final = 0.02
"""How long a step waits that found somebody else at work; less is not worth a pause."""


class _Pace:
    """No more than so many bytes a second: the broker's own writes go first."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._clock = SystemClock()
        self._due = 0.0
        self._sleep = Event().wait

    def __call__(self, nbytes: int) -> None:
        if nbytes < 0:
            self._sleep(_SHORT_S)
        if nbytes <= 0 or not self._rate:
            return
        now = self._clock.monotonic()
        self._due = max(self._due, now) + nbytes / self._rate
        if self._due - now > _SHORT_S:
            self._sleep(self._due - now)


class _Pieces(io.RawIOBase):
    """What comes in pieces, for a reader that asks for bytes."""

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


class _In(io.RawIOBase):
    def __init__(self, file: OsFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.pread(len(buffer), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _TarTarget:
    """One tar file (or stdout), `journal/…` inside, as it would lie in a data folder."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: OsFile | None = None
        self._raw: _Out | None = None
        if path == "-":
            out: IO[bytes] = sys.stdout.buffer
        else:
            if os.path.lexists(path):
                raise Misuse(f"{path} exists already.")
            if os.path.lexists(path + ".partial"):
                os.unlink(path + ".partial")
            self._file = OsFiles().open(path + ".partial", create=True)
            self._raw = _Out(self._file)
            out = io.BufferedWriter(self._raw, _PIECE)
        self._out = out
        self._tar = tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - finish() closes it

    def begin(self, nbytes: int) -> None:
        if self._path != "-":
            free = OsFiles().free_bytes(os.path.dirname(self._path) or ".")
            if nbytes > free:
                raise JournalError(f"{self._path}: {nbytes} bytes are to be copied, and there is room for {free}")

    def file(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        info = tarfile.TarInfo(f"journal/{name}")
        info.size, info.mode, info.mtime = size, 0o600, SystemClock().wall_ms() // 1000
        self._tar.addfile(info, io.BufferedReader(_Pieces(pieces), _PIECE))

    def finish(self) -> None:
        self._tar.close()
        self._out.flush()
        if self._file is not None:
            self._file.sync()
            self._file.close()
            os.rename(self._path + ".partial", self._path)
            OsFiles().sync_dir(os.path.dirname(self._path) or ".")

    def abandon(self) -> None:
        if self._raw is not None:
            self._raw.let_go()
            self._tar.close()
            self._out.close()
        if self._file is not None:
            self._file.close()
            os.unlink(self._path + ".partial")


def _tarred(path: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The files of a backup in a tar file. Nothing is unpacked by a name that stands in it."""
    file = None if path == "-" else open_for_reading(path)
    source: IO[bytes] = sys.stdin.buffer if file is None else io.BufferedReader(_In(file), _PIECE)
    try:
        with tarfile.open(fileobj=source, mode="r|*") as tar:
            for info in tar:
                content = tar.extractfile(info) if info.isreg() else None
                if content is None or not info.name.startswith("journal/"):
                    raise JournalError(f"{info.name[:100]!r} is no file of a backup")
                yield info.name.removeprefix("journal/"), iter(lambda: content.read(_PIECE), b"")  # noqa: B023 - at once
    except tarfile.TarError as error:
        raise JournalError(f"{path}: {error}") from None
    finally:
        if file is not None:
            file.close()


@click.command("backup")
@click.argument("target")
@click.option("--rate", default=200, metavar="MB", help="Megabytes copied per second at most; 0: as fast as it goes.")
@source_options
def backup(target: str, rate: int, **options: Any) -> None:
    """Copy the journal of a broker, which may be running, as it was at one moment.

    TARGET is a data folder or a .tar file that does not exist yet, or - for a tar on stdout. Everything that was
    receipted before, and not acknowledged by then, is in it once, and nothing later. Run it where the broker runs, as
    the same user. Exit status 3: large bodies are damaged, and missing in the backup."""
    from broker.journal.tools.backup import take
    from broker.journal.tools.restore import FolderTarget

    folder = folder_of(options)
    settings = settings_of(**options).journal
    open_file_limit()
    with told():
        tar = target == "-" or target.endswith(".tar")
        sink = _TarTarget(target) if tar else FolderTarget(OsFiles(), os.path.join(target, "journal"))
        try:
            done = take(
                OsFiles(), folder, sink, _Pace(rate * 1_000_000), SystemClock().wall_ms, settings.min_free_bytes
            )
            sink.finish()
        except BaseException:
            sink.abandon()
            raise
    err = target == "-"
    size = sum(done.files.values())
    click.echo(f"backup of {folder}: {len(done.files)} files, {size / 1e6:.1f} MB, {done.messages} messages", err=err)
    click.echo(_position(done.segment, done.offset, done.batch, done.taken_ms), err=err)
    for line in done.lost:
        click.echo(f"LOST: {line}", err=True)
    raise SystemExit(_LOST if done.lost else 0)


def _position(segment: int, offset: int, batch: int, taken_ms: int) -> str:
    moment = datetime.fromtimestamp(taken_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"position: segment {segment:x}, offset {offset}, batch {batch}; {moment}"


@click.command("restore")
@click.argument("source")
@click.option(
    "--whole-cluster",
    is_flag=True,
    help="For an owner: all owners are restored, and etcd from a snapshot that is older than these backups.",
)
@source_options
def restore(source: str, whole_cluster: bool, **options: Any) -> None:
    """Make the journal of a data folder that has none (--data) from a backup, and check every byte.

    SOURCE is what `stampede backup` has written: a folder, a tar file (also compressed), or - for stdin."""
    from broker.journal.tools.restore import files_of, restore

    if source != "-" and not os.path.lexists(source):
        raise Misuse(f"There is no {source}.")
    folder = os.path.join(settings_of(**options).data, "journal")
    files = OsFiles()
    with told():
        inside = files_of(files, os.path.join(source, "journal")) if os.path.isdir(source) else _tarred(source)
        done = restore(files, inside, folder, marked=not whole_cluster)
    click.echo(f"restored into {folder}: {len(done.files)} files, {done.messages} messages")
    click.echo(_position(done.segment, done.offset, done.batch, done.taken_ms))
    for line in done.lost:
        click.echo(f"LOST: {line}", err=True)
