"""After a restart memory knows which ids stand where, until they are read back."""

from __future__ import annotations

from random import Random

from broker.core.message import Run
from broker.engine.messages.unloaded import (
    MOST_GHOSTS,
    Restored,
    Stub,
    ghost,
    is_firm,
    is_ghost,
    is_strange,
    may_be_ghosts,
    unread,
)


def test_it_finds_what_a_plain_list_finds():
    random = Random(9)
    for _ in range(200):
        runs, first = [], 1
        for _ in range(random.randint(1, 8)):
            ids = sorted(random.sample(range(first, first + 6), random.randint(1, 5)))
            runs.append(ids)
            first = ids[-1] + 1 + random.randint(0, 2)
        table = Restored()
        for ids in runs:
            table.add(ids if random.random() < 0.5 or ids[-1] - ids[0] + 1 != len(ids) else range(ids[0], ids[-1] + 1))
        order = list(range(len(runs)))
        if random.random() < 0.5:
            random.shuffle(order)
            table.arrange(order)
        read = random.randint(0, len(runs))
        assert table.has_read(read) is (read == len(runs))
        low, high = sorted(random.sample(range(first + 8), 2))
        found = {place: set() for place in range(len(runs))}
        for place, (a, b) in table.find(low, high):
            found[place] |= set(range(a, b + 1))
        for place, at in enumerate(order[read:]):
            assert found[place] == {i for i in runs[at] if low <= i <= high}


def test_a_message_that_is_gone_is_told_from_one_that_is_not_here():
    here, gone = Stub(range(1, 3), position=100, nbytes=20), ghost((5, 6))
    assert not is_ghost(here) and here.size_of(0) == 10
    assert is_ghost(gone) and is_strange(gone) and not is_firm(gone)
    assert not is_strange(ghost((5, 6), own=True)) and is_firm(ghost((5, 6), firm=True))
    assert len(ghost((6, 5)).ids) == 0


def test_one_without_bytes_among_many():
    assert not unread({}) and not unread({1: Run(range(1, 2), b"", [b"x"], 1)})
    assert unread({1: Run(range(1, 2), b"", [b"x"], 1), 2: Stub(range(2, 3), 9)}) and unread({3: ghost((3, 3))})


def test_how_many_a_client_may_be_said_to_have():
    assert may_be_ghosts([]) and may_be_ghosts([(1, MOST_GHOSTS)]) and not may_be_ghosts([(0, MOST_GHOSTS)])
    assert not may_be_ghosts([(1, MOST_GHOSTS), (0, 0)])
