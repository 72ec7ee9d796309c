"""Clusters for the planner, and what holds of each step and at the end."""

from __future__ import annotations

from collections import Counter

from broker.cluster.planning.arrange import REACHING
from broker.cluster.planning.placement import carried_out, plan
from broker.cluster.planning.view import Policy, StepKind, View
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord


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


def edges(*unreached: str) -> dict[str, Member]:
    """One for each text: the owners that it cannot reach, a letter each."""
    return {f"e{i}": Member(f"e{i}", "edge", "", "boot", unreached=tuple(one)) for i, one in enumerate(unreached)}


def leads(view: View) -> Counter[str]:
    return Counter(record.leader for record in view.records.values())


def all_on(*names: str) -> dict[int, SlotRecord]:
    """Evenly led."""
    return {slot: SlotRecord(slot, 1, names[slot % len(names)], names, names) for slot in range(SLOTS)}
