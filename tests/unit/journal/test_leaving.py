"""What leaves a queue or a slot with many ranges at once is counted in pieces, and comes to the same."""

from __future__ import annotations

from random import Random

import pytest

from broker.journal.log.live_index import _CHUNKS, LiveIndex
from broker.journal.log.ranges import _CHUNK, LiveRanges
from tests.sim.disk import SimDisk
from tests.unit.journal.support import live_ids, maintain, open_journal, put, sent, settled

MANY = 12_000


def filled(patient: bool) -> LiveIndex:
    """Two queues of a slot and one of another, every second message alive; some have large bodies."""
    live_index = LiveIndex()
    if patient:
        live_index.be_patient()
    for number in range(3):
        usage = live_index.open_segment(number + 1, 1 << 20)
        for slot, queue in ((1, 1), (1, 2), (2, 1)):
            for i in range(number * MANY // 3, (number + 1) * MANY // 3, 2):
                live_index.run(usage, slot, [i + 1], [queue], 100)
                if queue == 1 and not i % 100:
                    live_index.blob(slot, i + 1, slot << 20 | i, 1)
    return live_index


def counted(live_index: LiveIndex) -> tuple[list[int], dict[int, int], list[int]]:
    while live_index.leaving:
        live_index.let_go()
    live = [usage.live for usage in live_index.segments.values()]
    return live, {id: ref.refs for id, ref in live_index.blobs.items()}, sorted(ref.id for ref in live_index.idle_blobs)


@pytest.mark.parametrize("whole", [True, False])
def test_a_queue_that_goes_costs_a_step_what_a_few_chunks_cost(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    """A purge of 100,000 messages, every second of them alive, was a step of 7 ms here alone."""
    live_index, taken = filled(patient=True), []
    uncount = LiveIndex._uncount
    monkeypatch.setattr(LiveIndex, "_uncount", lambda *args: (taken.append(len(args[2])), uncount(*args))[1])
    live_index.settle(1, 1, [(1, MANY)]) if whole else live_index.drop(1)
    assert sum(taken) == 0 and not live_index.live(1, 1, 1, MANY)
    while live_index.leaving:
        live_index.let_go()
    assert sum(taken) == MANY // 2 * (1 if whole else 2) and max(taken) <= _CHUNKS * 2 * _CHUNK


def test_in_pieces_it_comes_to_the_same_whatever_happens_in_between() -> None:
    for seed in range(20):
        found = []
        for patient in (False, True):
            draw, live_index = Random(seed), filled(patient)
            usage, first = live_index.segments[3], MANY
            for _ in range(30):
                slot, queue = draw.choice(((1, 1), (1, 2), (2, 1)))
                act = draw.randrange(6)
                if act == 0:
                    live_index.settle(slot, queue, [(1, first)])
                elif act == 1 and draw.random() < 0.2:
                    live_index.drop(slot)
                    first = draw.choice((0, first))
                elif act < 4:
                    for i in range(first, first + 6000, 2):
                        live_index.run(usage, slot, [i + 1], [queue], 100)
                    if act == 2:
                        live_index.blob(slot, first + 1, seed << 32 | slot << 24 | first, 1)
                    first += 6000
                elif live_index.leaving:
                    live_index.let_go()
            found.append(counted(live_index))
        assert found[0] == found[1], seed


def test_large_bodies_that_come_again_under_the_same_ids_are_not_counted_off() -> None:
    """A slot that is copied anew has the ids it had."""
    live_index = filled(patient=True)
    live_index.settle(1, 1, [(1, MANY)])
    live_index.drop(1)
    usage = live_index.segments[3]
    for i in range(0, MANY, 100):
        live_index.run(usage, 1, [i + 1], [1], 100)
        live_index.blob(1, i + 1, 9 << 20 | i, 1)
    _, refs, _ = counted(live_index)
    assert all(refs[9 << 20 | i] == 1 for i in range(0, MANY, 100))


def test_ranges_are_taken_from_the_end() -> None:
    ranges = LiveRanges()
    for i in range(0, 4000, 2):
        ranges.add(i, i, 1)
    whole = ranges.pieces()
    assert ranges.within(0, 3998) and not ranges.within(1, 3998) and not ranges.within(0, 3997)
    taken = [ranges.pop(2), ranges.pop(2)]
    assert taken[1] + taken[0] == whole and not ranges and not ranges.tops and ranges.within(5, 6)


def test_segments_are_freed_when_it_has_been_counted() -> None:
    disk = SimDisk(0)
    journal = open_journal(disk, segment_bytes=1 << 16)
    for first in range(1, 6001, 1000):
        put(journal, *[sent(i, b"x") for i in range(first, first + 1000, 2)])
    put(journal, sent(7001, b"stays", queues=[2]), settled(1, 7000))
    assert journal._live_index.leaving
    maintain(journal)
    assert not journal._live_index.leaving and len(journal._live_index.segments) <= 3
    journal.close(clean=True)
    again = open_journal(disk)
    assert live_ids(again) == [] and live_ids(again, queue=2) == [7001]
