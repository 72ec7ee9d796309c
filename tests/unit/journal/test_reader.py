"""Runs read back by their positions: as much as asked for, whole, and wherever they have been moved to."""

from __future__ import annotations

from broker.core.message import TRANSIENT
from broker.core.records import SettleRecord
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    commit,
    live_ids,
    maintain,
    open_journal,
    put,
    sent,
    settled,
    snapshot,
)

from .test_compaction import segments
from .test_journal import reopened


def test_transient_runs_can_be_read_but_are_forgotten_at_restart():
    disk = SimDisk(0)
    journal = open_journal(disk)
    page = sent(1, b"paged", flags=TRANSIENT)
    put(journal, page, sent(2, b"kept"))
    assert journal.read([page.run.position], 1)[0].records == [b"\npaged\0"]
    put(journal, SettleRecord(1, 1, [(1, 1)], durable=False))
    assert journal.live_bytes() < journal._live_index.segments[1].run_bytes
    assert live_ids(reopened(journal, disk)) == [2]


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


def test_positions_stay_readable_through_any_number_of_moves():
    disk = SimDisk(0)
    journal = open_journal(disk, compact_below=0.6)
    keep = sent(1, b"keep", b"drop", b"both", queues=[1, 2])
    put(journal, keep, settled(2, 2), settled(2, 3, queue=2))
    position = keep.run.position
    for first in range(10, 500, 10):
        put(journal, sent(first, b"z" * 600, queues=[3]), settled(first, first, queue=3))
        for _ in range(30):  # between any two steps, with copies that are not durable yet
            journal.maintain()
            found = journal.read([position], 1 << 20)
            assert {1, 3} <= {i for r in found for i in r.ids}
            snapshot(journal)
            commit(journal)
        found = journal.read([position], 1 << 20)
        assert {r.position for r in found} == {position}
        assert {i: b for r in found for i, b in zip(r.ids, r.records, strict=True)}.items() >= {
            1: b"\nkeep\0",
            3: b"\nboth\0",
        }.items()
    assert min(segments(disk)) > 3
    assert len(journal._reader.moved) == 1
    put(journal, settled(1, 3), settled(1, 3, queue=2))
    for first in range(500, 600, 10):
        put(journal, sent(first, b"z" * 600, queues=[3]), settled(first, first, queue=3))
    maintain(journal)
    assert len(journal._reader.moved) == 0
    assert journal.read([position], 1) == []


def test_what_a_survey_finds_where_it_was_moved_to_stays_readable_when_it_is_moved_on():
    """Found by the cluster's histories (seed 751): a new leader looked for messages where they were not any more, and
    took them for settled. They came back with the next restart only."""
    disk = SimDisk(0)
    journal = open_journal(disk, compact_below=0.6)
    put(journal, sent(1, b"keep"))
    known = set()
    for first in range(10, 300, 10):
        put(journal, sent(first, b"z" * 600, queues=[3]), settled(first, first, queue=3))
        maintain(journal)
        if first in (60, 150):
            survey = journal.survey(1)
            known |= {record.run.position for record, _ in survey.read(100) if 1 in record.run.ids}
            survey.close()
    assert len(known) == 2
    for position in known:
        (run,) = journal.read([position], 1 << 20)
        assert (list(run.ids), run.position) == ([1], position)
    assert len(journal._reader.moved) == 3
    put(journal, settled(1, 1))
    for first in range(500, 600, 10):
        put(journal, sent(first, b"z" * 600, queues=[3]), settled(first, first, queue=3))
    maintain(journal)
    assert len(journal._reader.moved) == 0
