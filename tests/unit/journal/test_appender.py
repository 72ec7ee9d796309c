"""Records get their places: never over two segments, with numbers that go on."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal
from broker.journal.log import format as f
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    commit,
    live_ids,
    meta,
    open_journal,
    put,
    sent,
    settled,
    snapshot,
)

from .test_journal import reopened


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


def test_lsns_are_consecutive_per_slot_and_go_on_after_restart():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"a"), sent(1, b"b", slot=2), settled(1, 1))
    journal = reopened(journal, disk)
    assert (journal.last(1), journal.last(2), journal.last(3)) == ((1, 2), (1, 1), (0, 0))
    assert journal.lineage(1) == journal.lineage(2) == [(1, 1)]


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
