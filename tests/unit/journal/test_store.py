"""The files of a journal: nobody else's are touched, and a full disk is told before anything is written."""

from __future__ import annotations

import errno

import pytest

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal, JournalError, JournalFull
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.seams.files import OsFiles
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    commit,
    live_ids,
    maintain,
    open_journal,
    put,
    sent,
    settled,
)

from .test_journal import reopened


def test_a_foreign_folder_is_not_touched():
    disk = SimDisk(0)
    open_journal(disk).close(clean=True)
    del disk.names[f"{FOLDER}/identity"]
    with pytest.raises(CorruptJournal, match="without an `identity`"):
        open_journal(disk)
    other = SimDisk(1)
    open_journal(other).close(clean=True)
    disk.names[f"{FOLDER}/identity"] = other.names[f"{FOLDER}/identity"]
    with pytest.raises(CorruptJournal, match="belongs to another journal"):
        open_journal(disk)


def test_a_newer_format_is_refused():
    disk = SimDisk(0)
    open_journal(disk).close(clean=True)
    inode = disk.names[f"{FOLDER}/{1:016x}.log"]
    changed = bytes(inode.data[:8]) + b"\x02" + bytes(inode.data[9 : f.SEGMENT.size - 4])
    inode.data[: f.SEGMENT.size] = changed + f.zlib.crc32(changed).to_bytes(4, "little")
    with pytest.raises(CorruptJournal, match="format version 2"):
        open_journal(disk)


def test_real_files(tmp_path):
    folder = str(tmp_path / "a" / "journal")
    config = JournalSettings(segment_bytes=1 << 16, min_free_bytes=0)
    journal = Journal.open(OsFiles(), folder, config)
    journal.prepare()
    assert not journal.wants_prepare
    put(journal, *[sent(i, b"x" * 1000) for i in range(1, 200)])
    put(journal, settled(1, 150))
    maintain(journal)
    with pytest.raises(JournalError, match="in use"):
        Journal.open(OsFiles(), folder, config)
    journal.close(clean=True)
    journal = Journal.open(OsFiles(), folder, config)
    assert live_ids(journal) == list(range(151, 200))
    journal.close(clean=False)


def test_a_batch_that_was_refused_and_not_repeated_leaves_no_gap():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"told"))
    disk.fail = {"pwrite": (disk.calls["pwrite"] + 1, errno.ENOSPC)}
    journal.append(sent(2, b"refused"))
    with pytest.raises(JournalFull):
        commit(journal)
    assert journal.full
    journal.append(sent(3, b"later"))
    with pytest.raises(JournalError, match="earlier batch"):
        commit(journal)
    journal = reopened(journal, disk)
    assert live_ids(journal) == [1]
    assert not journal.recovered.clean


def test_a_full_disk_does_not_keep_the_broker_from_starting():
    disk = SimDisk(0)
    journal = open_journal(disk)
    journal.prepare()
    put(journal, *[sent(i, b"x" * 1000) for i in range(1, 4)])
    journal.prepare()
    disk.capacity = disk.used() + 100
    journal = reopened(journal, disk, clean=False)
    assert live_ids(journal) == [1, 2, 3]
    put(journal, *[settled(i, i) for i in range(1, 4)])
    assert live_ids(reopened(journal, disk)) == []


def test_preparing_on_a_full_disk_writes_nothing():
    disk = SimDisk(0)
    journal = open_journal(disk)
    disk.capacity = disk.used() + 1000
    writes = disk.calls["pwrite"]
    journal.prepare()
    assert (journal.full, journal.wants_prepare, disk.calls["pwrite"]) == (True, True, writes)
    disk.capacity = 1 << 30
    journal.prepare()
    assert (journal.full, journal.wants_prepare) == (False, False)
