"""A rebalance: proposed with what it takes, approved by its id alone, stopped, and never approved twice by one word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from broker_operator.workloads.rebalancing import Proposal, decide, proposed

from broker.cluster.planning.view import Rebalance
from tests.unit.cluster.placement_world import copies_moved, members, run, settled

SOME = Proposal("abc", 12, 3, 120_000_000)
NONE = Proposal()
HELD = Rebalance(held=True)
MOVING = Rebalance(False, 4, "abc")


def test_what_is_proposed_is_what_will_move():
    before = settled(members("a", "b", "c"))
    more = replace(before, owners=members("a", "b", "c", "d"), rebalance=HELD)
    found = proposed(more, "", {slot: 10 for slot in before.records})
    after, _ = run(replace(more, rebalance=Rebalance()))
    assert found.moves == copies_moved(before, after) > 100 and found.leaders > 0
    assert found.nbytes == 10 * found.moves and found.calm
    assert proposed(more, "", {}) == found._replace(nbytes=None), "the same id as long as the same would move"
    assert proposed(more, "abc", {}).id not in ("", found.id), "but for that it was approved before"
    assert proposed(after, "", {}) == Proposal()
    assert not proposed(replace(more, owners=members("a", "b", "d")), "", {}).calm


@pytest.mark.parametrize(
    ("now", "asked", "found", "write", "reason"),
    [
        (None, "", SOME, HELD, "Proposed"),  # it has just become Manual
        (None, "abc", SOME, HELD, "Proposed"),
        (HELD, "", NONE, None, "Idle"),
        (HELD, "", SOME, None, "Proposed"),
        (HELD, "old", SOME, None, "Proposed"),
        (HELD, "abc", SOME, MOVING, "Moving"),
        (MOVING, "abc", SOME._replace(id="new"), None, "Moving"),
        (MOVING, "abc", NONE._replace(calm=False), None, "Moving"),
        (MOVING, "abc", NONE, Rebalance(True, approved="abc"), "Done"),
        (MOVING, "", SOME, Rebalance(True, approved="abc"), "Cancelled"),
        (MOVING, "new", SOME._replace(id="new"), Rebalance(True, approved="abc"), "Cancelled"),
        (Rebalance(True, approved="abc"), "abc", SOME._replace(id="new"), None, "Proposed"),
        (Rebalance(False, 2, "abc"), "abc", SOME, MOVING, "Moving"),  # movesAtOnce was changed
        (Rebalance(), "", SOME, HELD, "Proposed"),  # somebody has lifted it by hand
    ],
)
def test_what_becomes_of_it(now, asked, found, write, reason):
    decided = decide(now, asked, 4, found, 10_000_000)
    assert (decided.write, decided.condition.reason) == (write, reason)
    assert decided.condition.status is (reason == "Moving")


def test_people_are_told_how_much_it_is_and_how_to_approve_it():
    decided = decide(HELD, "", 4, SOME._replace(nbytes=123_456_789), 10_000_000)
    assert decided.fields == {
        "state": "Proposed", "id": "abc", "moves": 12, "leaders": 3, "bytes": 120_000_000, "seconds": 4,
    }  # fmt: skip
    assert "12 copies of slots and 3 leaders (120 MB, about 4 s)" in decided.condition.message
    assert "stampede.dev/rebalance=abc" in decided.condition.message
    assert "'old' in the annotation is not" in decide(HELD, "old", 4, SOME, 1).condition.message
    assert decide(HELD, "", 4, SOME._replace(nbytes=None), 1).fields.keys() == {"state", "id", "moves", "leaders"}
