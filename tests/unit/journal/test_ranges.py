"""LiveRanges against the obvious dict."""

from __future__ import annotations

from random import Random

import pytest

from broker.journal.log import ranges
from broker.journal.log.ranges import LiveRanges


def as_dict(pieces):
    return {i: segment for a, b, segment in pieces for i in range(a, b + 1)}


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_a_dict(seed, monkeypatch):
    monkeypatch.setattr(ranges, "_CHUNK", 4)
    random = Random(seed)
    live = LiveRanges()
    model = {}
    for _ in range(600):
        first = random.randrange(1, 300)
        last = first + random.choice((0, 0, 1, 7, 60))
        inside = {i: s for i, s in model.items() if first <= i <= last}
        if random.random() < 0.5:
            segment = random.randrange(1, 4)
            assert as_dict(live.add(first, last, segment)) == inside
            model.update(dict.fromkeys(range(first, last + 1), segment))
        else:
            assert as_dict(live.overlap(first, last)) == inside
            assert as_dict(live.remove(first, last)) == inside
            model = {i: s for i, s in model.items() if i not in inside}
        probe = random.randrange(1, 360)
        piece = live.range_at(probe)
        assert (piece is not None) == (probe in model)
        assert piece is None or (piece[0] <= probe <= piece[1] and piece[2] == model[probe])
    assert as_dict(live.overlap(0, 1000)) == model
    assert all(len(chunk.firsts) <= 9 for chunk in live.chunks)


def test_filling_and_draining_in_order_costs_one_range():
    live = LiveRanges()
    for i in range(1, 10_001):
        live.add(i, i, 1)
    assert [list(c.firsts) for c in live.chunks] == [[1]]
    for i in range(1, 10_001):
        live.remove(i, i)
    assert not live
