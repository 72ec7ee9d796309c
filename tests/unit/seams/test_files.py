"""Files: what is made, replaced and locked is so at once and for good, and nobody else may read it."""

from __future__ import annotations

import os
import resource

import pytest

from broker.seams import files
from broker.seams.files import (
    OsFile,
    OsFiles,
    fingerprint,
    mode,
    open_file_limit,
    open_for_reading,
    open_for_writing,
    read_whole,
    replace_whole,
    temporary_file,
)


@pytest.fixture(autouse=True)
def open_umask():
    """The modes are ours, not those of whoever runs the tests."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.fixture
def at(tmp_path):
    return lambda name: str(tmp_path / name)


def test_a_file_is_made_once_and_is_the_owners_only(at):
    disk = OsFiles()
    with pytest.raises(FileNotFoundError):
        disk.open(at("a"))
    file = disk.open(at("a"), create=True)
    assert mode(at("a")) == 0o600
    with pytest.raises(FileExistsError):
        disk.open(at("a"), create=True)
    assert file.pwrite(b"abcdef", 2) == 6 and file.size() == 8
    file.sync()
    file.truncate(4)
    file.close()
    again = disk.open(at("a"))
    assert again.pread(100, 0) == b"\0\0ab" and again.pread(2, 3) == b"b" and again.pread(2, 4) == b""
    again.close()


def test_folders(at):
    disk = OsFiles()
    assert disk.listdir(at("none")) == []
    disk.mkdir(at("x/y"))
    disk.mkdir(at("x/y"))
    assert mode(at("x/y")) == 0o700
    for name in ("b", "a", "B"):
        disk.open(at(f"x/{name}"), create=True).close()
    assert disk.listdir(at("x")) == ["B", "a", "b", "y"]
    disk.rename(at("x/a"), at("x/b"))
    disk.remove(at("x/B"))
    disk.sync_dir(at("x"))
    assert disk.listdir(at("x")) == ["b", "y"]
    with pytest.raises(NotADirectoryError):
        disk.listdir(at("x/b"))
    with pytest.raises(FileNotFoundError):
        disk.remove(at("x/B"))
    with pytest.raises(FileNotFoundError):
        disk.sync_dir(at("none"))


def test_free_bytes_are_those_that_are_there_for_us(at, monkeypatch):
    """Not those that root alone may have; of one look, since others write meanwhile."""
    now = os.statvfs(at("."))
    monkeypatch.setattr(os, "statvfs", lambda _: now)
    assert OsFiles().free_bytes(at(".")) == now.f_bavail * now.f_frsize


def test_a_lock_is_held_by_one_until_it_is_closed(at):
    disk = OsFiles()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    held = disk.lock(at("lock"))
    for _ in range(3):
        with pytest.raises(BlockingIOError):
            disk.lock(at("lock"))
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before + 1, "who does not get it leaves nothing open"
    held.close()
    disk.lock(at("lock")).close()
    assert mode(at("lock")) == 0o600


def test_a_file_is_read_whole_or_as_far_as_asked_and_may_be_read_only(at):
    data = bytes(range(256)) * 1024
    with open(at("a"), "wb") as file:
        file.write(data)
    os.chmod(at("a"), 0o400)
    assert read_whole(at("a")) == data
    for most in (0, 1, 1 << 16, (1 << 16) + 1, len(data), len(data) + 1):
        assert read_whole(at("a"), most) == data[:most]
    with pytest.raises(FileNotFoundError):
        read_whole(at("b"))


def test_a_fingerprint_changes_when_the_file_is_replaced_or_rewritten(at):
    assert fingerprint(at("a")) is None and mode(at("a")) == 0
    replace_whole(at("a"), b"one")
    first = fingerprint(at("a"))
    assert first is not None and fingerprint(at("a")) == first
    replace_whole(at("a"), b"two")
    second = fingerprint(at("a"))
    assert second != first, "equal in length, another file"
    os.utime(at("a"), ns=(1, 1))
    assert fingerprint(at("a")) != second


def test_what_is_replaced_is_whole_private_and_alone(at, tmp_path):
    path = at("deep/er/a")
    for data in (b"", b"x" * 100_000, b"short"):
        replace_whole(path, data)
        assert read_whole(path) == data and mode(path) == 0o600
    assert os.listdir(os.path.dirname(path)) == ["a"]


def test_a_write_that_is_cut_short_goes_on(at, monkeypatch):
    whole = OsFile.pwrite
    monkeypatch.setattr(OsFile, "pwrite", lambda self, data, offset: whole(self, data[:7], offset))
    replace_whole(at("a"), b"0123456789" * 5)
    assert read_whole(at("a")) == b"0123456789" * 5


@pytest.mark.parametrize("verb", ["pwrite", "sync"])
def test_a_disk_that_fails_leaves_the_old_and_no_litter(at, tmp_path, monkeypatch, verb):
    replace_whole(at("a"), b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(OsFile, verb, fail)
    with pytest.raises(OSError, match="No space"):
        replace_whole(at("a"), b"new")
    assert read_whole(at("a")) == b"old" and os.listdir(tmp_path) == ["a"]


def test_it_is_on_the_disk_before_it_has_the_name_and_the_name_before_it_is_told(at, monkeypatch):
    did = []
    for owner, verb in ((OsFile, "sync"), (OsFiles, "rename"), (OsFiles, "sync_dir")):
        real = getattr(owner, verb)
        monkeypatch.setattr(owner, verb, lambda *args, verb=verb, real=real: (did.append(verb), real(*args))[1])
    replace_whole(at("a"), b"x")
    assert did == ["sync", "rename", "sync_dir"]


def test_a_temporary_file_has_no_name(at, tmp_path):
    file = temporary_file(at("tmp"))
    file.pwrite(b"x", 0)
    assert file.pread(1, 0) == b"x" and os.listdir(at("tmp")) == [] and mode(at("tmp")) == 0o700
    file.close()


def test_a_file_of_the_users_is_read_only_or_emptied_with_their_permissions(at):
    os.umask(0o027)
    file = open_for_writing(at("a"))
    file.pwrite(b"long text", 0)
    file.close()
    assert mode(at("a")) == 0o640
    open_for_writing(at("a")).close()
    assert read_whole(at("a")) == b""
    file = open_for_reading(at("a"))
    with pytest.raises(OSError, match="Bad file"):
        file.pwrite(b"x", 0)
    file.close()


@pytest.mark.parametrize(
    ("limits", "fails", "expected", "raised"),
    [
        ((256, 4096), False, 4096, [(4096, 4096)]), ((4096, 4096), False, 4096, []), ((256, 4096), True, 256,
        [(4096, 4096)]), ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), False, 1 << 20, []),
    ],
)  # fmt: skip
def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be(monkeypatch, limits, fails, expected, raised):
    asked = []

    def set_limit(what: int, to: tuple[int, int]) -> None:
        asked.append(to)
        if fails:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(files.resource, "getrlimit", lambda what: limits)
    monkeypatch.setattr(files.resource, "setrlimit", set_limit)
    assert open_file_limit() == expected and asked == raised


def test_no_file_is_inherited_by_what_the_process_starts(at):
    disk = OsFiles()
    made = [disk.open(at("a"), create=True), disk.open(at("a")), disk.lock(at("l")), temporary_file(at("t")),
            open_for_reading(at("a")), open_for_writing(at("b"))]  # fmt: skip
    assert not any([os.get_inheritable(file.fd) for file in made])
    for file in made:
        file.close()
