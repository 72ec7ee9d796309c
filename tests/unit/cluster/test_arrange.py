"""What is moved when nothing is urgent: where to, how many at a time, and when it rests."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from broker.cluster.planning.arrange import arrange
from broker.cluster.planning.placement import carried_out, left_to_move, plan
from broker.cluster.planning.view import Policy, Rebalance, StepKind, health
from broker.core.ids import SLOTS

from .placement_world import balanced, copies_moved, edges, leads, members, run, settled


@pytest.mark.parametrize("missed", [("a", "a"), ("a", "a", ""), ("ab", "a", "")])
def test_leaders_go_to_where_most_edges_reach_them_and_come_back_afterwards(missed):
    before = settled(members("a", "b", "c"))
    view, done = run(replace(before, edges=edges(*missed)))
    assert set(done) == {StepKind.TRANSFER}, "the owner is well: nothing is failed over, nothing copied"
    assert leads(view)["a"] == 0 and abs(leads(view)["b"] - leads(view)["c"]) <= 1
    assert plan(view) == [], "no evening back as long as it is cut off"
    after, done = run(replace(view, edges=edges(*("" for _ in missed))))
    balanced(after, after.owners)
    assert set(done) == {StepKind.TRANSFER}


@pytest.mark.parametrize("missed", [("a", ""), ("abc", "abc"), (), ("ghost", "ghost")])
def test_leaders_stay_where_they_are_as_well_reached_as_anywhere(missed):
    view = replace(settled(members("a", "b", "c")), edges=edges(*missed))
    assert plan(view) == []


def test_a_restart_copies_nothing_and_a_loss_everything_it_must():
    before = settled(members("a", "b", "c", "d"))
    away, _ = run(replace(before, owners=members("a", "b", "c")))
    assert copies_moved(before, away) == 0
    back, done = run(replace(away, owners=members("a", "b", "c", "d")))
    assert copies_moved(before, back) == 0 and done[StepKind.ADD] == done[StepKind.DROP] == 0
    balanced(back, "abcd")
    lost, done = run(replace(away, lost=frozenset("d")))
    assert done[StepKind.ADD] == done[StepKind.DROP] == sum("d" in r.replicas for r in before.records.values())
    balanced(lost, "abc")


def test_a_lost_owner_that_nobody_can_replace_keeps_its_place():
    before = settled(members("a", "b", "c"))
    after, done = run(replace(before, owners=members("a", "b"), lost=frozenset("c")))
    assert done[StepKind.DROP] == done[StepKind.ADD] == 0
    assert all("c" in record.replicas for record in after.records.values())


def test_a_leaving_owner_gives_its_leaders_away_and_keeps_its_replicas():
    before = settled(members("a", "b", "c", "d"))
    after, done = run(replace(before, owners=members("a", "b", "c", "d", leaving="b")))
    assert set(done) == {StepKind.TRANSFER} and copies_moved(before, after) == 0
    assert all(record.leader != "b" for record in after.records.values())
    # Some pass through a third owner on their way, because not every pair shares a slot.
    assert done[StepKind.TRANSFER] <= 64 * 1.5


def test_leaders_are_made_even_a_few_at_a_time_and_drained_as_many_as_allowed():
    """Whoever has just come back is one process, and every slot it is given stands still until it has them all."""
    view = settled(members("a", "b", "c"))
    back = {
        slot: replace(record, leader=next(one for one in record.isr if one != "c")) if record.leader == "c" else record
        for slot, record in view.records.items()
    }
    steps = plan(replace(view, records=back))
    assert 0 < len(steps) <= view.policy.max_moves // 4 and {step.new.target for step in steps} == {"c"}
    balanced(run(replace(view, records=back))[0], "abc")
    assert len(plan(replace(view, owners=members("a", "b", "c", leaving="c")))) == view.policy.max_moves
    assert plan(replace(view, records=back, policy=Policy(max_moves=1))), "never none"


def test_who_has_come_back_leads_when_it_has_nearly_all_that_it_missed():
    """Before that its time belongs to what it missed; a slot or two that take hours must not keep it from leading."""
    view, most = settled(members("a", "b", "c")), Policy().max_moves

    def without_c(slots):
        back = dict(view.records)
        for slot, record in view.records.items():
            isr = tuple(one for one in record.isr if one != "c") if slot in slots else record.isr
            leader = next(one for one in record.isr if one != "c") if record.leader == "c" else record.leader
            back[slot] = replace(record, isr=isr, leader=leader)
        return replace(view, records=back)

    assert "c" not in {step.new.target for step in plan(without_c(range(most + 1)))}
    assert "c" in {step.new.target for step in plan(without_c(range(most)))}


def test_a_cordoned_owner_is_emptied_and_can_be_taken_away():
    before = settled(members("a", "b", "c", "d"))
    held = sum("d" in record.replicas for record in before.records.values())
    after, done = run(replace(before, cordoned=frozenset("d")))
    assert all("d" not in record.replicas for record in after.records.values())
    assert done[StepKind.ADD] == done[StepKind.DROP] == held
    balanced(after, "abc")
    gone, done = run(replace(after, owners=members("a", "b", "c"), cordoned=frozenset()))
    assert not done and gone == replace(after, owners=members("a", "b", "c"), cordoned=frozenset())


def test_draining_stops_before_too_few_are_left_to_confirm_anything():
    before = settled(members("a", "b"))
    after, done = run(replace(before, cordoned=frozenset("b")))
    assert done[StepKind.DROP] == 0 and all(set(record.isr) == {"a", "b"} for record in after.records.values())


def test_two_of_three_are_drained_down_to_the_minimum():
    before = settled(members("a", "b", "c"))
    after, _ = run(replace(before, cordoned=frozenset("c")))
    assert all(set(record.replicas) == {"a", "b"} for record in after.records.values())


@pytest.mark.parametrize("count", [3, 4, 6])
def test_a_newcomer_costs_no_more_copies_than_its_share(count):
    names = [f"o{i}" for i in range(count)]
    before = settled(members(*names))
    after, done = run(replace(before, owners=members(*names, "new")))
    assert copies_moved(before, after) <= math.ceil(SLOTS * 3 / (count + 1)) + 2
    assert done[StepKind.ADD] == done[StepKind.DROP]
    balanced(after, [*names, "new"])


def test_replicas_of_a_slot_are_in_different_zones():
    before = settled(members("a", "b", "c", "d", "e", "f", zones="xxyyzz"))
    for record in before.records.values():
        assert len({"abcdef".index(one) // 2 for one in record.replicas}) == 3
    balanced(before, "abcdef")
    # One zone is away for good: two zones must do, and when it is back three are used again.
    less, _ = run(replace(before, owners=members("a", "b", "c", "d", zones="xxyy"), lost=frozenset("ef")))
    assert all({"ab" if o in "ab" else "cd" for o in r.replicas} == {"ab", "cd"} for r in less.records.values())
    more, _ = run(replace(less, owners=before.owners, lost=frozenset()))
    assert all(len({"abcdef".index(one) // 2 for one in r.replicas}) == 3 for r in more.records.values())


def test_no_more_is_moved_at_a_time_than_allowed():
    view = replace(settled(members("a", "b", "c")), owners=members("a", "b", "c", "d"))
    steps = arrange(view)
    assert Counter(step.kind for step in steps) == {StepKind.ADD: 8}
    records = {**view.records, **{step.new.slot: step.new for step in steps}}
    assert [step.kind for step in arrange(replace(view, records=records))] == [], "eight are being seeded"
    assert health(replace(view, records=records)).seeding == 8
    assert left_to_move(view)[StepKind.ADD] == 192


def test_while_it_is_held_a_new_owner_gets_nothing_and_what_replicas_need_is_done_all_the_same():
    before = replace(settled(members("a", "b", "c")), rebalance=Rebalance(held=True))
    more = replace(before, owners=members("a", "b", "c", "d"))
    after, done = run(more)
    assert not done and copies_moved(before, after) == 0, "neither copies nor, without copies, leaders"
    drained, done = run(replace(more, cordoned=frozenset("a")))
    assert done[StepKind.ADD] and not any("a" in record.replicas for record in drained.records.values())
    lost, done = run(replace(more, owners=members("b", "c", "d"), lost=frozenset("a")))
    assert done[StepKind.ADD] == sum("a" in record.replicas for record in before.records.values())
    assert all(len(record.replicas) == 3 for record in lost.records.values())


@pytest.mark.parametrize("moves", [1, 3, 8, 50])
def test_as_many_as_are_wanted_move_at_once_and_held_again_what_has_begun_comes_to_its_end(moves: int):
    before = replace(settled(members("a", "b", "c")), rebalance=Rebalance(moves=moves))
    more = replace(before, owners=members("a", "b", "c", "d"))
    steps = plan(more)
    assert sum(step.kind is StepKind.ADD for step in steps) == min(moves, Policy().max_moves)
    begun = carried_out(more, steps)
    stopped, _ = run(replace(begun, rebalance=Rebalance(held=True)))
    assert all(len(record.replicas) == 3 == len(record.isr) for record in stopped.records.values())
    assert copies_moved(before, stopped) <= len(steps)
    after, _ = run(replace(stopped, rebalance=Rebalance(moves=moves)))
    balanced(after, after.owners)


def test_what_makes_no_sense_holds():
    assert Rebalance.decode(None) == Rebalance() and Rebalance.decode(b"{}") == Rebalance()
    assert Rebalance.decode(Rebalance(True, 3, "a").encode()) == Rebalance(True, 3, "a")
    assert all(Rebalance.decode(data).held for data in (b"", b"[]", b'{"held": "no"}', b"nonsense"))
