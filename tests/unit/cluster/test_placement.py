"""The planner over random clusters: what it may never do, and where it ends up."""

from __future__ import annotations

import math
import random
import time
import timeit
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from broker.cluster.planning.arrange import REACHING, arrange
from broker.cluster.planning.placement import carried_out, foretold, left_to_move, plan, urgent
from broker.cluster.planning.view import Policy, StepKind, View, health
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord

FEW = settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])


def members(*names: str, zones: str = "", leaving: str = "") -> dict[str, Member]:
    return {
        name: Member(name, "owner", "h:1", "boot", zone=zones[i] if zones else "", leaving=name == leaving)
        for i, name in enumerate(names)
    }


def settled(owners, **more) -> View:
    """A cluster at rest over `owners`."""
    return run(View(owners, {}, Policy(), **more))[0]


def run(view: View) -> tuple[View, Counter]:
    """Carries plans out until there is none; what was done."""
    done: Counter = Counter()
    for _ in range(2000):
        steps = plan(view)
        if not steps:
            rest = carried_out(view, [])
            if rest == view:
                return view, done
            view = rest  # what is under way was waited for
            continue
        check(view, steps)
        done.update(step.kind for step in steps)
        view = carried_out(view, steps)
    raise AssertionError(f"no end: {[step.text() for step in steps[:5]]}")


def check(view: View, steps) -> None:
    """What holds for every step of every plan."""
    assert len({step.new.slot for step in steps}) == len(steps), "one step per slot"
    for step in steps:
        old, new = step.old, step.new
        assert new.isr and new.leader in new.isr and set(new.isr) <= set(new.replicas)
        assert len(set(new.replicas)) == len(new.replicas)
        if old is None:
            continue
        assert old == view.records[new.slot]
        assert (new.epoch > old.epoch) == (new.leader != old.leader or step.kind is StepKind.FAILOVER)
        assert set(new.isr) <= set(old.isr), "only a leader brings somebody in sync"
        if len(new.isr) < len(old.isr):
            assert len(set(new.isr) & set(view.owners)) >= view.policy.min_in_sync
        if step.kind is StepKind.TRANSFER:
            assert new.target in old.isr and new.target in view.owners
    adding = sum(step.kind is StepKind.ADD for step in steps)
    handing = sum(step.kind is StepKind.TRANSFER for step in steps)
    assert adding <= view.policy.max_moves
    assert handing <= view.policy.max_moves * (REACHING if view.cut_off() else 1)


def balanced(view: View, owners, most: int = 1) -> None:
    loads = Counter(one for record in view.records.values() for one in record.replicas)
    leads = Counter(record.leader for record in view.records.values())
    assert max(loads[o] for o in owners) - min(loads[o] for o in owners) <= most, loads
    assert max(leads[o] for o in owners) - min(leads[o] for o in owners) <= most, leads


def copies_moved(before: View, after: View) -> int:
    return sum(len(set(after.records[slot].replicas) - set(record.replicas)) for slot, record in before.records.items())


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


def edges(*unreached: str) -> dict[str, Member]:
    """One for each text: the owners that it cannot reach, a letter each."""
    return {f"e{i}": Member(f"e{i}", "edge", "", "boot", unreached=tuple(one)) for i, one in enumerate(unreached)}


def leads(view: View) -> Counter[str]:
    return Counter(record.leader for record in view.records.values())


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


def all_on(*names: str) -> dict[int, SlotRecord]:
    """Evenly led."""
    return {slot: SlotRecord(slot, 1, names[slot % len(names)], names, names) for slot in range(SLOTS)}


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


def test_a_ghost_is_no_owner():
    record = SlotRecord(7, 4, "", ("a", "b", "b@disk"), ("b@disk",))
    view = View(members("a", "b", "c"), {**all_on("a", "b", "c"), 7: record}, Policy())
    assert "b@disk" not in view.homes()
    assert [step for step in foretold(view) if step.new.slot == 7] == []
    assert health(view).offline == 1


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
