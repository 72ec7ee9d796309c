"""Who is alive where: the live index that follows the log, record by record."""

from __future__ import annotations

import pytest

from broker.journal.log.live_index import LiveIndex, SegmentUsage


def live_index(*segments: int) -> tuple[LiveIndex, list[SegmentUsage]]:
    made = LiveIndex()
    return made, [made.open_segment(number, 1000) for number in segments]


def alive(made: LiveIndex) -> dict[int, tuple[int, int]]:
    return {number: (usage.live, usage.total) for number, usage in made.segments.items()}


def test_a_message_counts_once_for_each_queue_it_is_in() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, range(5, 8), [1, 2], 300)
    assert alive(made) == {1: (6, 6)} and first.run_bytes == 300 and first.live_bytes() == 300
    made.settle(0, 1, [(5, 6)])
    assert alive(made) == {1: (4, 6)} and first.live_bytes() == 200
    assert made.live(0, 1, 0, 99) == [(7, 7, 1)] and made.live(0, 2, 0, 6) == [(5, 6, 1)]
    made.settle(0, 2, [(0, 99)])
    made.settle(0, 1, [(0, 99)])
    assert alive(made) == {1: (0, 6)} and first.live_bytes() == 0


def test_what_is_settled_twice_or_never_was_changes_nothing() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [1, 2, 5], [1], 30)
    for _ in range(2):
        made.settle(0, 1, [(2, 4)])
        assert alive(made) == {1: (2, 3)}
    made.settle(0, 9, [(1, 5)])
    made.settle(1, 1, [(1, 5)])
    assert alive(made) == {1: (2, 3)} and made.live(0, 9, 0, 9) == []


def test_a_copy_lives_in_the_segment_it_was_copied_into() -> None:
    made, (first, second) = live_index(1, 2)
    made.run(first, 0, range(1, 5), [1], 40)
    made.run(second, 0, range(3, 5), [1], 20)
    assert alive(made) == {1: (2, 4), 2: (2, 2)}
    made.settle(0, 1, [(1, 4)])
    assert alive(made) == {1: (0, 4), 2: (0, 2)}


def test_a_segment_knows_the_lowest_and_highest_of_each_slot() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [7, 9], [1], 1)
    made.run(first, 0, range(8, 9), [2], 1)
    made.run(first, 0, [12], [1], 1)
    made.run(first, 0, [3], [1], 1)
    made.run(first, 0, [5], [1], 1)
    made.run(first, 4, [100], [1], 1)
    assert first.spans == {0: [3, 12], 4: [100, 100]}


def test_ids_are_held_when_all_of_them_live_in_one_range() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [1, 2, 3, 5], [1], 1)
    assert made.contains(0, 1, 1, 3) and made.contains(0, 1, 5, 5)
    assert not made.contains(0, 1, 3, 5) and not made.contains(0, 1, 4, 4) and not made.contains(0, 2, 1, 1)


def test_closed_segments_are_listed_until_they_are_freed() -> None:
    made, (first, second, third) = live_index(1, 2, 5)
    first.end, second.end = 10, 20
    assert made.listed() == [(1, 10), (2, 20)]
    first.freed = True
    assert made.listed() == [(2, 20)]
    assert made.after(2) is third and made.after(3) is third and made.after(5) is None


def test_a_blob_goes_when_the_last_queue_has_let_go_of_its_message() -> None:
    made, (first,) = live_index(1)
    assert made.unused_blob(70)
    made.run(first, 0, [1], [1, 2], 10)
    made.blob(0, 1, 70, 2)
    made.blob(0, 1, 70, 2)  # a copy of the run changes nothing
    made.run(first, 0, [9], [3], 10)
    made.blob(0, 9, 70, 1)  # moved: another id, the same body
    assert made.blobs[70].refs == 3 and not made.unused_blob(70)
    made.settle(0, 1, [(1, 1)])
    made.settle(0, 2, [(1, 1)])
    assert made.blob_of[0].keys() == {9} and made.take_idle_blobs() == []
    made.settle(0, 3, [(0, 99)])
    assert made.take_idle_blobs() == [70] and made.unused_blob(70) and made.take_idle_blobs() == []


