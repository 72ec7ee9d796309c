"""A slot's log on two disks: items, epochs, the tail, and what a crash leaves of them."""

from __future__ import annotations

import errno

import pytest

from broker.config.settings import JournalSettings
from broker.core.errors import BadItem, CorruptJournal, JournalError, StaleEpoch
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.journal.tools.inspect import dump, verify
from tests.sim.disk import SimDisk
from tests.unit.journal.nodes import Node, content, copy, record
from tests.unit.journal.support import (
    FOLDER,
    commit,
    live_ids,
    maintain,
    meta,
    put,
    run_of,
    sent,
    settled,
)


def test_a_follower_that_gets_every_item_holds_the_same():
    a, b = Node(1).lead(), Node(2)
    records = [sent(1, b"one", b"two", queues=(1, 2)), settled(1, 1), meta("told", v=1), sent(3, b"x", lines=b"h:1\n")]
    members = b.follow(a.put(*records))
    assert [type(member) for member in members] == [RunRecord, SettleRecord, MetaRecord, RunRecord]
    assert (members[0].run.ids, members[0].run.records, members[2].data) == (range(1, 3), [], {"v": 1})
    assert a.journal.last(1) == b.journal.last(1) == (1, 4)
    assert content(a.journal) == content(b.journal)
    assert b.journal.read([members[3].run.position], 1)[0].records == [b"\nx\0"]
    b.crash()
    assert (b.journal.last(1), b.journal.lineage(1)) == ((1, 4), [(1, 1)])
    assert content(a.journal) == content(b.journal)
    assert b.journal.recovered.slots == {1}


def test_only_replicated_slots_give_items():
    a = Node(1).lead(slot=1)
    assert [slot for slot, _, _ in a.put(sent(1, b"a"), sent(1, b"b", slot=2))] == [1]


def test_a_group_of_several_slots_is_refused_when_one_is_replicated():
    a = Node(1).lead()
    with pytest.raises(ValueError, match="an item is of one slot"):
        a.journal.append(GroupRecord(1, [sent(1, b"a"), sent(1, b"b", slot=2)]))
    assert [lsn for _, lsn, _ in a.put(sent(1, b"a"))] == [1]


