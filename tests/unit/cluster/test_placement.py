"""The planner over random clusters: what it may never do, and where it ends up."""

from __future__ import annotations

import random
import time
import timeit
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from broker.cluster.planning.placement import carried_out, foretold, plan, urgent
from broker.cluster.planning.view import Policy, StepKind, View, health
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord

from .placement_world import all_on, balanced, check, edges, members, run, settled

FEW = settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_a_new_cluster_is_even_from_the_first_records_on(count):
    owners = members(*(f"o{i}" for i in range(count)))
    steps = plan(View(owners, {}, Policy()))
    assert [step.kind for step in steps] == [StepKind.CREATE] * SLOTS
    view = carried_out(View(owners, {}, Policy()), steps)
    balanced(view, owners)
    assert all(len(record.isr) == min(3, count) and record.epoch == 1 for record in view.records.values())
    assert plan(view) == [], "at rest"


def test_no_owner_no_plan():
    assert plan(View({}, {}, Policy())) == []


def test_fail_over_comes_alone_at_once_and_from_the_isr():
    view = settled(members("a", "b", "c"))
    led = {slot for slot, record in view.records.items() if record.leader == "a"}
    view = replace(view, owners=members("b", "c"))
    steps = plan(view)
    assert {step.new.slot for step in steps} == led and {step.kind for step in steps} == {StepKind.FAILOVER}
    check(view, steps)
    assert all("a" not in step.new.isr and "a" in step.new.replicas for step in steps)
    after = carried_out(view, steps)
    leads = Counter(record.leader for record in after.records.values())
    assert abs(leads["b"] - leads["c"]) <= 1
    assert plan(after) == [], "a is expected back: nothing is copied"


def test_a_slot_whose_other_replicas_are_not_in_sync_stays_with_a_leader_that_is_cut_off():
    view = settled(members("a", "b", "c"))
    record = next(record for record in view.records.values() if record.leader == "a")
    alone = replace(record, isr=("a",))
    view = replace(view, records={**view.records, record.slot: alone}, edges=edges("a", "a"))
    assert record.slot not in {step.new.slot for step in plan(view)}


def test_fail_over_goes_to_an_owner_that_edges_reach():
    view = replace(settled(members("a", "b", "c")), edges=edges("b", "b"))
    steps = urgent(replace(view, owners=members("b", "c")))
    assert {step.owner for step in steps if step.old.leader == "a"} == {"c"}


def test_a_hand_over_to_an_owner_that_was_cut_off_meanwhile_is_taken_back():
    view = settled(members("a", "b", "c"))
    record = next(record for record in view.records.values() if record.leader == "a")
    view = replace(view, records={**view.records, record.slot: replace(record, target="b")}, edges=edges("b", "b"))
    (step,) = urgent(view)
    assert step.kind is StepKind.CANCEL and step.new.slot == record.slot


def test_fail_over_keeps_the_dead_in_the_isr_rather_than_going_below_the_minimum():
    record = SlotRecord(7, 4, "a", ("a", "b", "c"), ("a", "b"), "", 9)
    (step,) = urgent(View(members("b"), {**all_on("b"), 7: record}, Policy()))
    assert step.new == SlotRecord(7, 5, "b", ("a", "b", "c"), ("a", "b"), "", 9)


def test_without_a_live_isr_member_the_slot_stays_offline():
    record = SlotRecord(7, 4, "a", ("a", "b", "c"), ("a",))
    view = View(members("b", "c"), {**all_on("b", "c"), 7: record}, Policy(replicas=2))
    assert plan(view) == []
    assert health(view).offline == 1
    assert all(step.new.slot != 7 for step in foretold(replace(view, lost=frozenset("a")))), "dead for long"
    assert urgent(replace(view, owners=members("a", "b", "c"))) == [], "and when it is back it leads as before"


def test_a_leader_that_is_not_in_the_isr_is_replaced():
    record = SlotRecord(7, 4, "", ("a", "b"), ("b",))
    (step,) = urgent(View(members("a", "b"), {**all_on("a", "b"), 7: record}, Policy(2, 1)))
    assert (step.new.leader, step.new.epoch) == ("b", 5)


def test_the_one_replica_that_was_the_target_leads_after_a_fail_over():
    record = SlotRecord(7, 4, "a", ("a", "b", "c"), ("a", "b", "c"), "c")
    (step,) = urgent(View(members("b", "c"), {**all_on("b", "c"), 7: record}, Policy()))
    assert (step.new.leader, step.new.target) == ("c", "")


@pytest.mark.parametrize("target", ["gone", "b", "a"])
def test_a_transfer_that_cannot_happen_is_called_off(target):
    record = SlotRecord(7, 4, "a", ("a", "b"), ("a",), target)
    (step,) = urgent(View(members("a", "b"), {**all_on("a", "b"), 7: record}, Policy(2, 1)))
    assert step.kind is StepKind.CANCEL and step.new.target == ""


def test_a_ghost_is_no_owner():
    record = SlotRecord(7, 4, "", ("a", "b", "b@disk"), ("b@disk",))
    view = View(members("a", "b", "c"), {**all_on("a", "b", "c"), 7: record}, Policy())
    assert "b@disk" not in view.homes()
    assert [step for step in foretold(view) if step.new.slot == 7] == []
    assert health(view).offline == 1


