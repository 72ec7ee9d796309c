"""Whole copies of a slot: what is in one, of which moment, and what a crash before its end leaves."""

from __future__ import annotations

import pytest

from broker.core.errors import BadItem, CorruptJournal, JournalError
from broker.core.records import GroupRecord
from broker.journal.compaction import compaction
from broker.journal.log.walk import walk
from broker.journal.replica import seeds
from broker.journal.replica.seeds import read_together
from tests.unit.journal.nodes import Node, content, copy
from tests.unit.journal.support import (
    FOLDER,
    commit,
    live_ids,
    maintain,
    meta,
    sent,
    settled,
    snapshot,
)


def busy(node):
    """Two queues, holes, groups, a moved run, several segments."""
    node.put(*[sent(i, b"a%d" % i, b"b" * 90, queues=(1, 2)) for i in range(1, 60, 2)])
    node.put(*[settled(i, i + 1, queue=1 + i % 3 % 2) for i in range(1, 40, 3)], settled(50, 52))
    node.put(GroupRecord(1, [sent(61, b"c" * 500), settled(7, 9, queue=2)]), meta("told", v=1))
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


def told(survey):
    return [(list(r.run.ids), r.run.position, r.queues, gone) for r, gone in survey.read(1 << 20) or ()]


def test_surveys_of_many_slots_read_the_log_once_and_find_what_each_finds_alone(monkeypatch):
    a = Node(1, compact_below=0.6).lead()
    for slot in (2, 3):
        a.journal.begin_epoch(slot, 1)
    busy(a)
    for n in range(40):
        a.put(*(sent(200 + n, b"y" * 300, slot=slot) for slot in (1, 2)))
    surveys = [a.journal.survey(slot) for slot in (1, 2, 3)]
    a.put(sent(300, b"behind them", slot=2))
    walked: list[int] = []
    monkeypatch.setattr(seeds, "walk", lambda store, number, *rest: walked.append(number) or walk(store, number, *rest))
    alone = [a.journal.survey(slot) for slot in (1, 2, 3)]
    read_together(surveys)
    assert len(walked) == len(set(walked)) > 1, "each segment once"
    together, single = [told(survey) for survey in surveys], [told(survey) for survey in alone]
    assert [len(found) for found in together[1:]] == [40, 0]
    assert together[0] == single[0] != [] and together[1] == single[1][:-1]
    for survey in surveys + alone:
        survey.close()


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
    b.put(sent(1, b"old"), sent(2, b"old too"), meta("mark"), sent(1, b"other", slot=2))
    a.put(*[sent(i, b"new" * 300) for i in range(1, 6)])
    seed = a.journal.seed(1, [meta("known")])
    b.journal.reset_slot(1)
    for _ in range(pieces):
        b.journal.append_seed(1, seed.read(1)[0])
        snapshot(b.journal, meta("known"))
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
