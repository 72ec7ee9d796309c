"""Large bodies in files of their own."""

from __future__ import annotations

import errno

import pytest

from broker.core.errors import CorruptJournal
from broker.journal.bodies.bodies import PIECE
from broker.journal.journal import Journal
from broker.journal.log.store import CLEARED
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, open_journal, settings

from .test_bodies import stored


def test_an_error_of_the_disk_is_the_affair_of_that_body(monkeypatch):
    disk = SimDisk(0)
    blob, _, _ = stored(disk, PIECE)
    journal = open_journal(disk)
    body = journal.blobs.open(blob.id, blob.length)

    def broken(n: int, offset: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(body._file), "pread", lambda self, n, offset: broken(n, offset))
        with pytest.raises(CorruptJournal, match="Input/output error"):
            body.check(0)
    assert not journal._store.dead
    body.close()
    journal.close(clean=True)


def test_a_missing_body_keeps_a_broker_that_is_alone_from_nothing():
    disk = SimDisk(0)
    blob, _, path = stored(disk, PIECE)
    disk.remove(path)
    with pytest.raises(CorruptJournal, match="is missing"):
        open_journal(disk)
    journal = Journal.open(disk, FOLDER, settings(), alone=True)
    assert journal.blobs.missing == [blob.id]
    with pytest.raises(CorruptJournal, match="is missing"):
        journal.blobs.open(blob.id)
    journal.close(clean=True)


def test_orphans_go_at_the_start_and_what_messages_refer_to_stays():
    disk = SimDisk(0)
    journal = open_journal(disk)
    for id in (0x2A, 0x2B):
        writer = journal.blobs.receive(id)
        writer.write(b"body")
        writer.finish(sync=True)
    assert journal.blobs.recover({0x2A}, alone=False, keep=True) == ({0x2A, 0x2B}, [0x2B])
    assert journal.blobs.recover({0x2A}, alone=False) == ({0x2A, 0x2B}, [])
    assert journal.blobs.read(0x2A, 1, 2) == b"od" and journal.blobs.length(0x2A) == 4
    with pytest.raises(CorruptJournal, match="is missing"):
        journal.blobs.open(0x2B)
    with pytest.raises(CorruptJournal, match="2b is missing; restore"):
        journal.blobs.recover({0x2A, 0x2B}, alone=False)
    journal.blobs.recover({0x2A, 0x2B}, alone=True)
    assert journal.blobs.missing == [0x2B]


def test_what_an_earlier_attempt_has_left_is_overwritten():
    journal = open_journal(SimDisk(0))
    writer = journal.blobs.receive(0x2A)
    writer.write(b"a longer body than the next one")
    writer = journal.blobs.receive(0x2A)
    writer.write(b"short")
    assert writer.finish(sync=True).length == 5 and journal.blobs.length(0x2A) == 5


def test_what_is_aborted_leaves_no_file_whether_it_was_finished_or_not():
    journal = open_journal(SimDisk(0))
    for finished in (False, True):
        writer = journal.blobs.create()
        writer.write(b"body")
        if finished:
            writer.finish(sync=True)
        writer.abort()
        writer.abort()
    assert journal.blobs.recover(set(), alone=False)[0] == set()


def test_one_that_comes_back_while_it_is_to_be_removed_stays():
    journal = open_journal(SimDisk(0))
    path = journal.blobs.doom(0x2A)
    assert path in journal._store.doomed
    journal.blobs.receive(0x2A)
    assert path not in journal._store.doomed


def doomed(disk, count):
    """A journal with a committed batch that removes so many bodies, and their paths."""
    journal = open_journal(disk)
    paths = []
    for _ in range(count):
        writer = journal.blobs.create()
        writer.write(b"body")
        blob = writer.finish(sync=True)
        paths.append(journal.blobs.path(blob.id))
        journal.forget_blob(blob)
    batch = journal.seal()
    journal.write(batch)
    journal.committed(batch)
    return journal, paths


def there(disk, paths):
    return [path for path in paths if path in disk.names]


def test_a_commit_removes_no_file_itself():
    disk = SimDisk(0)
    journal, paths = doomed(disk, 2 * CLEARED + 1)
    assert there(disk, paths) == paths and journal.wants_clear
    assert journal.clear() == [] and len(there(disk, paths)) == CLEARED + 1, "some at a time"
    assert journal.clear() == [] and journal.clear() == []
    assert not there(disk, paths) and not journal.wants_clear and journal.clear() is None


def test_what_was_not_removed_before_a_crash_is_removed_by_the_next_start():
    disk = SimDisk(0)
    _, paths = doomed(disk, 3)
    disk.crash()
    open_journal(disk)
    assert not there(disk, paths)


def test_one_that_comes_back_before_its_turn_is_not_removed():
    disk = SimDisk(0)
    journal, paths = doomed(disk, 2)
    journal.blobs.receive(int(paths[1].rpartition("/")[2], 16))
    while journal.clear() is not None:
        pass
    assert there(disk, paths) == paths[1:]


def test_who_receives_a_body_waits_for_the_removal_of_no_other():
    disk = SimDisk(0)
    journal, paths = doomed(disk, 2)
    store = journal._store
    with store._gone:  # the helper thread unlinks the first one
        store._going = paths[0]
        store.spare(paths[1])
    assert paths[1] not in store.doomed
