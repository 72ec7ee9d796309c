"""The journal as its owner uses it: append, commit, recover, read."""

from __future__ import annotations

import errno

import pytest

from broker.config.settings import JournalSettings
from broker.core.errors import CorruptJournal, JournalError, JournalFull
from broker.core.message import DURABLE, TRANSIENT, Run
from broker.core.records import DELIVERED, GroupRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.journal.log.envelope import BYTES, RECORDS
from broker.seams.files import OsFiles
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    commit,
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


def test_transient_runs_can_be_read_but_are_forgotten_at_restart():
    disk = SimDisk(0)
    journal = open_journal(disk)
    page = sent(1, b"paged", flags=TRANSIENT)
    put(journal, page, sent(2, b"kept"))
    assert journal.read([page.run.position], 1)[0].records == [b"\npaged\0"]
    put(journal, SettleRecord(1, 1, [(1, 1)], durable=False))
    assert journal.live_bytes() < journal._books.segments[1].run_bytes
    assert live_ids(reopened(journal, disk)) == [2]


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


def test_a_snapshot_longer_than_a_segment_does_not_ask_for_snapshots_for_ever():
    """Found by the cluster's histories (seed 31): scattered delivery counts, and every commit wrote snapshots only."""
    disk = SimDisk(0)
    journal = open_journal(disk)
    state = [meta("all", n=n, text="x" * 100) for n in range(100)]  # 4 segments
    taken = []
    for i in range(1, 401):
        journal.append(sent(i, b"x" * 100))
        if journal.wants_snapshot:
            taken.append(journal._appender.segment)
            snapshot(journal, *state)
            assert not journal.wants_snapshot
        commit(journal)
    assert 2 <= len(taken) <= 8  # not one for each of some 18 segments of messages
    assert [m.data["n"] for m in reopened(journal, disk).recovered.metas] == list(range(100))


def test_a_record_larger_than_a_segment_gets_one_of_its_own_size():
    disk = SimDisk(0)
    journal = open_journal(disk)
    big = sent(1, b"x" * 20_000)
    put(journal, big, sent(2, b"small"))
    assert journal.read([big.run.position], 1)[0].records[0] == b"\n" + b"x" * 20_000 + b"\0"
    assert live_ids(reopened(journal, disk)) == [1, 2]


def test_inflight_bytes_are_what_is_not_yet_committed():
    journal = open_journal()
    assert journal.inflight_bytes == 0
    journal.append(sent(1, b"x" * 1000))
    assert journal.inflight_bytes > 1000
    batch = journal.seal()
    journal.append(sent(2, b"y"))
    journal.write(batch)
    journal.committed(batch)
    assert 0 < journal.inflight_bytes < 1000
    commit(journal)
    assert journal.inflight_bytes == 0
    assert journal.seal() is None


def test_read_stops_at_the_budget_and_at_what_is_not_durable():
    journal = open_journal(segment_bytes=1 << 16)
    records = [sent(i, b"x" * 1000) for i in range(1, 11)]
    put(journal, *records)
    positions = [r.run.position for r in records]
    assert [r.ids[0] for r in journal.read(positions, 3500)] == [1, 2, 3]
    assert len(journal.read(positions, 1)) == 1
    assert len(journal.read(positions, 1 << 20)) == 10
    late = sent(11, b"z")
    journal.append(late)
    assert journal.read([late.run.position], 100) == []


def test_a_page_is_read_with_few_calls():
    disk = SimDisk(0)
    journal = open_journal(disk, segment_bytes=1 << 20)
    records = [sent(i, b"x" * 50) for i in range(1, 1001)]
    put(journal, *records)
    before = disk.calls.get("pread", 0)
    assert len(journal.read([r.run.position for r in records], 1 << 18)) == 1000
    assert disk.calls["pread"] - before == 1


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


def test_lsns_are_consecutive_per_slot_and_go_on_after_restart():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"a"), sent(1, b"b", slot=2), settled(1, 1))
    journal = reopened(journal, disk)
    assert (journal.last(1), journal.last(2), journal.last(3)) == ((1, 2), (1, 1), (0, 0))
    assert journal.lineage(1) == journal.lineage(2) == [(1, 1)]


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


