"""The log as others read it: never a gap, the same after restarts, on every replica, whatever compaction does."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.errors import CorruptJournal, JournalError, OffsetDiverged, OffsetExpired
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, Left, RunRecord, SettleRecord
from broker.journal.journal import Journal
from broker.journal.reads import history
from tests.sim.disk import SimDisk
from tests.unit.journal.nodes import Node, copy
from tests.unit.journal.support import FOLDER, maintain, meta, open_journal, put, sent, settings, settled


def told(entry):
    """An entry as a value."""
    record = entry.record
    if isinstance(record, RunRecord):
        return entry.lsn, entry.epoch, "run", tuple(record.run.ids), tuple(record.run.records)
    if isinstance(record, SettleRecord):
        return entry.lsn, entry.epoch, "settle", tuple(record.spans), (record.why, record.at)
    return entry.lsn, entry.epoch, "meta", record.kind, ()


def read(journal, slot=1, start=0, budget=1 << 20, until=0):
    """All items from there on, in as many reads as it takes."""
    reader = journal.history
    cursor = reader.cursor(slot, start or reader.earliest(slot))
    until, found = until or reader.end(slot), []
    while cursor.due < until:
        before = cursor.place, cursor.due
        found += [told(entry) for entry in cursor.read(reader.ahead(cursor), until, budget) if entry.lsn]
        assert (cursor.place, cursor.due) != before, "no progress"
    assert found == paced(journal, slot, start, budget, until)
    return found


def paced(journal, slot, start, budget, until):
    """The same as the read API does it."""
    reader = journal.history
    cursor, found = reader.cursor(slot, start or reader.earliest(slot)), []
    cursor.paced = True
    while cursor.due < until:
        before = cursor.place, cursor.due
        found += [told(entry) for entry in cursor.read(reader.ahead(cursor), until, budget) if entry.lsn]
        if cursor.thirsty:
            cursor.fill()
        else:
            assert (cursor.place, cursor.due) != before, "no progress"
    return found


def busy(journal, first=1, count=60):
    """Runs, groups, settles, other slots, transient runs."""
    for i in range(first, first + 2 * count, 2):
        put(
            journal,
            sent(i, b"a%d" % i, b"b" * 90),
            sent(i, b"other" * 9, slot=2),
            sent(900 + i, b"page", flags=TRANSIENT),
            GroupRecord(1, [SettleRecord(1, 1, [(i, i)], why=Left.ACKED, at=1000 + i), meta("told", v=i)]),
        )


@pytest.mark.parametrize("look", [64, 300, history.READ_BYTES])
@pytest.mark.parametrize("budget", [1, 1 << 20])
def test_every_item_comes_once_in_order_however_little_is_read_at_a_time(monkeypatch, look, budget):
    monkeypatch.setattr(history, "READ_BYTES", look)
    disk = SimDisk(0)
    journal = open_journal(disk)
    busy(journal)
    items = read(journal, budget=budget)
    assert [item[0] for item in items] == list(range(1, journal.history.end(1))) and len(items) == 180
    assert [item[3] for item in items if item[2] == "run"] == [(i, i + 1) for i in range(1, 121, 2)]
    assert items[1][2:] == ("settle", ((1, 1),), (Left.ACKED, 1001))
    assert [item[0] for item in read(journal, slot=2)] == list(range(1, 61))
    for start in Random(1).sample(range(1, 178), 20):
        assert read(journal, start=start, until=start + 3, budget=budget) == items[start - 1 : start + 2]
    for clean in (True, False):
        journal.close(clean=clean)
        journal = open_journal(disk)
        assert read(journal) == items
    assert journal.history.earliest(1) == 1


def test_what_is_not_durable_is_not_read():
    journal = open_journal()
    put(journal, sent(1, b"one"))
    journal.append(sent(2, b"two"))
    assert journal.history.end(1) == 2
    batch = journal.seal()
    assert journal.history.end(1) == 2
    journal.write(batch)
    journal.committed(batch)
    assert journal.history.end(1) == 3 and len(read(journal)) == 2


def test_compaction_moves_the_earliest_and_nothing_before_it_is_given_out():
    disk = SimDisk(0)
    journal = open_journal(disk)
    everything: dict[int, object] = {}
    before = 1
    put(journal, sent(1, b"stuck", queues=[9]))
    for turn in range(120):
        first = 2 + 2 * turn
        put(journal, sent(first, b"x" * 400, b"y"), settled(first, first + 1))
        everything |= {item[0]: item for item in read(journal)}
        maintain(journal)
        earliest = journal.history.earliest(1)
        assert earliest >= before
        before = earliest
        assert read(journal) == [everything[n] for n in range(earliest, journal.history.end(1))]
    assert before > 100
    with pytest.raises(OffsetExpired) as caught:
        journal.history.check(1, before - 1, 0)
    assert caught.value.earliest == before
    journal.close(clean=True)
    journal = open_journal(disk)
    assert journal.history.earliest(1) >= before, "what was freed did not come back"
    assert read(journal) == [everything[n] for n in range(journal.history.earliest(1), journal.history.end(1))]


def test_numbers_go_on_when_every_segment_with_the_slot_has_been_freed():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, sent(1, b"one"), settled(1, 1))
    for i in range(2, 80):
        put(journal, sent(i, b"x" * 400, slot=2), settled(i, i, slot=2))
        maintain(journal)
    assert (journal.history.earliest(1), journal.history.end(1)) == (3, 3)
    for clean in (True, False):
        journal.close(clean=clean)
        journal = open_journal(disk)
        assert (journal.history.earliest(1), journal.history.end(1)) == (3, 3)
    put(journal, sent(100, b"next"))
    assert [item[:4] for item in read(journal)] == [(3, 1, "run", (100,))]


def test_a_segment_freed_under_a_reader_is_expired_and_not_a_gap():
    journal = open_journal()
    busy(journal, count=40)
    reader = journal.history
    cursor = reader.cursor(1, 1)
    found = cursor.read(reader.ahead(cursor), reader.end(1), 1)
    ahead = reader.ahead(cursor)
    put(journal, settled(1, 200), settled(1, 200, slot=2))
    for i in range(300, 340):
        put(journal, sent(i, b"x" * 400), settled(i, i))
    maintain(journal)
    assert reader.earliest(1) > found[-1].lsn + 1
    with pytest.raises(OffsetExpired):
        for _ in range(100):
            cursor.read(ahead, reader.end(1), 1)
    with pytest.raises(OffsetExpired):
        for _ in range(100):
            cursor.read(reader.ahead(cursor), reader.end(1), 1)


def test_marks_keep_segments_and_let_them_go():
    journal = open_journal()
    put(journal, sent(1, b"one"), settled(1, 1))
    assert journal.history.keep({1: 3}) == 0
    for i in range(2, 80):
        put(journal, sent(i, b"x" * 400), settled(i, i))
        maintain(journal)
    kept = journal.history.keep({1: 3})
    assert kept > 70 * 400 and journal.history.earliest(1) <= 3 and len(read(journal, start=3)) == 156
    assert journal.history.keep({1: 100}) < kept
    maintain(journal)
    assert 3 < journal.history.earliest(1) <= 100
    assert journal.history.keep(None) == 0
    maintain(journal)
    assert journal.history.earliest(1) > 100


def test_marks_are_there_again_after_a_restart_and_never_go_back():
    disk = SimDisk(0)
    journal = open_journal(disk)
    marks = journal.marks
    marks.names = marks.advanced("nightly", {1: 30, 2: 5})
    marks.names = marks.advanced("nightly", {1: 20}) | {"weekly": {1: 7}}
    marks.save(marks.names)
    assert marks.lowest() == {1: 7, 2: 5}
    disk.crash()
    journal = open_journal(disk)
    assert journal.marks.names == {"nightly": {1: 30, 2: 5}, "weekly": {1: 7}}
    assert journal.marks.without("weekly") == {"nightly": {1: 30, 2: 5}}
    assert journal.marks.without("nightly") == {"weekly": {1: 7}}


def test_large_bodies_stay_as_long_as_the_log_that_names_them():
    disk = SimDisk(0)
    journal = open_journal(disk)
    journal.marks.save({"nightly": {1: 1}})
    journal.history.keep({1: 1})
    writer = journal.blobs.create()
    writer.write(b"large")
    blob = writer.finish(True)
    record = sent(1, b"", blob=blob)
    put(journal, record, settled(1, 1))
    for i in range(2, 30):
        put(journal, sent(i, b"x" * 400), settled(i, i))
        maintain(journal)
    assert journal.blobs.read(blob.id, 0, 5) == b"large"
    journal.close(clean=True)
    journal = open_journal(disk)
    journal.history.keep({1: 1})
    maintain(journal)
    assert journal.blobs.read(blob.id, 0, 5) == b"large"
    journal.history.keep(None)
    maintain(journal)
    with pytest.raises(JournalError):
        journal.blobs.open(blob.id)


def test_a_replica_has_the_same_items_and_a_copy_begins_where_it_was_made():
    a, b, c = Node(1).lead(), Node(2), Node(3)
    for i in range(1, 40):
        b.follow(a.put(sent(i, b"x" * 300), SettleRecord(1, 1, [(i, i)], why=Left.EXPIRED, at=i)))
    assert read(a.journal) == read(b.journal) != []
    copy(a, c)
    assert (c.journal.history.earliest(1), c.journal.history.end(1)) == (79, 79)
    items = a.put(sent(50, b"later"))
    b.follow(items)
    c.follow(items)
    assert read(c.journal) == read(a.journal, start=79) == read(b.journal, start=79)
    for node in (b, c):
        node.crash()
    assert read(b.journal) == read(a.journal)
    assert (c.journal.history.earliest(1), read(c.journal)) == (79, read(a.journal, start=79))


def test_items_of_a_log_that_was_thrown_away_are_never_read():
    """A follower had more than the new leader: what it had is void, though it stands in its segments with numbers that
    count again."""
    a, b = Node(1).lead(), Node(2)
    b.follow(a.put(*[sent(i, b"x" * 300) for i in range(1, 20)]))
    b.journal.begin_epoch(1, 2)
    b.put(*[sent(i, b"never") for i in range(20, 30)])
    a.journal.begin_epoch(1, 3)
    a.put(sent(20, b"instead"))
    copy(a, b)
    b.follow(a.put(*[sent(i, b"then") for i in range(21, 30)]))
    for _ in range(2):
        assert (b.journal.history.earliest(1), b.journal.history.end(1)) == (21, 30)
        assert read(b.journal) == read(a.journal, start=21)
        b.crash()
    with pytest.raises(OffsetDiverged):
        a.journal.history.check(1, 25, 2)
    for offset, epoch in [(20, 1), (20, 3), (25, 3), (25, 0), (1, 7)]:
        a.journal.history.check(1, offset, epoch)
    with pytest.raises(OffsetDiverged):
        a.journal.history.check(1, 31, 0)


def test_rot_is_named_and_never_given_out():
    disk = SimDisk(0)
    journal = open_journal(disk)
    busy(journal, count=5)
    name = next(name for name in disk.names if name.endswith(".log"))
    file = disk.open(name)
    data = file.pread(4096, 0)
    at = data.index(b"b" * 90)  # a body's; shorter text may stand in the random name of the log as well
    file.pwrite(b"!", at)
    file.sync()
    with pytest.raises(CorruptJournal, match="damaged at offset"):
        read(journal)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_readers_see_the_one_history(seed):
    """Random work, compaction, crashes and marks: what was read once is read again, or is expired."""
    random = Random(seed)
    disk = SimDisk(seed)
    journal = Journal.open(disk, FOLDER, settings())
    seen: dict[tuple[int, int], object] = {}
    live: dict[int, list[int]] = {1: [], 2: [], 3: []}
    following = 1
    for _ in range(300):
        slot = random.choice((1, 1, 2, 3))
        act = random.random()
        if act < 0.55:
            count = random.randrange(1, 4)
            put(journal, sent(following, *[b"x" * random.randrange(1, 300)] * count, slot=slot))
            live[slot] += range(following, following + count)
            following += count
        elif act < 0.8 and live[slot]:
            at = random.randrange(len(live[slot])) if random.random() < 0.3 else 0
            gone = live[slot].pop(at)
            put(journal, settled(gone, gone, slot=slot))
        elif act < 0.97:
            journal.history.keep(random.choice((None, {1: max(1, journal.history.end(1) - 20)})))
            maintain(journal)
        else:
            disk.crash()
            journal = Journal.open(disk, FOLDER, settings())
        for number in (1, 2, 3):
            items = read(journal, number)
            ends = journal.history.earliest(number), journal.history.end(number)
            assert [item[0] for item in items] == list(range(*ends))
            for item in items:
                assert seen.setdefault((number, item[0]), item) == item