def test_a_leader_with_another_checksum(monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(f, "PREFERRED", f.CRC32)
        a = Node(1).lead()
        items = a.put(sent(1, b"one"), GroupRecord(1, [sent(2, b"two"), settled(1, 1)]))
        expected = content(a.journal)
    b = Node(2)
    for slot, _, data in items:
        with pytest.raises(BadItem, match="does not check"):
            b.journal.append_item(slot, data)
        b.journal.append_item(slot, data, f.CRC32)
    commit(b.journal)
    assert content(b.crash()) == expected
    c = Node(3)
    c.follow(b.journal.tail(1, 0))
    assert content(c.journal) == expected


def test_an_epoch_that_is_not_higher_is_stale_also_after_a_crash():
    a = Node(1).lead(epoch=3)
    commit(a.journal)
    for _ in range(2):
        for epoch in (2, 3):
            with pytest.raises(StaleEpoch, match=r"slot 1: epoch \d is asked for, 3 has begun"):
                a.journal.begin_epoch(1, epoch)
        assert (a.journal.epoch(1), a.journal.last(1), a.journal.lineage(1)) == (3, (0, 0), [(3, 1)])
        a.crash()


def test_a_follower_says_the_epoch_of_its_last_item_not_the_one_it_has_promised():
    a, b = Node(1).lead(), Node(2)
    first = a.put(sent(1, b"one"))
    b.follow(first)
    missed = a.put(sent(2, b"two"))
    a.lead(epoch=4)
    later = a.put(sent(3, b"three"))
    b.journal.begin_epoch(1, 4)
    commit(b.journal)
    b.crash()
    assert (b.journal.last(1), b.journal.epoch(1)) == ((1, 1), 4)
    b.follow(missed)
    assert (b.journal.last(1), b.journal.lineage(1)) == ((1, 2), [(1, 1), (4, 3)])
    b.follow(later)
    for journal in (a.journal, b.journal, b.crash()):
        assert (journal.last(1), journal.lineage(1)) == ((4, 3), [(1, 1), (4, 3)])
    with pytest.raises(BadItem, match="item 4 of epoch 1 behind one of epoch 4"):
        b.journal.append_item(1, record(f.SETTLE, 1, 4, 1, f.settle_payload(SettleRecord(1, 1, [(1, 1)]))[1]))


def test_an_epoch_whose_only_item_was_lost_is_not_in_the_lineage():
    b = Node(2)
    a = Node(1).lead()
    b.follow(a.put(sent(1, b"one" * 300)))
    a.lead(epoch=2)
    [(_, _, data)] = a.put(sent(2, b"x" * 3000))
    b.journal.append_item(1, data)  # its EPOCH ends one segment, it begins the next
    batch = b.journal.seal()
    assert len(batch.parts) == 2
    b.disk.fail = {"sync": (b.disk.calls["sync"] + 3, errno.EIO)}  # the spare's, the first part's, the second part's
    with pytest.raises(JournalError):
        b.journal.write(batch)
    for inode in b.disk.names.values():
        inode.dirty.clear()
    b.crash()
    assert b.journal.last(1) == (1, 1)
    c = Node(3).lead()
    c.follow([])
    b.follow([(1, 2, record(f.SETTLE, 1, 2, 1, f.settle_payload(SettleRecord(1, 1, [(1, 1)]))[1]))])
    assert b.journal.last(1) == (1, 2)


def test_a_long_lineage_keeps_its_end():
    a = Node(1)
    for epoch in range(1, 100):
        a.lead(epoch=epoch)
        a.put(sent(epoch, b"x"))
    a.crash()
    assert a.journal.last(1) == (99, 99)
    assert a.journal.lineage(1)[-2:] == [(98, 98), (99, 99)]
    assert len(a.journal.lineage(1)) == 32


def test_lsns_epochs_and_lineage_stay_when_the_segments_they_came_from_are_gone():
    a = Node(1).lead()
    a.put(sent(1, b"a"))
    a.lead(epoch=2)
    a.put(*[sent(i, b"x" * 900) for i in range(2, 20)], settled(1, 19))
    maintain(a.journal)
    assert f"{FOLDER}/{1:016x}.log" not in a.disk.names
    assert a.crash().last(1) == (2, 20)
    assert a.journal.lineage(1) == [(1, 1), (2, 2)]
    assert a.put(sent(20, b"y")) == []  # not led again: nobody has said so
    assert a.journal.last(1) == (2, 21)


def test_the_tail_gives_what_is_behind_an_lsn_or_says_that_it_cannot():
    a = Node(1, tail=2500).lead().lead(slot=2)
    items = a.put(*[sent(i, b"x" * 400, slot=1 + i % 2) for i in range(1, 11)])
    mine = [item for item in items if item[0] == 1]
    assert a.journal.tail(1, 5) == []
    assert a.journal.tail(1, 3) == mine[3:]
    assert a.journal.tail(1, 0) is None
    assert a.journal.tail(1, 6) is None
    assert a.journal.tail(9, 0) == []
    none = Node(3, tail=0).lead()
    assert none.put(sent(1, b"x"))
    assert none.journal.tail(1, 0) is None


def test_the_tail_is_there_again_after_a_crash_and_on_followers():
    a, b = Node(1).lead(), Node(2)
    items = a.put(*[sent(i, b"x" * 400) for i in range(1, 20)], GroupRecord(1, [sent(20, b"y"), settled(1, 1)]))
    b.follow(items)
    for journal in (b.journal, a.crash(), b.crash()):
        assert journal.tail(1, 0) == items
        assert journal.tail(1, 19) == items[19:]


def test_a_reset_slot_has_no_tail():
    a, b = Node(1).lead(), Node(2)
    b.follow(a.put(sent(1, b"a")))
    copy(a, b)
    assert (b.journal.tail(1, 0), b.journal.tail(1, 1)) == (None, [])
    assert (b.crash().tail(1, 0), b.journal.tail(1, 1)) == (None, [])
    items = a.put(sent(2, b"b"))
    b.follow(items)
    assert b.journal.tail(1, 1) == b.crash().tail(1, 1) == items


def test_producers_are_remembered_from_runs_settled_or_not_and_from_small_state():
    a = Node(1)
    for number, first in ((3, 1), (7, 2), (5, 3)):
        a.put(RunRecord(1, "a", [1], run_of(first, b"x"), dedup=(42, number)))
    a.put(RunRecord(1, "a", [1, 2], run_of(4, b"x"), dedup=(43, 1)), settled(1, 4))
    a.put(RunRecord(2, "a", [1], run_of(1, b"x"), dedup=(42, 9)))
    a.put(RunRecord(1, "a", [1], run_of(5, b"x", flags=TRANSIENT), dedup=(42, 100)))
    a.put(meta("producers", producers=[[42, 6], [99, 4]]))
    assert a.crash().recovered.producers == {1: {42: 7, 43: 1, 99: 4}, 2: {42: 9}}
    a.journal.reset_slot(1)
    a.journal.end_seed(1, [], 0)
    commit(a.journal)
    assert a.crash().recovered.producers == {2: {42: 9}}


def test_a_missing_item_is_noticed_and_a_repaired_hole_is_not_gone_on_from():
    a = Node(1)
    a.put(*[sent(i, b"x" * 50) for i in (1, 2, 3)])
    a.journal._logs.next[1] += 1
    a.put(sent(4, b"y"))
    a.journal.close(clean=True)
    report = verify(a.disk, FOLDER)
    assert not report.ok
    assert "item 5 of slot 1 at offset" in report.lines[-1] and "where 4 is due" in report.lines[-1]
    with pytest.raises(CorruptJournal, match="items are missing"):
        a.crash()
    b = Node(2)
    b.put(sent(1, b"a"))
    b.journal._appender.emit(f.VOID, 0, 0, 0, [b"what repair leaves"])
    b.journal._logs.next[1] += 1
    b.put(sent(3, b"c"))
    assert b.crash().last(1) == (0, 0)
    assert live_ids(b.journal) == [1, 3]


def test_the_offline_tool_shows_it_all():
    a, b = Node(1).lead(epoch=4), Node(2)
    a.put(sent(1, b"a"))
    copy(a, b)
    b.journal.close(clean=True)
    rows = {row["kind"]: row for row in dump(b.disk, FOLDER) if "kind" in row}
    assert (rows["RESET"]["slot"], rows["SEEDED"]["lsn"], rows["SEEDED"]["lineage"]) == (1, 1, [(4, 1)])
    a.journal.close(clean=True)
    rows = [row for row in dump(a.disk, FOLDER) if row.get("kind") == "EPOCH"]
    assert (rows[-1]["epoch"], rows[-1]["lineage"], rows[-1]["seeding"], rows[-1]["void_before"]) == (
        4,
        [(4, 1)],
        False,
        0,
    )
    assert verify(b.disk, FOLDER).ok


def test_disk_id_is_the_folders():
    a, b = Node(1), Node(2)
    before = a.journal.disk_id
    assert len(before) == 32
    assert a.crash().disk_id == before != b.journal.disk_id


def test_standalone_settings_keep_no_items():
    journal = Journal.open(SimDisk(0), FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=0))
    journal.append(sent(1, b"a"))
    assert journal.seal().items == []
    assert put(journal) is None
