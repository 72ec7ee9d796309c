"""Pages of long lists: what a sorted list says, in steps of a piece, and nothing kept between two pages."""

from __future__ import annotations

from random import Random

from broker.core.pages import Ask, choose, merged


def page(pieces, ask: Ask, keep=None):
    steps = choose(pieces, ask, lambda entry: entry[1], lambda entry: (entry[0],), keep)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


def test_all_pages_together_are_the_sorted_list():
    random = Random(8)
    for _ in range(100):
        entries = [(f"n{n}", random.randint(0, 5)) for n in range(random.randint(0, 40))]
        pieces = [entries[at : at + 7] for at in range(0, len(entries), 7)]
        down, limit = random.random() < 0.5, random.randint(1, 9)
        keep = (lambda entry: entry[1] != 3) if random.random() < 0.5 else None
        expected = sorted(
            filter(keep, entries) if keep else entries, key=lambda entry: (entry[1], entry[0]), reverse=down
        )
        found, after = [], None
        while True:
            told, steps = page(pieces, Ask(limit, "", down, after), keep)
            assert steps == len(pieces) and told.total == len(expected) and len(told.entries) <= limit
            found += [entry for _, entry in told.entries]
            assert told.more is (len(found) < len(expected))
            if not told.more:
                break
            after = told.entries[-1][0]
        assert found == expected


def test_what_comes_meanwhile_shifts_nothing():
    entries = [(f"n{n}", n) for n in range(6)]
    first, _ = page([entries], Ask(3))
    entries.insert(0, ("new", 0))
    second, _ = page([entries], Ask(3, after=first.entries[-1][0]))
    assert [entry[1] for _, entry in second.entries] == [3, 4, 5]


def test_the_pages_of_parts_are_the_page_of_all():
    random = Random(3)
    for _ in range(100):
        entries = [(f"n{n}", random.randint(0, 5)) for n in range(random.randint(0, 40))]
        parts = [entries[at::3] for at in range(3)]
        ask = Ask(random.randint(1, 9), "", random.random() < 0.5)
        whole, _ = page([entries], ask)
        assert merged([page([part], ask)[0] for part in parts], ask) == whole
        twice = merged([merged([page([part], ask)[0] for part in parts[:2]], ask), page([parts[2]], ask)[0]], ask)
        assert twice == whole
    assert merged([], Ask(3)) == page([], Ask(3))[0]