NAMES = "abcdef"


class Shape(NamedTuple):
    """What a random cluster is built from; short when printed."""

    count: int
    replicas: int
    min_in_sync: int
    max_moves: int
    zones: str
    alive: list[str]
    leaving: set[str]
    cordoned: set[str]
    lost: set[str]
    seed: int

    def view(self) -> View:
        """Any table over the owners, sound or half way through anything."""
        owners = {
            one: Member(one, "owner", "h:1", "b", zone=self.zones[NAMES.index(one) :][:1], leaving=one in self.leaving)
            for one in self.alive
        }
        chance, records = random.Random(self.seed), {}
        for slot in range(SLOTS):
            replicas = chance.sample(NAMES[: self.count], chance.randint(1, self.count))
            isr = chance.sample(replicas, chance.randint(1, len(replicas)))
            leader = chance.choice([*isr, isr[0], ""])
            target = chance.choice(["", "", "", chance.choice(NAMES)])
            records[slot] = SlotRecord(slot, chance.randint(1, 9), leader, tuple(replicas), tuple(isr), target)
        policy = Policy(self.replicas, min(self.min_in_sync, self.replicas), self.max_moves)
        lost = frozenset(self.lost - set(self.alive))
        return View(owners, records, policy, frozenset(self.cordoned), lost, dict(zip(NAMES, self.zones, strict=False)))


names = st.sampled_from(NAMES)
shapes = st.builds(
    Shape,
    count=st.integers(1, 6),
    replicas=st.integers(1, 4),
    min_in_sync=st.integers(1, 4),
    max_moves=st.sampled_from([1, 4, 64]),
    zones=st.sampled_from(["", "xxyyzz", "xyxyxy", "xxxxyz"]),
    alive=st.sets(names, min_size=1).map(sorted),
    leaving=st.sets(names, max_size=1),
    cordoned=st.sets(names, max_size=2),
    lost=st.sets(names),
    seed=st.integers(0, 2**32),
)


@FEW
@given(shapes)
def test_from_anywhere_it_ends_in_order(shape):
    """Steps are lawful all the way (run() checks), come to an end, and leave every slot that can be led led."""
    view = shape.view()
    after, _ = run(view)
    now = health(after)
    for slot, record in after.records.items():
        assert after.led(record) == bool(set(view.records[slot].isr) & set(view.owners)), slot
        assert record.target == "" or not after.led(record)
    assert now.transfers == now.seeding == 0
    if not now.offline and all(one in view.owners for one in after.homes()):
        want = min(view.policy.replicas, len(after.homes()))
        eligible = after.eligible()
        if len(eligible) >= want:
            assert all(len(set(record.isr) & set(after.homes())) >= want for record in after.records.values())
        if eligible and set(eligible) == set(view.owners) and not any(member.zone for member in view.owners.values()):
            balanced(after, eligible, 2)


@FEW
@given(shapes)
def test_it_ends_also_when_the_world_is_slow_and_people_die(shape):
    """Steps take effect one by one in any order, owners come and go between plans."""
    live_through(shape)


def live_through(shape):
    view, chance = shape.view(), random.Random(shape.seed)
    everybody = members(*NAMES)
    for _ in range(30):
        steps = plan(view)
        check(view, steps)
        some = chance.sample(steps, chance.randint(0, len(steps)))
        records = {**view.records, **{step.new.slot: step.new for step in some}}
        view = replace(view, records=records)
        for slot in chance.sample(sorted(records), 60):  # what leaders do: hand over, bring in sync
            record = records[slot]
            if view.led(record):
                more = [one for one in record.replicas if one in view.owners and one not in record.isr][:1]
                record = replace(record, isr=(*record.isr, *more))
                if record.target in record.isr:
                    record = replace(record, leader=record.target, target="", epoch=record.epoch + 1)
                records[slot] = record
        if chance.random() < 0.2:
            alive = chance.sample(NAMES, chance.randint(1, 6))
            view = replace(view, owners={one: everybody[one] for one in sorted(alive)}, lost=view.lost - set(alive))
    run(view)


def test_a_plan_is_quick():
    """A round of the controller is a few milliseconds, so that fail-over is not about planning."""
    view = settled(members("a", "b", "c", "d", "e"))
    dead = replace(view, owners=members("b", "c", "d", "e"))
    assert min(timeit.repeat(lambda: plan(dead), timer=time.process_time, number=1, repeat=5)) < 0.02
    assert min(timeit.repeat(lambda: plan(view), timer=time.process_time, number=1, repeat=5)) < 0.05


def test_no_slot_is_moved_to_even_loads_while_as_many_as_may_move_wait_for_their_drop():
    """Two slots were on the move with max_moves 1, one of them behind a hand-over: which replica came last was not
    asked any more, both went back to where they came from, and so for ever."""
    live_through(Shape(6, 1, 1, 1, "", ["d", "f"], {"f"}, {"d", "f"}, set(NAMES), 843))
