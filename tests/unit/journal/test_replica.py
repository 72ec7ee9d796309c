"""A slot's log on two disks: items, epochs, copies, and what a crash leaves of them."""

from __future__ import annotations

import errno

import pytest

from broker.config.settings import JournalSettings
from broker.core.errors import BadItem, CorruptJournal, JournalError, StaleEpoch
from broker.core.message import DURABLE, TRANSIENT, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.journal import compaction
from broker.journal import format as f
from broker.journal.inspect import dump, verify
from broker.journal.journal import Journal
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    commit,
    live_ids,
    maintain,
    meta,
    put,
    run_of,
    sent,
    settings,
    settled,
    snapshot,
)

TAIL = 1 << 20


class Node:
    """A journal with its disk."""

    def __init__(self, seed, tail=TAIL, **changes):
        self.disk = SimDisk(seed)
        self.tail = tail
        self.changes = changes
        self.journal = Journal.open(self.disk, FOLDER, settings(**changes), tail)

    def crash(self):
        self.disk.crash()
        self.journal = Journal.open(self.disk, FOLDER, settings(**self.changes), self.tail)
        return self.journal

    def lead(self, slot=1, epoch=1):
        self.journal.begin_epoch(slot, epoch)
        self.journal.replicated.add(slot)
        return self

    def put(self, *records):
        """Appends, commits, and returns the items."""
        for record in records:
            self.journal.append(record)
            snapshot(self.journal)
        batch = self.journal.seal()
        self.journal.write(batch)
        self.journal.committed(batch)
        return batch.items

    def follow(self, items):
        members = [member for slot, _, data in items for member in self.journal.append_item(slot, data)]
        snapshot(self.journal)
        commit(self.journal)
        return members


def copy(leader, follower, slot=1, metas=()):
    """A whole seed, in small pieces."""
    seed = leader.journal.seed(slot, metas)
    commit(leader.journal)
    follower.journal.reset_slot(slot)
    members = []
    while (items := seed.read(1)) is not None:
        assert len(items) == 1
        members += [member for item in items for member in follower.journal.append_seed(slot, item)]
        snapshot(follower.journal, *[member for member in members if isinstance(member, MetaRecord)])
        commit(follower.journal)
    follower.journal.end_seed(slot, seed.lineage, seed.lsn)
    commit(follower.journal)
    seed.close()
    return members


def content(journal, slot=1):
    """(queue, id) → bytes, by a survey."""
    survey = journal.survey(slot)
    found = {}
    while (some := survey.read(3)) is not None:
        for record, gone in some:
            bodies = {
                i: run.lines + body
                for run in journal.read([record.run.position], 1)
                for i, body in zip(run.ids, run.records, strict=True)
            }
            for queue in record.queues:
                for i in record.run.ids:
                    if not any(a <= i <= b for a, b in gone.get(queue, ())):
                        assert (queue, i) not in found
                        found[queue, i] = bodies[i]
    survey.close()
    return found


# ── items ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_follower_that_gets_every_item_holds_the_same():
    a, b = Node(1).lead(), Node(2)
    records = [sent(1, b"one", b"two", queues=(1, 2)), settled(1, 1), meta("k", v=1), sent(3, b"x", lines=b"h:1\n")]
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


def test_items_are_the_bytes_of_the_log():
    a, b = Node(1).lead(), Node(2)
    items = a.put(sent(1, b"one"), GroupRecord(1, [sent(2, b"two"), settled(1, 1)]))
    b.follow(items)
    for node in (a, b):
        log = bytes(node.disk.names[f"{FOLDER}/{1:016x}.log"].data)
        assert all(data in log for _, _, data in items)
    assert [(slot, lsn) for slot, lsn, _ in items] == [(1, 1), (1, 3)]


