"""Standbys of what the journal has brought back: one for each slot of its log, with all that is of it, in steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.core.message import NO_IDS
from broker.owner.slots import recovered_slots
from broker.owner.slots.recovered_slots import RECOVER_PIECE, recovered_standbys


class Noted:
    """A standby that notes what it is given."""

    def __init__(self, engine):
        self.engine, self.metas, self.producers, self.runs = engine, [], {}, []

    def restore_meta(self, meta):
        self.metas.append(meta.what)

    def restore_producers(self, producers):
        self.producers = producers

    def found(self, runs):
        self.runs += runs


@pytest.fixture(autouse=True)
def noted(monkeypatch):
    monkeypatch.setattr(recovered_slots, "Standby", Noted)


def recovered(metas=(), producers=None, runs=(), slots=(3, 9)):
    return SimpleNamespace(
        slots=set(slots), producers=producers or {},
        metas=[SimpleNamespace(slot=slot, what=what) for slot, what in metas],
        runs=lambda: iter([(SimpleNamespace(slot=slot), NO_IDS) for slot in runs]),
    )  # fmt: skip


def brought_back(found):
    """(slot → its standby, how often it paused)."""
    work, steps = recovered_standbys(found, lambda slot: f"engine {slot}"), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, steps
        steps += 1


def test_each_slot_of_the_log_has_a_standby_with_what_is_its_own():
    found, _ = brought_back(recovered([(9, "a"), (3, "b"), (9, "c")], {3: {5: 6}}, [3, 9, 9]))
    assert list(found) == [3, 9] and found[3].engine == "engine 3"
    assert found[9].metas == ["a", "c"] and found[3].metas == ["b"]
    assert found[3].producers == {5: 6} and found[9].producers == {}
    assert [len(found[slot].runs) for slot in (3, 9)] == [1, 2]


def test_what_is_of_another_slot_is_nobodys():
    """The log was told to forget it (a replica that has left), and not all of it is gone."""
    found, _ = brought_back(recovered([(4, "a")], {4: {5: 6}}, [4]))
    assert not any(it.metas or it.producers or it.runs for it in found.values())


def test_it_pauses_between_pieces():
    assert brought_back(recovered())[1] == 0
    many = RECOVER_PIECE + 1
    assert brought_back(recovered([(3, "a")] * many, {}, [9] * many))[1] == 2
    assert brought_back(recovered([(4, "a")] * 3 * RECOVER_PIECE))[1] == 3, "what is passed over takes time, too"
