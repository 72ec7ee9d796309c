"""`stampede backup` of a broker that may be running, and `stampede restore`.

Rule: the broker is not asked and does not wait; nothing is said to be there before it is on the disk. Messages for
people go to stderr when the backup itself goes to stdout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event
from typing import IO, TYPE_CHECKING, Any, Final

import click
import msgspec

from broker.core.errors import JournalError
from broker.seams.clock import SystemClock
from broker.seams.files import OsFiles, open_file_limit, open_for_writing

from ..process.shell_audit import changes
from .data_cli import folder_of, told
from .options import Misuse, settings_of, source_options

if TYPE_CHECKING:
    from broker.app.copies.tars import TarTarget
    from broker.journal.tools.restore import FolderTarget

_LOST: Final = 3
_REPORT_BYTES: Final = 4000
"""What Kubernetes takes of a container's last words is 4,096."""
_SHORT_S: Final = 0.02
"""How long a step waits that found other work on the loop; less is not worth a pause."""


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


@contextmanager
def reported(path: str | None) -> Iterator[dict[str, Any]]:
    """What is put into the dictionary, or why it failed, as JSON in that file: for what started this process."""
    report: dict[str, Any] = {}
    try:
        yield report
    except click.ClickException as error:
        report = {"error": error.message[: _REPORT_BYTES - 100]}
        raise
    except Exception as error:
        report = {"error": repr(error)[: _REPORT_BYTES - 100]}
        raise
    finally:
        if path is not None:
            file = open_for_writing(path)
            file.pwrite(msgspec.json.encode(report)[:_REPORT_BYTES], 0)
            file.close()


report_option = click.option("--report", metavar="FILE", help="Also write what was done, or why not, there as JSON.")


@click.command("backup")
@click.argument("target")
@click.option("--rate", default=200, metavar="MB", help="Megabytes copied per second at most; 0: as fast as it goes.")
@report_option
@source_options
def backup(target: str, rate: int, report: str | None, **options: Any) -> None:
    """Copy the journal of a broker, which may be running, as it was at one moment.

    TARGET is a data folder or a .tar file that does not exist yet, an object such as s3://bucket/folder/monday.tar, or
    - for a tar on stdout. Everything that was receipted before, and not acknowledged by then, is in it once, and
    nothing later. Run it where the broker runs, as the same user. Exit status 3: large bodies are damaged, and missing
    in the backup."""
    from broker.journal.tools.backup import take_backup

    with reported(report) as found:
        folder = folder_of(options)
        settings = settings_of(**options).journal
        open_file_limit()
        with told():
            sink = _target(target)
            try:
                done = take_backup(
                    OsFiles(), folder, sink, _Pace(rate * 1_000_000), SystemClock().wall_ms, settings.min_free_bytes
                )
                sink.finish()
            except BaseException:
                sink.abandon()
                raise
        size = sum(done.files.values())
        found |= {"bytes": size, "messages": done.messages, "takenMs": done.taken_ms, "lost": len(done.lost)}
    err = target == "-"
    click.echo(f"backup of {folder}: {len(done.files)} files, {size / 1e6:.1f} MB, {done.messages} messages", err=err)
    click.echo(_position(done.segment, done.offset, done.batch, done.taken_ms), err=err)
    for line in done.lost:
        click.echo(f"LOST: {line}", err=True)
    raise SystemExit(_LOST if done.lost else 0)


def _target(target: str) -> TarTarget | FolderTarget:
    from broker.app.copies.places import is_url, place_of, split
    from broker.app.copies.tars import TarTarget
    from broker.journal.tools.restore import FolderTarget

    if target == "-":
        return TarTarget(None, target)
    if not target.endswith(".tar"):
        if is_url(target):
            raise Misuse(f"{target} has to end with .tar: an object is one file.")
        return FolderTarget(OsFiles(), os.path.join(target, "journal"))
    place, name = split(target)
    try:
        return TarTarget(place_of(place), name)
    except FileExistsError:
        raise Misuse(f"{target} exists already.") from None


def _position(segment: int, offset: int, batch: int, taken_ms: int) -> str:
    moment = datetime.fromtimestamp(taken_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"position: segment {segment:x}, offset {offset}, batch {batch}; {moment}"


@click.command("restore")
@click.argument("source")
@click.option(
    "--whole-cluster",
    is_flag=True,
    help="For an owner: all owners are restored, and etcd from a copy that is older than these backups.",
)
@click.option(
    "--unless-restored", is_flag=True, help="A data folder that was restored from this backup already is left as it is."
)
@report_option
@source_options
@changes("restore", "source")
def restore(source: str, whole_cluster: bool, unless_restored: bool, report: str | None, **options: Any) -> None:
    """Make the journal of a data folder that has none (--data) from a backup, and check every byte.

    SOURCE is what `stampede backup` has written: a folder, a tar file (also compressed), an object, or - for stdin."""
    from broker.journal.tools.restore import restore

    with reported(report) as found:
        folder = os.path.join(settings_of(**options).data, "journal")
        files = OsFiles()
        with told():
            if unless_restored and _is_of(source, folder):
                click.echo(f"{folder} was restored from it already")
                return
            done = restore(files, _inside(source), folder, marked=not whole_cluster)
        size = sum(done.files.values())
        found |= {"bytes": size, "messages": done.messages, "takenMs": done.taken_ms, "lost": len(done.lost)}
    click.echo(f"restored into {folder}: {len(done.files)} files, {done.messages} messages")
    click.echo(_position(done.segment, done.offset, done.batch, done.taken_ms))
    for line in done.lost:
        click.echo(f"LOST: {line}", err=True)


def _inside(source: str) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Names and contents of the files of a backup. Raises JournalError, click.ClickException."""
    from broker.app.copies.places import is_url, joined, place_of, split
    from broker.app.copies.tars import tarred
    from broker.journal.tools.restore import files_of

    if source == "-":
        return tarred(sys.stdin.buffer, source)
    if not is_url(source) and os.path.isdir(source):
        return files_of(OsFiles(), os.path.join(source, "journal"))
    place, name = split(source)
    try:
        stream: IO[bytes] = joined(place_of(place).read(name))
    except FileNotFoundError:
        raise Misuse(f"There is no {source}.") from None
    return tarred(stream, source)


def _is_of(source: str, folder: str) -> bool:
    """The folder is a whole journal with the identity of the copied one: it got its name when it was checked."""
    from broker.seams.files import read_whole

    try:
        there = read_whole(os.path.join(folder, "identity"))
    except FileNotFoundError:
        return False
    for name, pieces in _inside(source):
        if name == "identity":
            return b"".join(pieces) == there
        for _ in pieces:
            pass
    raise JournalError(f"{source}: there is no `identity` in it")