def test_what_is_a_replicas_own_affair_is_no_item():
    a = Node(1, compact_below=0.6).lead()
    assert [lsn for _, lsn, _ in a.put(sent(1, b"page", flags=TRANSIENT), sent(2, b"x"))] == [1]
    paged = GroupRecord(1, [sent(3, b"page", flags=TRANSIENT), sent(4, b"y"), SettleRecord(1, 1, [(1, 1)], False)])
    items = a.put(paged)
    assert [lsn for _, lsn, _ in items] == [2]
    assert [member.run.ids for member in Node(2).follow([*a.journal.tail(1, 0)])] == [range(2, 3), range(4, 5)]
    a.put(*[sent(i, b"z" * 700) for i in range(5, 30)], *[settled(i, i) for i in range(6, 30, 2)])
    last = a.journal.last(1)
    maintain(a.journal)  # copies, settles taken along, snapshots
    assert a.journal.last(1) == last
    assert all(item[1] <= last[1] for item in a.journal.tail(1, 2))


def test_only_replicated_slots_give_items():
    a = Node(1).lead(slot=1)
    assert [slot for slot, _, _ in a.put(sent(1, b"a"), sent(1, b"b", slot=2))] == [1]


def test_a_group_of_several_slots_is_refused_when_one_is_replicated():
    a = Node(1).lead()
    with pytest.raises(ValueError, match="an item is of one slot"):
        a.journal.append(GroupRecord(1, [sent(1, b"a"), sent(1, b"b", slot=2)]))
    assert [lsn for _, lsn, _ in a.put(sent(1, b"a"))] == [1]


def test_an_item_that_does_not_follow_changes_nothing():
    a, b = Node(1).lead(), Node(2)
    one, two, three = a.put(sent(1, b"one"), GroupRecord(1, [sent(2, b"two"), settled(1, 1)]), sent(3, b"three"))
    b.follow([one])
    for data, why in [
        (three[2], "item 4 where 2 is due"),
        (one[2], "item 1 where 2 is due"),
        (two[2][:-1], "does not check"),
        (two[2][:40] + b"!" + two[2][41:], "does not check"),
        (b"", "does not check"),
        (record(f.RUN, 1, 2, 1, [b"short"]), "cannot be read"),
        (record(f.META, 1, 2, 1, [b"no json"]), "cannot be read"),
        (record(f.SETTLE, 1, 2, 1, [b"123"]), "cannot be read"),
        (record(f.SETTLE, 1, 0, 1, f.settle_payload(1, [(1, 1)])), "is no item"),
        (record(f.SETTLE, 2, 2, 1, f.settle_payload(1, [(1, 1)])), "is no item"),
        (record(f.SEGMENTS, 1, 2, 1, []), "is no item"),
        (record(f.GROUP, 1, 0, 0, [b"\0" * 10]), "cannot be read"),
        (record(f.GROUP, 1, 0, 0, []), "cannot be read|belong together"),
        (record(f.META, 1, 2, 1, [], flags=f.SNAPSHOT_BEGIN), "cannot be read"),
    ]:
        with pytest.raises(BadItem, match=why):
            b.journal.append_item(1, data)
    with pytest.raises(BadItem, match="no slot 256"):
        b.journal.append_item(256, two[2])
    with pytest.raises(BadItem, match="algorithm 9"):
        b.journal.append_item(1, two[2], 9)
    assert b.journal.last(1) == (1, 1)
    b.follow([two, three])
    assert content(a.journal) == content(b.journal)


def record(kind, slot, lsn, epoch, payload, flags=0):
    return b"".join(f.record(kind, flags, slot, epoch, lsn, payload, f.CHECKSUMS[f.PREFERRED]))


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


# ── epochs ─────────────────────────────────────────────────────────────────────────────────────────


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
        b.journal.append_item(1, record(f.SETTLE, 1, 4, 1, f.settle_payload(1, [(1, 1)])))


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
    b.follow([(1, 2, record(f.SETTLE, 1, 2, 1, f.settle_payload(1, [(1, 1)])))])
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


# ── the tail ───────────────────────────────────────────────────────────────────────────────────────


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


# ── copies ─────────────────────────────────────────────────────────────────────────────────────────


