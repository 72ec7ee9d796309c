"""The journal as its owner uses it: append, commit, recover, read."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal
from broker.core.message import DURABLE, Run
from broker.core.records import DELIVERED, GroupRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from broker.journal.log import format as f
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    live_ids,
    maintain,
    meta,
    open_journal,
    put,
    run_of,
    sent,
    settings,
    settled,
    snapshot,
)


def reopened(journal, disk, clean=True):
    journal.close(clean)
    return Journal.open(disk, FOLDER, journal._store.settings)


def test_a_run_comes_back_with_everything_but_its_bytes_and_these_can_be_read():
    disk = SimDisk(0)
    journal = open_journal(disk)
    run = run_of(7, b"one", b"two", lines=b"h:1\n", priority=9, expires=99, time=12, attempts=3)
    put(journal, RunRecord(5, "über", [3, 4], run, dispatched=True, dedup=(8, 1 << 60)))
    assert run.position > 0
    journal = reopened(journal, disk)
    assert journal.recovered.clean
    [(record, gone)] = journal.recovered.runs()
    back = record.run
    assert (record.slot, record.address, record.queues, record.dispatched, record.dedup) == (
        5,
        "über",
        [3, 4],
        True,
        (8, 1 << 60),
    )
    assert (back.ids, back.nbytes, back.priority, back.expires, back.time, back.attempts) == (
        range(7, 9),
        18,
        9,
        99,
        12,
        3,
    )
    assert (back.records, back.flags, back.position, gone) == ([], DURABLE, run.position, {})
    [read] = journal.read([back.position], 1)
    assert (read.lines, read.records, read.ids, read.nbytes) == (b"h:1\n", run.records, range(7, 9), 18)


def test_settled_messages_do_not_come_back_and_partly_settled_runs_say_which():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"a", b"b", b"c", b"d", queues=(1, 2)), sent(5, b"e"))
    put(journal, SettleRecord(1, 1, [(2, 2), (4, 5)]), settled(1, 1, queue=2))
    [(record, gone)] = reopened(journal, disk).recovered.runs()
    assert gone == {1: [(2, 2), (4, 4)], 2: [(1, 1)]}
    assert record.run.ids == range(1, 5)


def test_a_group_takes_slots_together_and_its_runs_can_be_read():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"old"))
    members = [sent(2, b"x"), sent(1, b"y", slot=9), settled(1, 1), meta("k", v=1)]
    put(journal, GroupRecord(1, members))
    assert [r.records for r in journal.read([members[1].run.position], 1)] == [[b"\ny\0"]]
    journal = reopened(journal, disk)
    assert (live_ids(journal), live_ids(journal, slot=9)) == ([2], [1])
    assert [m.data for m in journal.recovered.metas] == [{"v": 1}]


def test_snapshots_replace_older_small_state_only_when_complete():
    disk = SimDisk(0)
    journal = open_journal(disk)
    journal.append_snapshot([])
    put(journal, meta("a", n=1), meta("b", n=2))
    journal._appender.wants_snapshot = True
    journal.append(meta("c", n=3))  # of the same turn, before the snapshot: it is in the snapshot
    snapshot(journal, meta("all", n=3))
    journal.append(meta("d", n=4))
    lost = journal.seal()
    assert lost is not None
    disk.locked.clear()
    assert [m.kind for m in open_journal(disk).recovered.metas] == ["a", "b"]
    disk.locked.clear()
    again = open_journal(disk)
    again._appender.wants_snapshot = True
    snapshot(again, meta("all", n=3))
    put(again, meta("d", n=4))
    assert [m.kind for m in reopened(again, disk).recovered.metas] == ["all", "d"]


def test_what_was_handed_out_is_history_not_state():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, meta("first"))
    put(journal, meta("a", n=1), meta(DELIVERED, queue=1, at=5, to=[[41, 1, [[1, 9]]]]), meta("b", n=2))
    again = reopened(journal, disk)
    assert [m.kind for m in again.recovered.metas] == ["a", "b"]
    assert again.history.end(1) == 5, "it has a number"


def test_ids_that_are_not_consecutive_are_kept_one_by_one():
    disk = SimDisk(0)
    journal = open_journal(disk)
    run = Run([3, 7, 8], b"", [b"\na\0", b"\nb\0", b"\nc\0"], 9, DURABLE)
    put(journal, RunRecord(1, "a", [1], run))
    journal = reopened(journal, disk)
    assert live_ids(journal) == [3, 7, 8]
    assert list(journal.read([run.position], 1)[0].ids) == [3, 7, 8]


def test_only_a_journal_closed_cleanly_and_not_opened_since_is_clean():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"a"))
    journal = reopened(journal, disk)
    assert journal.recovered.clean
    journal = reopened(journal, disk, clean=False)
    assert not journal.recovered.clean
    assert live_ids(journal) == [1]


def test_a_forged_batch_in_a_body_is_not_taken_for_one():
    """A client cannot stop the broker: a torn write of its copy of a journal is still a torn write."""
    disk = SimDisk(0)
    journal = open_journal(disk, segment_bytes=1 << 16)
    forged = f.batch_header(1000, 1, 0, 0, f.seed_of(b"some other disk!"))
    put(journal, sent(1, b"a"))
    journal.append(sent(2, forged * 3))
    batch = journal.seal()
    journal.write(batch)
    disk.names[f"{FOLDER}/{1:016x}.log"].data[batch.parts[0].offset + 40] ^= 1
    disk.locked.clear()
    assert live_ids(Journal.open(disk, FOLDER, settings(segment_bytes=1 << 16))) == [1]
    assert any(name.endswith(".broken") for name in disk.names)


class TestBlobs:
    def large(self, journal, first, queues=(1,)):
        writer = journal.blobs.create()
        writer.write(b"abc" * 100)
        writer.write(b"d")
        blob = writer.finish(sync=True)
        run = Run(range(first, first + 1), b"", [b"\n"], 1 + blob.length + 1, DURABLE, blob=blob)
        return RunRecord(1, "a", list(queues), run)

    def names(self, disk):
        return [n for n in disk.names if "/blobs/" in n]

    def test_body_survives_and_goes_with_its_last_reference(self):
        disk = SimDisk(0)
        journal = open_journal(disk)
        put(journal, self.large(journal, 1, queues=(1, 2)))
        journal = reopened(journal, disk)
        [(record, _)] = journal.recovered.runs()
        assert record.run.blob.length == 301
        assert journal.blobs.read(record.run.blob.id, 298, 10) == b"bcd"
        assert journal.blobs.read(record.run.blob.id, 0, 4) == b"abca"
        put(journal, settled(1, 1))
        maintain(journal)
        assert self.names(disk)
        put(journal, settled(1, 1, queue=2))
        maintain(journal)
        assert not self.names(disk)

    def test_a_body_that_moves_to_another_queue_stays(self):
        disk = SimDisk(0)
        journal = open_journal(disk)
        record = self.large(journal, 1)
        put(journal, record)
        moved = Run(range(2, 3), b"", [b"\n"], 303, DURABLE, blob=record.run.blob)
        put(journal, GroupRecord(1, [settled(1, 1), RunRecord(1, "DLQ", [5], moved)]))
        maintain(journal)
        assert self.names(disk)

    def test_orphans_are_removed_and_ids_not_used_again(self):
        disk = SimDisk(0)
        journal = open_journal(disk)
        orphan = journal.blobs.create()
        orphan.write(b"x")
        orphan.finish(sync=True)
        gone = journal.blobs.create()
        gone.write(b"y")
        gone.abort()
        assert len(self.names(disk)) == 1
        journal = reopened(journal, disk)
        assert not self.names(disk)
        assert journal.blobs.create()._id > orphan._id

    def test_a_missing_body_stops_the_start(self):
        disk = SimDisk(0)
        journal = open_journal(disk)
        put(journal, self.large(journal, 1))
        journal.close(clean=True)
        for name in self.names(disk):
            del disk.names[name]
        with pytest.raises(CorruptJournal, match=r"large body [0-9a-f]{8}00000001 is missing"):
            open_journal(disk)

    def test_a_reader_may_finish_after_removal(self):
        journal = open_journal()
        record = self.large(journal, 1)
        put(journal, record)
        body = record.run.blob.id
        reader = journal.blobs.open(body)
        journal.blobs.remove(body)
        assert reader.read(300, 5) == b"d"
        reader.close()
        with pytest.raises(CorruptJournal):
            journal.blobs.open(body)