def test_a_machine_with_another_checksum_goes_on_in_a_new_segment(monkeypatch):
    disk = SimDisk(0)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(f, "PREFERRED", f.CRC32)
        journal = open_journal(disk)
        put(journal, sent(1, b"a"))
        journal.close(clean=True)
    journal = open_journal(disk)
    assert journal.recovered.clean
    put(journal, sent(2, b"b"))
    assert journal._store.algorithms == {1: f.CRC32, 2: f.CRC32C}
    journal = reopened(journal, disk)
    assert live_ids(journal) == [1, 2]
    positions = [record.run.position for record, _ in journal.recovered.runs()]
    assert [r.records for r in journal.read(positions, 100)] == [[b"\na\0"], [b"\nb\0"]]
    journal.close(clean=True)
    monkeypatch.setattr(f, "PREFERRED", f.CRC32)
    monkeypatch.setattr(f, "CHECKSUMS", {f.CRC32: f.CHECKSUMS[f.CRC32]})
    with pytest.raises(CorruptJournal, match="install google-crc32c"):
        open_journal(disk)


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


def test_queues_that_share_a_body_share_it_when_each_reads_its_own_page():
    journal = open_journal()
    shared, own = sent(1, b"a" * 500, b"b" * 500, queues=(1, 2, 3)), sent(3, b"c" * 500)
    put(journal, shared, own)
    places = [shared.run.position, own.run.position]
    pages = [journal.read(places, 1 << 16) for _ in range(3)]
    for first, second in pages[1:]:
        assert first is not pages[0][0] and first.records is pages[0][0].records
        assert (first.ids, first.position, first.nbytes) == (range(1, 3), places[0], shared.run.nbytes)
        assert second.records == own.run.records and second.records is not pages[0][1].records
    journal.close(clean=True)


def test_bytes_that_many_queues_share_are_kept_for_the_next_of_them_within_a_bound():
    journal = open_journal()
    runs = [sent(n, b"x" * 3000, queues=(1, 2)) for n in range(1, 200)]
    for run in runs:
        put(journal, run)
    places = [run.run.position for run in runs]
    kept = [journal.read([place], 4096)[0].records for place in places]
    again = [journal.read([place], 4096)[0].records for place in reversed(places)]
    same = [new is old for new, old in zip(again, reversed(kept), strict=True)]
    assert same[0] and not same[-1] and sum(same) <= 16 * 4096 // 3000
    journal.close(clean=True)


@pytest.mark.parametrize("segment_bytes", [65_536, 1 << 20])
@pytest.mark.parametrize("count, size", [(2, 10), (500, 10), (20, 2000), (3, 700_000)])
def test_a_group_that_is_written_in_pieces_is_the_same_as_one_that_is_written_at_once(segment_bytes, count, size):
    def group():
        runs = [RunRecord(5 + n % 3, "a", [3], run_of(n + 1, bytes(size))) for n in range(count)]
        return GroupRecord(5, [*runs, SettleRecord(5, 3, [(1, 1)]), meta("queue", 6, id=3)])

    disks, journals, groups = (SimDisk(0), SimDisk(0)), [], []
    for disk in disks:
        journal = open_journal(disk, segment_bytes=segment_bytes)
        put(journal, RunRecord(5, "a", [3], run_of(1000, b"first")))
        journals.append(journal)
        groups.append(group())
    whole, pieces = journals
    whole.append(groups[0])
    steps = 0
    for _ in pieces.append_in_pieces(groups[1]):
        assert pieces.inflight_bytes < 200  # nothing of it has a place, only the beginnings of its slots
        steps += 1
    assert steps >= max(count // RECORDS, count * size // BYTES)
    positions = [[r.run.position for r in each.records if type(r) is RunRecord] for each in groups]
    assert positions[0] == positions[1]
    batches = [journal.seal() for journal in journals]
    data = [[b"".join(part.buffers[1:]) for part in batch.parts] for batch in batches]
    assert data[0][0] == data[1][0]  # a segment that is begun for it names its disk
    assert [len(part) for part in data[0]] == [len(part) for part in data[1]]
    for journal, batch in zip(journals, batches, strict=True):
        journal.write(batch)
        journal.committed(batch)
    back = [reopened(journal, disk) for journal, disk in zip(journals, disks, strict=True)]
    found = [[(record.slot, record.run.ids, gone) for record, gone in journal.recovered.runs()] for journal in back]
    assert found[0] == found[1] and len(found[0]) == count