def busy(node):
    """Two queues, holes, groups, a moved run, several segments."""
    node.put(*[sent(i, b"a%d" % i, b"b" * 90, queues=(1, 2)) for i in range(1, 60, 2)])
    node.put(*[settled(i, i + 1, queue=1 + i % 3 % 2) for i in range(1, 40, 3)], settled(50, 52))
    node.put(GroupRecord(1, [sent(61, b"c" * 500), settled(7, 9, queue=2)]), meta("k", v=1))
    maintain(node.journal)


def test_a_copy_is_what_lives_in_ascending_order_with_the_small_state_first():
    a, b = Node(1, compact_below=0.6).lead(), Node(2)
    busy(a)
    members = copy(a, b, metas=[meta("queue", id=1), meta("producers", producers=[[7, 9]])])
    assert [member.kind for member in members[:2]] == ["queue", "producers"]
    firsts = [member.run.ids[0] for member in members[2:]]
    assert firsts == sorted(firsts)
    assert content(a.journal) == content(b.journal) != {}
    assert a.journal.last(1) == b.journal.last(1)
    b.follow(a.put(sent(70, b"later"), settled(61, 61)))
    b.crash()
    assert content(a.journal) == content(b.journal)
    assert (b.journal.last(1), b.journal.lineage(1)) == (a.journal.last(1), a.journal.lineage(1))
    assert [m.kind for m in b.journal.recovered.metas] == ["queue", "producers"]
    assert b.journal.recovered.producers == {1: {7: 9}}


def test_a_copy_is_of_the_moment_of_the_call_whatever_is_settled_moved_or_freed_meanwhile():
    a, b = Node(1, compact_below=0.6).lead(), Node(2)
    busy(a)
    expected = content(a.journal)
    at = a.journal.last(1)
    seed = a.journal.seed(1, [])
    a.put(settled(1, 30), settled(1, 61, queue=2), *[sent(i, b"z" * 900) for i in range(100, 120)], settled(100, 119))
    maintain(a.journal)
    b.journal.reset_slot(1)
    while (items := seed.read(300)) is not None:
        for item in items:
            b.journal.append_seed(1, item)
        maintain(a.journal)
    b.journal.end_seed(1, seed.lineage, seed.lsn)
    commit(b.journal)
    assert (content(b.journal), b.journal.last(1)) == (expected, at)
    before = a.journal.disk_bytes()
    seed.close()
    maintain(a.journal)
    assert a.journal.disk_bytes() < before
    b.follow(a.journal.tail(1, at[1]))
    assert content(a.journal) == content(b.journal)


def test_a_copy_is_not_read_before_it_is_durable():
    a = Node(1).lead()
    a.journal.append(sent(1, b"a"))
    seed = a.journal.seed(1, [])
    survey = a.journal.survey(1)
    assert not seed.durable
    for reader in (seed, survey):
        with pytest.raises(JournalError, match="not durable"):
            reader.read(10)
    seed.close()
    a.journal.append(sent(2, b"of the same commit"))
    again = a.journal.seed(1, [])
    a.journal.append(sent(3, b"behind it"))
    commit(a.journal)
    assert again.durable
    assert len(again.read(1 << 20)) == 2


def test_a_copy_of_an_empty_slot():
    a, b = Node(1).lead(epoch=5), Node(2)
    assert copy(a, b) == []
    assert b.journal.last(1) == (0, 0)
    a.put(sent(1, b"a"), settled(1, 1))
    assert copy(a, b) == []
    assert b.journal.last(1) == b.crash().last(1) == (5, 2)


def test_a_copy_never_holds_rotten_bytes():
    a = Node(1).lead()
    a.put(sent(1, b"x" * 300))
    seed = a.journal.seed(1, [])
    a.disk.names[f"{FOLDER}/{1:016x}.log"].data[500] ^= 1
    with pytest.raises(CorruptJournal, match="0000000000000001"):
        seed.read(1)


