"""The log as archives read it: many slots in one pass, of each what is due and never a gap."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal, OffsetExpired
from broker.core.records import GroupRecord
from broker.journal.log import format as f
from broker.journal.log.store import segment_name
from broker.journal.reads.scanning import Scan, SlotPart, remember, scan

from .support import FOLDER, meta, open_journal, put, sent, settled


@pytest.fixture
def journal():
    """Slots 1 and 2, in turn; slot 1 in groups too; over several segments."""
    journal = open_journal()
    for n in range(1, 60, 2):
        put(journal, sent(n, b"x" * 100, b"y", slot=1), sent(n, b"z" * 50, slot=2), settled(n, n, slot=1))
        put(journal, GroupRecord(1, [sent(1000 + n, b"g", slot=1), settled(n + 1, n + 1, slot=1)]))
    return journal


def scanned(journal, most: int = 1000, budget: int = 1 << 20, **due: int) -> tuple[Scan, list[tuple[int, int, int]]]:
    """(the scan, (slot, lsn, kind) of all it found) of slots s1, s2 from those lsns on."""
    parts = {int(name[1:]): SlotPart(lsn, journal.history.end(int(name[1:])), 0) for name, lsn in due.items()}
    found: list[tuple[int, int, int]] = []
    work = scan(journal.history, parts)
    for _ in range(100_000):
        if not work.left:
            return work, found
        records = work.read(journal.history.ahead_of(work.place.segment), most)
        found += [(one.slot, one.lsn, one.kind) for one in records if one.lsn]
        for one in records:
            assert f.RECORD.unpack_from(work.data, one.at)[2] == one.kind and one.end <= len(work.data)
        if work.thirsty:
            work.fill()
    raise AssertionError("no end")


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_each_item_of_each_slot_comes_once_and_in_order(journal, most):
    work, found = scanned(journal, most, s1=1, s2=1)
    for slot in (1, 2):
        lsns = [lsn for of, lsn, _ in found if of == slot]
        assert lsns == list(range(1, journal.history.end(slot)))
    assert work.left == 0 and {kind for _, _, kind in found} == {f.RUN, f.SETTLE}


def test_it_begins_where_each_slot_is_due_and_passes_over_the_others(journal):
    _, found = scanned(journal, s1=40)
    assert {slot for slot, _, _ in found} == {1} and found[0][1] == 40
    _, found = scanned(journal, s1=40, s2=20)
    assert min(lsn for slot, lsn, _ in found if slot == 1) == 40
    assert min(lsn for slot, lsn, _ in found if slot == 2) == 20


def test_what_is_behind_its_end_is_left_and_told(journal):
    parts = {1: SlotPart(1, 5, 0), 2: SlotPart(1, journal.history.end(2), 0)}
    work = scan(journal.history, parts)
    found = []
    while work.left:
        found += [one.lsn for one in work.read(journal.history.ahead_of(work.place.segment), 50) if one.slot == 1]
        if work.thirsty:
            work.fill()
    assert found == [1, 2, 3, 4] and parts[1].cut and not parts[2].cut


def test_a_gap_is_expired_and_not_passed_over(journal):
    parts = {1: SlotPart(1, journal.history.end(1), 0)}
    work = scan(journal.history, parts)
    parts[1].due = 0  # what stood before the first one that is there
    with pytest.raises(OffsetExpired):
        for _ in range(100):
            work.read(journal.history.ahead_of(work.place.segment), 50)
            if work.thirsty:
                work.fill()


def test_rot_of_the_slots_asked_for_is_named_and_that_of_others_is_theirs_to_find(journal):
    data = journal._store.files.names[f"{FOLDER}/{segment_name(1)}"].data
    at = bytes(data).index(b"z" * 50)
    data[at] ^= 1
    scanned(journal, s1=1)
    with pytest.raises(CorruptJournal):
        scanned(journal, s2=1)


def test_who_goes_on_where_it_has_ended_begins_there(journal):
    work, _ = scanned(journal, s1=1, s2=1)
    remember(journal.history, work)
    put(journal, sent(5000, b"new", slot=1))
    end = journal.history.end(1)
    again = scan(journal.history, {1: SlotPart(end - 1, end, 0)})
    assert again.place == work.place
    assert meta and again.left == 1