def test_a_blob_that_is_used_again_meanwhile_stays() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [1], [1], 10)
    made.blob(0, 1, 70, 1)
    made.settle(0, 1, [(1, 1)])
    made.run(first, 0, [2], [1], 10)
    made.blob(0, 2, 70, 1)
    assert made.take_idle_blobs() == [] and made.blobs[70].refs == 1


def test_forgotten_blobs_are_those_that_nobody_uses() -> None:
    made, (first,) = live_index(1)
    for id, blob in ((1, 70), (2, 71)):
        made.run(first, 0, [id], [1], 10)
        made.blob(0, id, blob, 1)
    made.settle(0, 1, [(1, 1)])
    made.forget_idle_blobs()
    assert made.blobs.keys() == {71} and made.idle_blobs == []


def test_a_slot_that_is_dropped_takes_nothing_of_others_along() -> None:
    made, (first,) = live_index(1)
    for slot in (0, 1):
        made.run(first, slot, [1, 2], [1], 10)
        made.blob(slot, 1, 70 + slot, 1)
    made.drop(0)
    assert alive(made) == {1: (2, 4)} and first.spans == {1: [1, 2]} and made.blob_of.keys() == {1}
    assert made.take_idle_blobs() == [70] and made.live(1, 1, 0, 9) == [(1, 2, 1)] and made.live(0, 1, 0, 9) == []


@pytest.mark.parametrize("drop", [False, True])
def test_what_leaves_many_ranges_at_once_is_counted_in_pieces(drop: bool) -> None:
    made, (first,) = live_index(1)
    made.be_patient()
    ids = range(0, 20_000, 2)
    made.run(first, 0, ids, [1], 10)
    made.blob(0, 4, 70, 1)
    if drop:
        made.drop(0)
    else:
        made.settle(0, 1, [(0, 30_000)])
    assert made.live(0, 1, 0, 30_000) == [], "nobody sees it any more"
    assert first.live == len(ids), "the segment counts it still"
    steps = 0
    while made.leaving:
        before = first.live
        made.let_go()
        steps += 1
        assert 0 < before - first.live <= 4 * 1100
    assert steps > 1 and first.live == 0 and made.take_idle_blobs() == [70]


@pytest.mark.parametrize("settled", [False, True])
def test_what_leaves_of_a_slot_that_is_dropped_counts_no_bodies_of_what_follows(settled: bool) -> None:
    made, (first,) = live_index(1)
    made.be_patient()
    made.run(first, 0, range(0, 20_000, 2), [1], 10)
    if settled:
        made.settle(0, 1, [(0, 30_000)])
    made.drop(0)
    made.run(first, 0, [4], [1], 10)
    made.blob(0, 4, 71, 1)
    while made.leaving:
        made.let_go()
    assert made.blobs[71].refs == 1 and first.live == 1


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(("patient", "ranges"), [(False, 10_000), (True, 100)])
def test_few_ranges_or_before_anybody_waits_are_counted_at_once(drop: bool, patient: bool, ranges: int) -> None:
    made, (first,) = live_index(1)
    if patient:
        made.be_patient()
    made.run(first, 0, range(0, 2 * ranges, 2), [1], 10)
    if drop:
        made.drop(0)
    else:
        made.settle(0, 1, [(0, 30_000)])
    assert first.live == 0 and not made.leaving


def test_a_view_is_of_one_slot_and_stays_what_it_was() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [1, 2], [1], 10)
    made.run(first, 1, [1], [1], 10)
    made.run(first, 0, [3], [2], 10)
    made.settle(0, 2, [(3, 3)])
    view = made.view(0)
    made.settle(0, 1, [(1, 2)])
    assert view.queues.keys() == {(0, 1)} and view.live(0, 1, 0, 9) == [(1, 2, 1)]


def test_queues_that_came_and_went_do_not_pile_up() -> None:
    made, (first,) = live_index(1)
    made.run(first, 0, [1], [0], 1)
    for queue in range(1, 5000):
        made.run(first, 0, [queue + 1], [queue], 1)
        made.settle(0, queue, [(queue + 1, queue + 1)])
    assert len(made.queues) <= 2000 and made.live(0, 0, 0, 9) == [(1, 1, 1)]