@pytest.mark.parametrize("pieces", range(6))
def test_a_crash_before_the_end_of_a_copy_leaves_an_empty_slot_that_can_be_used(pieces):
    a, b = Node(1).lead(epoch=2), Node(2)
    b.lead(epoch=1)
    b.put(sent(1, b"old"), sent(2, b"old too"), meta("old"), sent(1, b"other", slot=2))
    a.put(*[sent(i, b"new" * 300) for i in range(1, 6)])
    seed = a.journal.seed(1, [meta("new")])
    b.journal.reset_slot(1)
    for _ in range(pieces):
        b.journal.append_seed(1, seed.read(1)[0])
        snapshot(b.journal, meta("new"))
    commit(b.journal)
    assert b.journal.last(1) == (0, 0)
    for _ in range(2):
        b.crash()
        assert (b.journal.last(1), b.journal.epoch(1), content(b.journal), live_ids(b.journal)) == ((0, 0), 1, {}, [])
        assert (b.journal.recovered.slots, b.journal.recovered.metas) == ({2}, [])
    b.lead(epoch=9)
    b.put(sent(1, b"fresh"))
    b.crash()
    assert (b.journal.last(1), live_ids(b.journal)) == ((9, 1), [1])


def test_a_slot_that_is_being_copied_takes_nothing_else():
    a, b = Node(1).lead(), Node(2)
    [(_, _, item)] = a.put(sent(1, b"a"))
    seed = a.journal.seed(1, [])
    [part] = seed.read(1)
    with pytest.raises(BadItem, match="reset it first"):
        b.journal.append_seed(1, part)
    with pytest.raises(BadItem, match="reset it first"):
        b.journal.end_seed(1, [(1, 1)], 1)
    b.journal.reset_slot(1)
    with pytest.raises(BadItem, match="takes no items yet"):
        b.journal.append_item(1, item)
    with pytest.raises(BadItem, match="is no part of a copy"):
        b.journal.append_seed(1, item)
    with pytest.raises(JournalError, match="is being copied"):
        b.journal.append(sent(1, b"a"))
    with pytest.raises(BadItem, match="does not tell its epoch"):
        b.journal.end_seed(1, [(3, 2)], 1)


@pytest.mark.parametrize("steps", range(0, 36, 3))
def test_messages_settled_only_here_live_again_after_a_copy_and_stay_alive(monkeypatch, steps):
    """A deposed leader had settled what the others had not. None of its settles may reach what the copy brings back,
    wherever compaction was with taking settles along."""
    monkeypatch.setattr(compaction, "STEP_BYTES", 1)
    a, b = Node(1).lead(), Node(2, compact_below=0.6)
    b.follow(a.put(*[sent(i, b"x" * 500) for i in range(1, 7)]))
    b.lead(epoch=2)
    b.put(*[sent(i, b"gone" * 150, slot=2) for i in range(1, 9)], settled(2, 3), settled(1, 8, slot=2))
    b.put(*[sent(i, b"stay" * 150, slot=2) for i in range(9, 20)])
    a.lead(epoch=3)
    assert (1, 2) not in content(b.journal)
    for _ in range(steps):
        b.journal.maintain()
        snapshot(b.journal)
        commit(b.journal)
    b.journal.begin_epoch(1, 3)
    copy(a, b)
    for _ in range(3):
        maintain(b.journal)
        assert content(b.journal) == content(a.journal)
        b.crash()
        assert content(b.journal) == content(a.journal)
        assert (b.journal.last(1), b.journal.lineage(1)) == (a.journal.last(1), a.journal.lineage(1))
        b.put(*[sent(i, b"z" * 800, slot=3) for i in range(1, 9)], settled(1, 8, slot=3))


def test_what_was_void_stays_void_when_the_segment_with_the_reset_is_compacted():
    """Segment 1 stays (another slot lives in it); the one with the RESET goes."""
    a, b = Node(1).lead(), Node(2, compact_below=0.7)
    b.journal.append(sent(1, *[b"stay" * 20] * 34, slot=2))
    b.follow(a.put(sent(1, b"old"), sent(2, b"kept")))
    a.put(settled(1, 1))
    b.put(sent(102, b"z" * 2500, slot=2))
    copy(a, b)
    b.put(*[sent(i, b"z" * 2500, slot=2) for i in range(103, 106)])
    b.put(settled(102, 105, slot=2))
    maintain(b.journal)
    names = [int(name[-20:-4], 16) for name in b.disk.names if name.endswith(".log")]
    assert 1 in names
    assert b.journal._logs.floors[1] >> 32 not in names
    b.crash()
    assert content(b.journal) == content(a.journal)
    assert live_ids(b.journal) == [2]


