"""A backup as one tar file: nothing half done is left, and a name that stands in one leads nowhere."""

from __future__ import annotations

import gc
import io
import os
import tarfile
from types import SimpleNamespace

import pytest

from broker.app.copies.places import place_of
from broker.app.copies.tars import TarTarget, tarred
from broker.core.errors import JournalError


def test_what_goes_in_comes_out(tmp_path):
    target = TarTarget(place_of(str(tmp_path)), "copy.tar")
    target.begin(10)
    target.file("identity", 3, [b"ab", b"c"])
    target.file("blobs/1", 0, [])
    assert not (tmp_path / "copy.tar").exists()
    target.finish()
    with open(tmp_path / "copy.tar", "rb") as file:
        found = [(name, b"".join(pieces)) for name, pieces in tarred(file, "copy.tar")]
    assert found == [("identity", b"abc"), ("blobs/1", b"")]


def test_what_is_no_file_of_a_backup_is_refused():
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("etc/passwd"))
    with pytest.raises(JournalError, match="no file of a backup"):
        list(tarred(io.BytesIO(made.getvalue()), "x"))
    with pytest.raises(JournalError, match="x: "):
        list(tarred(io.BytesIO(b"a letter"), "x"))


def test_what_a_tar_that_failed_had_in_memory_goes_into_nobodys_file(tmp_path):
    """A writer that is forgotten writes what it has left; the number of its file may be another one's by then."""
    target = TarTarget(place_of(str(tmp_path)), "copy.tar")
    target.file("identity", 3, [b"abc"])
    number = target._writer._file.fd
    target.abandon()
    (tmp_path / "mine").write_bytes(b"mine")
    with open(tmp_path / "mine", "rb+") as mine:
        assert mine.fileno() == number, "else this test says nothing"
        del target
        gc.collect()
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_disk_that_is_full_when_it_is_given_up_keeps_nothing_either(tmp_path):
    target = TarTarget(place_of(str(tmp_path)), "copy.tar")
    target.file("identity", 3, [b"abc"])

    def full(data, at):
        raise OSError(28, "No space left on device")

    writer = target._writer
    file = writer._file
    writer._file = writer._raw._file = SimpleNamespace(pwrite=full, close=file.close)
    target.abandon()
    assert not os.listdir(tmp_path)
