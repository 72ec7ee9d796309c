"""Large bodies in files: in pieces by a thread, and who has got the first byte gets the last."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal, JournalDead, JournalError, JournalFull
from broker.core.message import Blob
from broker.owner.bodies.bodies import FileBodyReader, FileBodyWriter

from .hand_io import HandIo

BODY = Blob(7, 10)


class File:
    """A file of a body, to be written or read; `bad`: name of the call that fails → its error."""

    def __init__(self, data: bytes = b"0123456789", **bad: Exception) -> None:
        self.data = data
        self.bad = bad
        self.log: list[object] = []

    def _does(self, what: str, *more: object) -> None:
        self.log.append((what, *more))
        if what in self.bad:
            raise self.bad[what]

    def create(self):
        return self

    def open(self, id, length):
        self._does("open", id, length)
        return self

    def write(self, data):
        self._does("write", data)

    def finish(self, sync):
        self._does("finish", sync)
        return BODY

    def abort(self):
        self._does("abort")

    def check(self, at):
        self._does("check", at)
        return min(at + 4, len(self.data))

    def read(self, at, n):
        self._does("read", at, n)
        return self.data[at : at + n]

    def close(self):
        self._does("close")

    def did(self) -> list[str]:
        return [what for what, *_ in self.log]


class Writing:
    def __init__(self, **bad: Exception) -> None:
        self.file, self.io, self.drained, self.told = File(**bad), HandIo(), [], []
        self.writer = FileBodyWriter(
            self.file, self.io, lambda: self.drained.append(self.writer.pending), lambda text: f"broken: {text}"
        )

    def finish(self, sync: bool = True) -> list:
        self.writer.finish(sync, lambda *told: self.told.append(told))
        self.io.all()
        return self.told


def test_what_is_under_way_is_known_and_told_as_it_gets_less():
    writing = Writing()
    writing.writer.write(b"one")
    writing.writer.write(b"three")
    assert writing.writer.pending == 8 and not writing.file.log, "nothing in the caller's thread"
    writing.io.all()
    assert writing.drained == [5, 0]
    assert writing.finish(sync=False) == [(BODY, "")] and writing.file.log[-1] == ("finish", False)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"write": JournalFull("no room")}, "no room"),
        ({"write": JournalDead("EIO")}, "broken: EIO"),
        ({"finish": JournalFull("no room")}, "no room"),
        ({"write": JournalFull("no room"), "finish": JournalDead("EIO")}, "no room"),
        ({"write": OSError()}, "OSError"),
    ],
)
def test_the_first_error_counts_is_told_once_and_the_file_goes(bad, text):
    writing = Writing(**bad)
    writing.writer.write(b"one")
    writing.io.all()
    assert writing.writer.pending == 0, "what failed is not under way any more"
    assert writing.finish() == [(None, text)] and writing.file.did()[-1] == "abort"


class Reading:
    def __init__(self, offset: int = 0, **bad: Exception) -> None:
        self.file, self.io, self.told = File(**bad), HandIo(), []
        self.reader = FileBodyReader(self.file, self.io, BODY, lambda text: f"lost: {text}", offset)

    def read(self, n: int) -> object:
        self.reader.read(n, lambda *told: self.told.append(told))
        assert len(self.told) == len(self.told) and self.io.jobs, "never from within the call"
        self.io.all()
        return self.told[-1]


def test_all_of_it_is_looked_at_before_the_first_byte_goes_out():
    reading = Reading()
    assert reading.read(6) == (b"012345", "")
    assert reading.file.log == [("open", 7, 10), ("check", 0), ("check", 4), ("check", 8), ("read", 0, 6)]
    assert reading.read(6) == (b"6789", "") and reading.read(6) == (b"", "")
    assert reading.file.did().count("check") == 3, "once"


def test_it_begins_where_an_earlier_transfer_stopped():
    assert Reading(offset=8).read(6) == (b"89", "")


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"open": CorruptJournal("rot")}, "lost: rot"),
        ({"open": JournalError("shut")}, "shut"),
        ({"check": CorruptJournal("rot")}, "lost: rot"),
        ({"read": CorruptJournal("rot")}, "lost: rot"),
        ({"read": OSError("EIO")}, "EIO"),
    ],
)
def test_what_cannot_be_read_is_told_by_the_first_read(bad, text):
    reading = Reading(**bad)
    assert reading.read(6) == (None, text)
    if "check" in bad:
        assert "read" not in reading.file.did(), "nobody gets half of it"


def test_it_is_closed_by_the_thread_and_one_that_never_opened_is_not():
    reading = Reading()
    reading.reader.close()
    reading.io.all()
    assert reading.file.did() == ["open", "close"]
    shut = Reading(open=JournalError("shut"))
    shut.reader.close()
    assert not shut.io.jobs
