"""Positions of what is paged out: their order through every way in and out."""

from __future__ import annotations

from random import Random

import pytest

from broker.engine.messages.page_index import _CHUNK, PageIndex


@pytest.mark.parametrize("seed", range(20))
def test_it_is_a_list(seed):
    """Against a list: appends, prepends and drops around the borders of its arrays."""
    chance, index, model = Random(seed), PageIndex(), []
    then: list[tuple[PageIndex, list[int]]] = []
    for step in range(60):
        many = chance.choice((0, 1, 2, _CHUNK - 1, _CHUNK, _CHUNK + 1, 3 * _CHUNK))
        new = [step * 10_000 + n for n in range(many)]
        match chance.randrange(4):
            case 0:
                index.extend(new)
                model += new
            case 1:
                index.prepend(new)
                model[:0] = new
            case 2:
                index.append(step)
                model.append(step)
            case _:
                gone = min(many, len(model))
                index.drop(gone)
                del model[:gone]
        assert len(index) == index.size == len(model)
        assert list(index.first(5)) == model[:5]
        if model:
            place = chance.randrange(len(model))
            assert index.at(place) == model[place]
        then.append((index.snapshot(), list(model)))
    assert list(index) == model
    for snapshot, was in then:
        assert list(snapshot) == was and snapshot.size == len(was)
        gone = chance.randrange(len(was) + 1)
        snapshot.drop(gone)
        assert list(snapshot.first(5)) == was[gone : gone + 5] and list(snapshot) == was[gone:]
        snapshot.prepend([1, 2, 3])
        assert list(snapshot) == [1, 2, 3, *was[gone:]]
    assert list(index) == model
