"""Freeing: the disk stays small, and nobody notices."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.errors import CorruptJournal
from broker.journal.compaction.compaction import Compactor
from broker.journal.journal import Journal
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    commit,
    live_ids,
    maintain,
    meta,
    open_journal,
    put,
    sent,
    settings,
    settled,
    snapshot,
)


def segments(disk):
    return sorted(int(n[-20:-4], 16) for n in disk.names if n.endswith(".log"))


def test_one_stuck_queue_and_a_fast_one_need_bounded_disk():
    """Twice the live bytes and a few segments, however long the fast queue runs; order and bytes survive."""
    disk = SimDisk(0)
    journal = open_journal(disk)
    stuck, peak, first = [], 0, 1
    for turn in range(400):
        if turn % 20 == 0 and turn < 200:
            stuck.append(first)
            put(journal, sent(first, b"stuck", queues=[1]))
            first += 1
        put(journal, sent(first, b"x" * 200, b"y" * 200, queues=[2]), settled(first, first + 1, queue=2))
        first += 2
        journal.maintain()
        snapshot(journal, meta("next", id=first))
        peak = max(peak, journal.disk_bytes())
    maintain(journal)
    assert journal.disk_bytes() <= 2 * journal.live_bytes() + 5 * 4096
    assert peak <= 10 * 4096
    assert disk.used() <= journal.disk_bytes() + 3 * 4096
    journal.close(clean=True)
    journal = open_journal(disk)
    assert (live_ids(journal), live_ids(journal, queue=2)) == (stuck, [])


def test_half_dead_segments_are_rewritten_when_the_disk_holds_more_than_twice_what_lives():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, *[sent(i, b"x" * 400) for i in range(1, 200)])
    put(journal, *[settled(i, i) for i in range(1, 200) if i % 5 >= 2])
    maintain(journal)
    assert journal.disk_bytes() <= 2 * journal.live_bytes() + 6 * 4096
    journal.close(clean=True)
    assert live_ids(open_journal(disk)) == [i for i in range(1, 200) if i % 5 < 2]


@pytest.mark.parametrize("alive", [1, 9])
def test_a_step_copies_few_messages_however_small_they_are(monkeypatch, alive):
    """256 KiB of log were 4,000 small ones, and 100 ms of everybody's time."""
    journal = open_journal(segment_bytes=1 << 19, compact_below=0.95)
    for first in range(1, 4000, 200):
        put(journal, *[sent(i, b"x") for i in range(first, first + 200)])
    put(journal, *[settled(i, i) for i in range(1, 4000) if i % 10 >= alive])
    put(journal, *[sent(5000 + i, b"y" * 60_000) for i in range(9)])
    looked, copied, copy, steps = 0, 0, Compactor._copy, []

    def counted(self, *args):
        nonlocal looked, copied
        found = copy(self, *args)
        looked, copied = looked + 1, copied + (found > 0)
        return found

    monkeypatch.setattr(Compactor, "_copy", counted)
    for _ in range(1000):
        looked = copied = 0
        journal.maintain()
        snapshot(journal)
        commit(journal)
        steps.append((looked, copied))
    assert max(copied for _, copied in steps) <= 130 and max(looked for looked, _ in steps) <= 2100
    assert sum(looked for looked, _ in steps) >= 2000


def test_a_settle_outlives_its_segment_while_its_message_is_still_on_disk():
    disk = SimDisk(0)
    journal = open_journal(disk, compact_below=0.3)
    put(journal, *[sent(i, b"x" * 700) for i in range(1, 5)])  # segment 1 stays: mostly alive
    put(journal, *[sent(i, b"y" * 700, queues=[2]) for i in range(5, 10)], settled(2, 2), settled(5, 9, queue=2))
    put(journal, *[sent(i, b"z" * 700, queues=[2]) for i in range(10, 20)], settled(10, 19, queue=2))
    maintain(journal)
    assert segments(disk)[0] == 1
    assert 2 not in segments(disk)
    journal.close(clean=True)
    assert live_ids(open_journal(disk)) == [1, 3, 4]


def test_nothing_is_freed_before_the_small_state_is_safe_elsewhere():
    disk = SimDisk(0)
    journal = open_journal(disk)
    journal.append_snapshot([])
    commit(journal)
    journal.append(meta("queue", name="a"))
    for i in range(1, 40):
        journal.append(sent(i, b"x" * 700))
    journal.append(settled(1, 39))
    commit(journal)
    for _ in range(20):
        journal.maintain()
        commit(journal)
    assert segments(disk)[0] == 1  # nobody gave a snapshot
    journal.append_snapshot([meta("queue", name="a")])
    commit(journal)
    maintain(journal)
    assert segments(disk)[0] > 1
    journal.close(clean=True)
    assert {m.kind for m in open_journal(disk).recovered.metas} == {"queue"}


def test_compaction_refuses_to_copy_rotten_bytes():
    disk = SimDisk(0)
    journal = open_journal(disk, compact_below=0.9)
    put(journal, *[sent(i, b"x" * 300) for i in range(1, 30)])
    put(journal, settled(2, 5))
    disk.names[f"{FOLDER}/{1:016x}.log"].data[400] ^= 4
    with pytest.raises(CorruptJournal, match=r"0000000000000001\.log: damaged batch"):
        maintain(journal)
    assert 1 in segments(disk)


@pytest.mark.parametrize("seed", range(5))
def test_random_acks_in_two_queues_of_one_slot(seed):
    random = Random(seed)
    disk = SimDisk(seed)
    journal = open_journal(disk)
    live = {(q, i) for i in range(1, 301) for q in ((1, 2) if i % 3 else (1,))}
    for i in range(1, 301):
        put(journal, sent(i, b"x" * random.randrange(200), queues=(1, 2) if i % 3 else (1,)))
        for queue, message in random.sample(sorted(m for m in live if m[1] <= i), k=min(1, i)):
            live.discard((queue, message))
            put(journal, settled(message, message, queue=queue))
        journal.maintain()
    maintain(journal)
    disk.crash()
    journal = Journal.open(disk, FOLDER, settings())
    assert {(q, i) for q in (1, 2) for i in live_ids(journal, queue=q)} == live


def test_what_is_due_later_keeps_its_time_and_its_queues_through_restarts_and_moves():
    disk = SimDisk(0)
    journal = open_journal(disk, compact_below=0.6)
    later = sent(1, b"a", b"gone", b"c", queues=[5, 6], due=77)
    later.dedup = (9, 1)
    put(journal, later, *[settled(2, 2, queue=queue) for queue in (5, 6)])
    for restart in range(2):
        [(record, _)] = list(journal.recovered.runs()) if restart else [(later, {})]
        assert (record.run.due, list(record.queues)) == (77, [5, 6])
        [*parts] = journal.read([record.run.position], 1 << 20)
        assert [run.due for run in parts] == [77] * len(parts)
        put(journal, *[sent(i, b"x" * 400) for i in range(10 + restart * 100, 60 + restart * 100)])
        put(journal, settled(10 + restart * 100, 59 + restart * 100))
        maintain(journal)
        journal.close(clean=True)
        journal = open_journal(disk, compact_below=0.6)
    assert live_ids(journal, queue=5) == live_ids(journal, queue=6) == [1, 3]
    assert {record.run.due for record, _ in journal.recovered.runs()} == {77}
