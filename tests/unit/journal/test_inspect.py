"""The offline tool: it sees every flipped bit, shows what is there, and mends only what it is told to."""

from __future__ import annotations

import json

import pytest

from broker.core.errors import CorruptJournal, JournalError
from broker.core.message import Blob
from broker.core.records import GroupRecord
from broker.journal.tools.inspect import dump, repair, verify
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, live_ids, meta, open_journal, put, sent, settled

SEGMENT = f"{FOLDER}/{1:016x}.log"


@pytest.fixture
def disk():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"secret", lines=b"h:1\n"), meta("queue", name="a"))
    put(journal, sent(2, b"two"))
    put(journal, GroupRecord(1, [sent(3, b"three"), settled(2, 2)]))
    put(journal, sent(4, b"four"), sent(5, b"five"))
    put(journal, *[sent(i, b"x" * 900) for i in range(6, 12)])
    journal.close(clean=True)
    return disk


def test_a_good_journal_verifies(disk):
    report = verify(disk, FOLDER)
    assert report.ok
    assert report.lines[-1] == "10 messages in queues, in 10 runs; closed cleanly"
    assert report.damaged == []


def test_a_folder_in_use_is_refused(disk):
    journal = open_journal(disk)
    for tool in (verify, lambda *a: list(dump(*a)), lambda *a: repair(*a, (1, 64))):
        with pytest.raises(JournalError, match="in use"):
            tool(disk, FOLDER)
    journal.close(clean=True)


def test_a_folder_without_journal_is_refused():
    with pytest.raises(JournalError, match="no journal here"):
        verify(SimDisk(0), "/tmp")


def test_dump_shows_headers_and_bodies_only_when_asked(disk):
    rows = list(dump(disk, FOLDER))
    text = json.dumps(rows)
    assert "secret" not in text
    kinds = [row["kind"] for row in rows if "kind" in row]
    assert {"RUN", "SETTLE", "META", "GROUP", "EPOCH", "CLEAN", "SEGMENTS"} == set(kinds)
    assert any(row.get("meta") == "queue" and row["data"] == {"name": "a"} for row in rows)
    assert any("secret" in body for row in dump(disk, FOLDER, bodies=True) for body in row.get("bodies", ()))


def test_every_damaged_byte_is_found_and_can_be_repaired(disk):
    """Each byte of the first segment in turn: verify names it, repair of what it names makes the journal whole,
    and at most the messages of one batch are gone."""
    images = {name: bytes(inode.data) for name, inode in disk.names.items()}
    used = len(images[SEGMENT].rstrip(b"\0"))
    lost_most = 0
    for at in range(0, used, 11):
        for name in set(disk.names) - set(images):
            del disk.names[name]
        for name, image in images.items():
            disk.names[name].data[:] = image
        disk.names[SEGMENT].data[at] ^= 0x41
        disk.locked.clear()
        report = verify(disk, FOLDER)
        assert not report.ok, at
        with pytest.raises(CorruptJournal):
            open_journal(disk)
        for _ in range(4):
            if report.ok:
                break
            assert report.damaged, (at, report.lines)
            repair(disk, FOLDER, report.damaged[0])
            report = verify(disk, FOLDER)
        assert report.ok, (at, report.lines)
        assert bytes(disk.names[f"{SEGMENT}.broken"].data) != images[SEGMENT]
        journal = open_journal(disk)
        back = live_ids(journal)
        lost = {1, 3, 4, 5, *range(6, 12)} - set(back)
        lost_most = max(lost_most, len(lost))
        assert set(back) - lost <= {1, 2, 3, 4, 5, *range(6, 12)}
        put(journal, sent(20, b"goes on"))
        journal.close(clean=True)
    assert 1 <= lost_most <= 4


def test_repair_refuses_where_nothing_is_damaged(disk):
    before = {name: bytes(inode.data) for name, inode in disk.names.items()}
    for drop, why in (((1, 64), "nothing is damaged"), ((77, 64), "does not exist")):
        with pytest.raises(JournalError, match=why):
            repair(disk, FOLDER, drop)
    assert {name: bytes(inode.data) for name, inode in disk.names.items()} == before


def test_a_torn_tail_is_no_damage(disk):
    disk.names[f"{FOLDER}/{max(segments(disk)):016x}.log"].data[-100] = 7
    report = verify(disk, FOLDER)
    assert report.ok
    assert any("torn tail" in line for line in report.lines)


def segments(disk):
    return [int(n[-20:-4], 16) for n in disk.names if n.endswith(".log")]


def test_a_missing_segment_and_a_missing_body_are_named(disk):
    journal = open_journal(disk)
    record = sent(30, b"")
    record.run.blob = Blob(9, 5)
    put(journal, record)
    journal.close(clean=True)
    assert any("large body 0000000000000009 is missing" in line for line in verify(disk, FOLDER).lines)
    del disk.names[SEGMENT]
    report = verify(disk, FOLDER)
    assert not report.ok
    assert any("0000000000000001.log is missing" in line for line in report.lines)
