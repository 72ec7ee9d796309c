"""`backup` and `restore`: into a folder, a tar file or a pipe; nothing half done is left under a good name."""

from __future__ import annotations

import io
import json
import os
import tarfile
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from broker.app.commands import backup_cli as subject
from broker.app.commands.backup_cli import backup, restore
from broker.app.copies import places
from broker.core.errors import JournalError
from broker.journal.journal import Journal
from broker.journal.tools import backup as tool
from broker.seams.files import OsFiles
from tests.unit.journal.support import live_ids, put, sent, settings


@pytest.fixture
def data(tmp_path):
    """A data folder with seven messages, of a broker that has ended."""
    folder = tmp_path / "data/journal"
    journal = Journal.open(OsFiles(), str(folder), settings())
    put(journal, sent(1, *[b"%d" % n * 300 for n in range(7)]))
    journal.close(clean=True)
    return tmp_path / "data"


def run(command, *args: object, stdin: bytes | None = None):
    return CliRunner().invoke(command, [str(each) for each in args], input=stdin)


def kept(folder) -> list[int]:
    journal = Journal.open(OsFiles(), str(folder / "journal"), settings())
    try:
        return live_ids(journal)
    finally:
        journal.close(clean=True)


@pytest.mark.parametrize("target", ["copy", "copy.tar"])
def test_what_was_there_is_there_again(data, tmp_path, target):
    done = run(backup, tmp_path / target, "--data", data)
    assert done.exit_code == 0 and "7 messages" in done.stdout and "position: segment" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["data", target]), "and nothing beside it"
    done = run(restore, tmp_path / target, "--data", tmp_path / "new")
    assert done.exit_code == 0 and "7 messages" in done.stdout
    assert kept(tmp_path / "new") == list(range(1, 8))


def test_through_a_pipe_nothing_but_the_backup_goes(data, tmp_path):
    done = run(backup, "-", "--data", data)
    assert done.exit_code == 0 and "7 messages" in done.stderr and b"7 messages" not in done.stdout_bytes
    done = run(restore, "-", "--data", tmp_path / "new", stdin=done.stdout_bytes)
    assert done.exit_code == 0, done.output
    assert kept(tmp_path / "new") == list(range(1, 8))


@pytest.mark.parametrize(("whole", "marked"), [((), True), (("--whole-cluster",), False)])
def test_a_copy_says_that_it_is_one_unless_the_whole_cluster_goes_back(data, tmp_path, whole, marked):
    """The others of a cluster believe that this owner still has what it had."""
    run(backup, tmp_path / "copy", "--data", data)
    assert run(restore, tmp_path / "copy", "--data", tmp_path / "new", *whole).exit_code == 0
    assert (tmp_path / "new/journal" / tool.STATEMENT).exists() is marked


def test_a_name_that_is_taken_is_not_overwritten(data, tmp_path):
    (tmp_path / "copy.tar").write_bytes(b"mine")
    done = run(backup, tmp_path / "copy.tar", "--data", data)
    assert done.exit_code == 2 and "exists already" in done.output
    assert (tmp_path / "copy.tar").read_bytes() == b"mine"
    (tmp_path / "copy/journal").mkdir(parents=True)
    (tmp_path / "copy/journal/mine").write_bytes(b"mine")
    assert run(backup, tmp_path / "copy", "--data", data).exit_code == 1
    assert [path.name for path in (tmp_path / "copy/journal").iterdir()] == ["mine"]


def test_what_an_earlier_one_left_half_done_is_in_nobodys_way(data, tmp_path):
    (tmp_path / "copy.tar.partial").write_bytes(b"x" * 100_000)
    assert run(backup, tmp_path / "copy.tar", "--data", data).exit_code == 0
    assert run(restore, tmp_path / "copy.tar", "--data", tmp_path / "new").exit_code == 0


@pytest.mark.parametrize("target", ["copy", "copy.tar"])
def test_what_fails_leaves_nothing_behind(data, tmp_path, monkeypatch, target):
    def broken(files, folder, sink, *_):
        sink.begin(10)
        sink.file("identity", 3, [b"abc"])
        raise JournalError("the disk is damaged")

    monkeypatch.setattr(tool, "take_backup", broken)
    done = run(backup, tmp_path / target, "--data", data)
    assert done.exit_code == 1 and "the disk is damaged" in done.output
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and data not in path.parents]


def test_more_than_there_is_room_for_is_not_begun(data, tmp_path, monkeypatch):
    class Full(OsFiles):
        def free_bytes(self, path: str) -> int:
            return 1000

    monkeypatch.setattr(places, "OsFiles", Full)
    done = run(backup, tmp_path / "copy.tar", "--data", data)
    assert done.exit_code == 1 and "there is room for 1000" in done.output
    assert not list(tmp_path.glob("copy.tar*"))


def test_large_bodies_that_are_missing_are_a_status_of_its_own(data, tmp_path, monkeypatch):
    def fake(*_):
        return SimpleNamespace(files={"a": 5}, messages=1, segment=255, offset=7, batch=2, taken_ms=0, lost=["body 12"])

    monkeypatch.setattr(tool, "take_backup", fake)
    done = run(backup, tmp_path / "copy.tar", "--data", data)
    assert done.exit_code == 3 and done.stderr == "LOST: body 12\n"
    assert "position: segment ff, offset 7, batch 2; 1970-01-01T00:00:00.000Z" in done.stdout


