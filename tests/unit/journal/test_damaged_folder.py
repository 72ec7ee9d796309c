"""A damaged folder, read for whatever of it still checks."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.journal.tools.inspect import verify
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, commit, meta, open_journal, sent

from .test_salvage import QUEUE, WHOLE, journal_with, of_segment, put, saved, segment


@pytest.fixture
def disk():
    return journal_with(SimDisk(0))


@pytest.mark.parametrize("size", [0, 10, 64, 100, 1000])
@pytest.mark.parametrize("number", [1, 2, -1])
def test_a_segment_that_is_empty_or_cut_off(disk, number, size):
    last = max(int(name[-20:-4], 16) for name in disk.names if name.endswith(".log"))
    number = number % (last + 1)
    del disk.names[segment(number)].data[size:]
    report, ids, journal = saved(disk)
    assert set(WHOLE) - set(ids) <= of_segment(disk, number) | {i for i in WHOLE if i not in ids}
    elsewhere = {i for n in range(1, last + 1) if n != number for i in of_segment(disk, n)}
    assert elsewhere - {2, 25} <= set(ids)
    assert any(f"{number:x}.log: offset" in line for line in report.lost), report.lost
    journal.close(clean=True)


def test_records_before_the_cut_are_kept(disk):
    inside = sorted(of_segment(disk, 2))
    data = disk.names[segment(2)].data
    del data[data.index(b"\n%d x" % inside[-1]) :]
    _, ids, journal = saved(disk)
    assert set(WHOLE) - set(ids) == {inside[-1]}
    journal.close(clean=True)


def test_a_lost_or_damaged_identity_is_read_off_the_segments(disk):
    disk.remove(f"{FOLDER}/identity")
    with pytest.raises(JournalError, match="stampede journal salvage"):
        verify(disk, FOLDER)
    report, ids, journal = saved(disk)
    assert ids == WHOLE and report.lost == [] and any("identity" in line for line in report.notes)
    journal.close(clean=True)


def test_a_damaged_record_is_named_by_what_is_left_of_it(disk):
    data = disk.names[segment(2)].data
    inside = sorted(of_segment(disk, 2))
    data[data.index(b"\n%d x" % inside[0]) + 50] ^= 1
    report, ids, journal = saved(disk)
    assert set(WHOLE) - set(ids) == {inside[0]}
    assert any(line.startswith(f"orders: messages {inside[0]}–{inside[0]}") for line in report.lost)
    assert any("slot 1: records" in line and "(1: " in line for line in report.lost)
    journal.close(clean=True)


def test_what_clients_send_is_not_taken_for_records():
    """A body that holds good records, in a batch where damage makes us look for the next one."""
    disk = SimDisk(0)
    other = open_journal(other_disk := SimDisk(1))
    put(other, meta("queue", **QUEUE), sent(77, b"forged"))
    other.close(clean=True)
    image = bytes(other_disk.names[segment(1)].data)
    at = image.index(b"forged")
    forged = image[at - 120 : at + 7]
    journal = open_journal(disk)
    put(journal, meta("queue", **QUEUE))
    for record in (sent(1, b"one"), sent(2, forged), sent(3, b"three")):
        journal.append(record)
    commit(journal)
    journal.close(clean=True)
    data = disk.names[segment(1)].data
    start = data.index(forged)
    for at in range(start - 90, start):
        data[at] ^= 0x55
    _, ids, journal = saved(disk)
    assert 77 not in ids and 1 in ids
    journal.close(clean=True)
