"""The last items of each slot for followers that come back: no gap, or nothing."""

from __future__ import annotations

from random import Random

from broker.journal.log.recent_items import Tail


def item(slot: int, last: int, size: int = 10) -> tuple[int, int, bytes]:
    return (slot, last, b"x" * size)


def test_it_has_all_behind_a_number_or_says_that_it_has_not():
    random = Random(6)
    for _ in range(100):
        tail = Tail(limit=120)
        kept: dict[int, list] = {1: [], 2: []}
        last = {1: 0, 2: 0}
        for _ in range(60):
            slot = random.choice((1, 2))
            if random.random() < 0.05:
                tail.drop(slot)
                kept[slot] = []
                last[slot] += 5  # led by others meanwhile
                continue
            first = last[slot] + 1
            last[slot] = first + random.randint(0, 2)
            one = item(slot, last[slot], random.randint(5, 30))
            tail.add(first, one)
            kept[slot].append((first, one))
            after = random.randint(0, last[slot])
            found = tail.since(slot, after, last[slot], 100)
            if found is not None:
                assert found == [one for _, one in kept[slot] if one[1] > after]
        assert tail._bytes <= tail.limit


def test_no_more_than_asked_for_and_nothing_of_another_life():
    tail = Tail(limit=1000)
    for last in (1, 2, 3):
        tail.add(last, item(7, last))
    assert [one[1] for one in tail.since(7, 1, 3, 1)] == [2]
    assert tail.since(7, 3, 3, 9) == [] and tail.since(7, 1, 4, 9) is None and tail.since(8, 0, 1, 9) is None
    tail.add(9, item(7, 9))  # with a gap: what is before it is of no use
    assert tail.since(7, 2, 9, 9) is None and tail.since(7, 8, 9, 9) == [item(7, 9)]


def test_without_room_nothing_is_kept():
    tail = Tail(limit=0)
    tail.add(1, item(1, 1))
    assert tail.since(1, 0, 1, 9) is None