def tar(path, **files: bytes):
    with tarfile.open(path, "w") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(text)
            made.addfile(info, io.BytesIO(text))


@pytest.mark.parametrize("name", ["passwd", "journal/../../passwd", "journal//passwd"])
def test_a_file_that_is_none_of_a_backup_is_written_nowhere(tmp_path, name):
    tar(tmp_path / "evil.tar", **{name.replace("/", "__"): b"x"})
    done = run(restore, tmp_path / "evil.tar", "--data", tmp_path / "new")
    assert done.exit_code == 1 and "is no file of a backup" in done.output
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "evil.tar"]


def test_a_link_in_a_tar_file_is_not_followed(tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as made:
        info = tarfile.TarInfo("journal/identity")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(info)
    done = run(restore, tmp_path / "evil.tar", "--data", tmp_path / "new")
    assert done.exit_code == 1 and "is no file of a backup" in done.output


def test_what_is_no_backup_is_refused_in_one_line(data, tmp_path):
    assert run(restore, tmp_path / "none", "--data", tmp_path / "new").exit_code == 2
    (tmp_path / "text.tar").write_text("a letter")
    done = run(restore, tmp_path / "text.tar", "--data", tmp_path / "new")
    assert done.exit_code == 1 and done.output.count("\n") == 1
    assert run(backup, tmp_path / "copy", "--data", tmp_path / "none").exit_code == 2
    run(backup, tmp_path / "copy.tar", "--data", data)
    done = run(restore, tmp_path / "copy.tar", "--data", data)
    assert done.exit_code == 1 and kept(data) == list(range(1, 8)), "a journal in use is not replaced"


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


def pace(rate: int):
    """(pace, its clock, what it has slept)"""
    found, clock, slept = subject._Pace(rate), Clock(), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    found._clock, found._sleep = clock, sleep
    return found, clock, slept


def test_no_more_is_copied_than_was_asked_for():
    found, clock, _ = pace(1000)
    for _ in range(100):
        found(50)
    assert 4.9 < clock.now - 100 <= 5.0


def test_small_pieces_are_not_waited_for_one_by_one():
    found, _, slept = pace(1_000_000)
    for _ in range(100):
        found(1000)
    assert len(slept) <= 5 and 0.06 < sum(slept) < 0.1001


def test_time_in_which_nothing_was_copied_is_not_made_up_for():
    found, clock, slept = pace(1000)
    clock.now += 60
    found(1000)
    assert slept == [1.0]


def test_without_a_rate_nothing_waits_but_for_somebody_else_at_work():
    found, _, slept = pace(0)
    found(10**9)
    assert slept == []
    found(-1)
    assert slept == [subject._SHORT_S]


def test_the_file_of_a_tar_is_synced_before_it_has_its_name(data, tmp_path, monkeypatch):
    done: list[str] = []
    rename, open = os.rename, OsFiles.open

    class Files(OsFiles):
        def open(self, path, create=False):
            file = open(self, path, create=create)
            sync = file.sync

            def noted() -> None:
                done.append("sync")
                sync()

            if path.endswith(".tar.partial"):
                return SimpleNamespace(pwrite=file.pwrite, sync=noted, close=file.close)
            return file

        def sync_dir(self, path: str) -> None:
            done.append("folder")

    monkeypatch.setattr(places, "OsFiles", Files)
    monkeypatch.setattr(places.os, "rename", lambda a, b: (done.append("rename"), rename(a, b))[1])
    assert run(backup, tmp_path / "copy.tar", "--data", data).exit_code == 0
    assert done == ["sync", "rename", "folder"]


def test_whoever_started_it_is_told_what_was_done_or_why_not(data, tmp_path):
    """As a container's last words."""
    words = tmp_path / "words"
    assert run(backup, tmp_path / "copy.tar", "--data", data, "--report", words).exit_code == 0
    told = json.loads(words.read_text())
    assert told["messages"] == 7 and told["bytes"] > 2000 and told["takenMs"] > 10**12 and told["lost"] == 0
    assert run(backup, tmp_path / "copy.tar", "--data", data, "--report", words).exit_code == 2
    assert "exists already" in json.loads(words.read_text())["error"]
    assert run(restore, tmp_path / "copy.tar", "--data", tmp_path / "new", "--report", words).exit_code == 0
    assert json.loads(words.read_text())["messages"] == 7


def test_restoring_once_more_is_no_fault_of_the_same_backup_and_one_of_another(data, tmp_path):
    """A pod that had restored and was taken away before anybody saw it is started again."""
    run(backup, tmp_path / "copy.tar", "--data", data)
    again = restore, tmp_path / "copy.tar", "--data", tmp_path / "new", "--unless-restored"
    assert run(*again).exit_code == 0
    done = run(*again)
    assert done.exit_code == 0 and "already" in done.stdout and kept(tmp_path / "new") == list(range(1, 8))
    other = tmp_path / "other/journal"
    Journal.open(OsFiles(), str(other), settings()).close(clean=True)
    done = run(*again[:3], tmp_path / "other", "--unless-restored")
    assert done.exit_code == 1 and "is not empty" in done.output


def test_an_object_is_one_file(data):
    done = run(backup, "s3://bucket/copy", "--data", data)
    assert done.exit_code == 2 and "has to end with .tar" in done.output