# ── the rest ───────────────────────────────────────────────────────────────────────────────────────


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


def test_settled_tells_of_a_run_wherever_it_is():
    a = Node(1, compact_below=0.6)
    kept = sent(1, b"a", b"b", b"c", queues=(1, 2))
    a.put(kept, settled(2, 2), settled(1, 3, queue=2))
    assert a.journal.settled(kept) == {1: [(2, 2)], 2: [(1, 3)]}
    a.put(*[sent(i, b"z" * 900, queues=[3]) for i in range(10, 20)], settled(10, 19, queue=3))
    maintain(a.journal)
    assert a.journal.settled(kept) == {1: [(2, 2)], 2: [(1, 3)]}
    a.put(settled(1, 3))
    assert a.journal.settled(kept) is None


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


class TestBodies:
    def large(self, node, first=1):
        writer = node.journal.blobs.create()
        writer.write(b"abc" * 100)
        blob = writer.finish(sync=True)
        run = Run(range(first, first + 1), b"", [b"\n"], 302, DURABLE, blob=blob)
        return RunRecord(1, "a", [1], run)

    def receive(self, node, blob, data=b"abc" * 100):
        writer = node.journal.blobs.receive(blob.id)
        writer.write(data)
        return writer.finish(sync=True)

    def test_ids_are_unique_over_disks_and_kept_by_followers(self):
        a, b = Node(1).lead(), Node(2)
        record = self.large(a)
        blob = record.run.blob
        assert blob.id >> 32 != self.large(b).run.blob.id >> 32
        assert not b.journal.blobs.has(blob.id)
        self.receive(b, blob, b"an attempt that was given up")
        self.receive(b, blob)
        b.follow(a.put(record))
        assert b.journal.blobs.has(blob.id)
        assert b.journal.blobs.length(blob.id) == 300
        with pytest.raises(JournalError, match="is here already"):
            b.journal.blobs.receive(blob.id)
        b.crash()
        assert b.journal.blobs.read(blob.id, 0, 1000) == b"abc" * 100
        assert b.journal.blobs.create()._id >> 32 != blob.id >> 32

    def test_a_body_that_no_item_names_is_an_orphan(self):
        a, b = Node(1).lead(), Node(2)
        self.receive(b, self.large(a).run.blob)
        b.crash()
        assert not [name for name in b.disk.names if "/blobs/" in name]

    def test_a_body_that_comes_again_before_its_removal_is_written_stays(self):
        a, b = Node(1).lead(), Node(2)
        record = self.large(a)
        self.receive(b, record.run.blob)
        b.follow(a.put(record))
        b.journal.reset_slot(1)
        commit(b.journal)
        b.journal.maintain()
        assert not b.journal.blobs.has(record.run.blob.id)
        removal = b.journal.seal()
        assert removal.removals
        seed = a.journal.seed(1, [])
        self.receive(b, record.run.blob)
        for item in seed.read(1 << 20):
            b.journal.append_seed(1, item)
        b.journal.write(removal)
        b.journal.committed(removal)
        b.journal.end_seed(1, seed.lineage, seed.lsn)
        commit(b.journal)
        assert b.crash().blobs.read(record.run.blob.id, 0, 1000) == b"abc" * 100

    def test_a_body_stays_while_a_copy_that_names_it_is_read(self):
        a = Node(1).lead()
        record = self.large(a)
        a.put(record)
        seed = a.journal.seed(1, [])
        a.put(settled(1, 1))
        maintain(a.journal)
        assert a.journal.blobs.length(record.run.blob.id) == 300
        seed.close()
        maintain(a.journal)
        with pytest.raises(CorruptJournal):
            a.journal.blobs.length(record.run.blob.id)


def test_standalone_settings_keep_no_items():
    journal = Journal.open(SimDisk(0), FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=0))
    journal.append(sent(1, b"a"))
    assert journal.seal().items == []
    assert put(journal) is None
