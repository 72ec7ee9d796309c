"""A group of records on its way to bytes, in pieces."""

from __future__ import annotations

import pytest

from broker.core.records import GroupRecord, RunRecord, SettleRecord
from broker.journal.log import format as f
from broker.journal.log.envelope import BYTES, RECORDS, Envelope
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    meta,
    open_journal,
    put,
    run_of,
    sent,
    settled,
)

from .test_journal import reopened


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


MEMBERS = [sent(1, b"one", b"two"), settled(1, 1), meta("queue", name="q"), sent(3, b"x" * 500), settled(3, 3)]


def envelope() -> Envelope:
    return Envelope(1, MEMBERS, {1: 10}, {1: 4}, f.CHECKSUMS[f.PREFERRED])


@pytest.mark.parametrize(("most", "nbytes"), [(1, 1 << 20), (2, 1 << 20), (100, 1), (1, 1), (100, 1 << 20)])
def test_in_pieces_it_is_the_same_bytes_as_at_once(most, nbytes):
    whole, cut = envelope(), envelope()
    pieces = 1
    while cut.go_on(most, nbytes):
        pieces += 1
    assert b"".join(cut.pieces()) == b"".join(whole.whole())
    assert (cut.size, cut.lsns, cut.settle_bytes) == (whole.size, whole.lsns, whole.settle_bytes)
    assert [at for _, at in cut.places] == [at for _, at in whole.places]
    assert (pieces > 2) == (most < 5 or nbytes == 1)


def test_its_members_have_consecutive_numbers_and_say_where_they_lie():
    made = envelope()
    data = b"".join(made.whole())
    assert made.lsns == {1: 15} and made.size == len(data)
    heads = list(f.records_in(data, f.RECORD.size, len(data)))
    assert [lsn for *_, lsn in heads] == [10, 11, 12, 13, 14] and {epoch for *_, epoch, _ in heads} == {4}
    runs = [at - f.RECORD.size for at, _, kind, *_ in heads if kind == f.RUN]
    assert [(record.run.ids[0], at) for record, at in made.places] == list(zip([1, 3], runs, strict=True))
    assert f.bad_record(data, 0, len(data), 1, f.CHECKSUMS[f.PREFERRED]) < 0
