"""Lines that are added to a file: every one whole and in one file, whoever moves it meanwhile."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from broker.seams import line_file
from broker.seams.line_file import LineFile


def lines(folder: Path) -> list[str]:
    """All that was written, of all files together."""
    return [line for file in folder.iterdir() for line in file.read_text().splitlines()]


def test_a_line_is_there_at_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    file = LineFile(str(tmp_path / "audit"))
    file.write(b"one\n")
    assert (tmp_path / "audit").read_text() == "one\n" and (tmp_path / "audit").stat().st_mode & 0o777 == 0o600
    file.close()
    again = LineFile(str(tmp_path / "audit"))
    again.write(b"two\n")
    again.close()
    assert lines(tmp_path) == ["one", "two"]


def test_a_full_one_is_put_aside_and_so_many_are_kept(tmp_path: Path) -> None:
    file = LineFile(str(tmp_path / "audit"), 10, 2)
    for number in range(8):
        file.write(b"line%d\n" % number)
    file.write(b"longer than a file may be\n")
    file.close()
    told = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert told == {"audit": "longer than a file may be\n", "audit.1": "line7\n", "audit.2": "line6\n"}


def test_one_that_was_moved_or_removed_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    file = LineFile(str(path))
    file.write(b"one\n")
    path.rename(tmp_path / "audit.old")
    file.write(b"two\n")
    assert (tmp_path / "audit.old").read_text() == "one\n" and path.read_text() == "two\n"
    path.rename(tmp_path / "audit.older")
    path.write_text("made by logrotate\n")
    file.write(b"three\n")
    assert path.read_text() == "made by logrotate\nthree\n"
    path.unlink()
    file.write(b"four\n")
    assert path.read_text() == "four\n"
    file.close()


def test_nothing_is_lost_while_somebody_moves_it_again_and_again(tmp_path: Path) -> None:
    path, over = tmp_path / "audit", threading.Event()

    def moving() -> None:
        number = 0
        while not over.is_set():
            if path.exists():
                path.rename(tmp_path / f"moved.{number}")
                number += 1

    mover = threading.Thread(target=moving)
    mover.start()
    file = LineFile(str(path))
    for number in range(5000):
        file.write(b"%d\n" % number)
    over.set()
    mover.join()
    file.close()
    assert sorted(map(int, lines(tmp_path))) == list(range(5000))


def _writes(path: str, first: int) -> None:
    file = LineFile(path, 2000, 1000)
    for number in range(first, first + 1000):
        file.write(b"%d\n" % number)
    file.close()


def test_several_processes_put_it_aside_once_each_time_and_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_writes, args=(str(tmp_path / "audit"), 1000 * (1 + n))) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sorted(map(int, lines(tmp_path))) == list(range(1000, 4000))
    names = sorted(int(file.suffix[1:]) for file in tmp_path.iterdir() if file.suffix)
    assert names == list(range(1, len(names) + 1))


def test_after_a_full_disk_the_next_line_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LineFile(str(tmp_path / "audit"))
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 3:
            return real(fd, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(line_file.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        file.write(b"first\n")
    monkeypatch.setattr(line_file.os, "write", real)
    file.write(b"second\n")
    file.close()
    assert lines(tmp_path) == ["fir", "second"]


def test_half_a_line_of_another_process_or_of_one_that_is_gone_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit"
    one, other = LineFile(str(path)), LineFile(str(path))
    one.write(b"first\n")
    with path.open("ab") as cut:
        cut.write(b"ha")
    other.write(b"second\n")
    one.write(b"third\n")
    one.close()
    other.close()
    path.write_bytes(path.read_bytes() + b"ha")
    again = LineFile(str(path))
    again.write(b"fourth\n")
    again.close()
    assert lines(tmp_path) == ["first", "ha", "second", "third", "ha", "fourth"]


def test_a_folder_that_comes_back_is_written_to_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = LineFile(str(folder / "audit"))
    folder.rename(tmp_path / "gone")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.write(b"lost\n")
    folder.mkdir()
    file.write(b"there\n")
    file.close()
    assert (folder / "audit").read_text() == "there\n"


def test_one_that_cannot_be_put_aside_grows_and_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a mount itself, or its folder is not ours: every line from then on was lost."""

    def busy(old: str, new: str) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(line_file.os, "rename", busy)
    file = LineFile(str(tmp_path / "audit"), most=10)
    for number in range(5):
        file.write(b"line %d\n" % number)
    assert lines(tmp_path) == [f"line {number}" for number in range(5)]
    assert file.stuck() == "Device or resource busy" and file.stuck() == ""
    file.close()


def test_one_that_may_be_added_to_and_not_read_is_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a security module lets logs be appended only; the broker would not start for it."""
    opened = os.open

    def refused(path: str, flags: int, *more: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(path, flags, *more)

    monkeypatch.setattr(os, "open", refused)
    file = LineFile(str(tmp_path / "audit"))
    file.write(b"one\n")
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "audit").read_bytes() == b"one\ntwo\n"
