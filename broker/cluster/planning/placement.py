"""The planner: from who is alive and what stands in the slot table to the next steps.

Rule: pure. A step never empties an isr, never names a leader outside the isr and never takes an isr below
min_in_sync; nothing to do gives no steps. What cannot wait (slots without a leader) comes alone and first; the
rest is arrange.py's. Steps are proposals: only the compare-and-swap makes them true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from broker.core.ids import SLOTS
from broker.core.slots import SlotRecord

from .arrange import arrange
from .view import Step, StepKind, View, leaders


def plan(view: View) -> list[Step]:
    """The steps that may be taken now, at most one per slot, most urgent first."""
    return urgent(view) or arrange(view)


def urgent(view: View) -> list[Step]:
    """Slots without a record, without a live leader, or with a transfer that cannot happen."""
    led, cut = leaders(view), view.cut_off()
    steps = _create(view, led)
    for slot in sorted(view.records):
        record = view.records[slot]
        if not view.led(record):
            step = _failover(view, record, led, cut)
            if step is not None:
                led[step.owner] += 1
                steps.append(step)
        elif record.target and not _possible(view, record, cut):
            steps.append(Step(StepKind.CANCEL, record, replace(record, target=""), record.target))
    return steps


def _create(view: View, led: Counter[str]) -> list[Step]:
    hosts = view.eligible()
    missing = [slot for slot in range(SLOTS) if slot not in view.records]
    if not missing or not hosts:
        return []
    loads = Counter(one for record in view.records.values() for one in record.replicas)
    steps = []
    for slot in missing:
        chosen: list[str] = []
        for _ in range(min(view.policy.replicas, len(hosts))):
            zones = {view.zone(one) for one in chosen}
            chosen.append(
                min((one for one in hosts if one not in chosen), key=lambda o: (view.zone(o) in zones, loads[o], o))
            )
        loads.update(chosen)
        leader = min(chosen, key=lambda o: (led[o], o))
        led[leader] += 1
        steps.append(Step(StepKind.CREATE, None, SlotRecord(slot, 1, leader, tuple(chosen), tuple(chosen)), leader))
    return steps


def _failover(view: View, record: SlotRecord, led: Counter[str], cut: frozenset[str]) -> Step | None:
    """The best live member of the isr leads, one that edges reach before all. None: there is none, or the slot is
    shelved; it is offline.

    The dead leave the isr if enough remain. Else they stay: the slot then waits for one of them, or for its leader
    to bring a new replica in sync, because a message that is on fewer than min_in_sync disks may not be confirmed."""
    alive = view.in_sync(record)
    if not alive or record.shelved:
        return None
    hosts = set(view.eligible())
    leader = min(alive, key=lambda o: (o in cut, o not in hosts, o != record.target, led[o], o))
    isr = tuple(alive) if len(alive) >= view.policy.min_in_sync else record.isr
    new = replace(record, epoch=record.epoch + 1, leader=leader, isr=isr, target="")
    return Step(StepKind.FAILOVER, record, new, leader)


def _possible(view: View, record: SlotRecord, cut: frozenset[str]) -> bool:
    return (
        record.target in view.owners
        and record.target in record.isr
        and record.target != record.leader
        and record.target not in view.cordoned
        and (record.target not in cut or record.leader in cut)
        and not view.owners[record.target].leaving
    )


def carried_out(view: View, steps: list[Step]) -> View:
    """The view after `steps`, and after everybody did what they are asked for: leaders have handed over, and live
    replicas are in sync. For foretelling; the real world takes longer."""
    records = dict(view.records)
    for step in steps:
        records[step.new.slot] = step.new
    return replace(view, records={slot: _settled(view, record) for slot, record in records.items()})


def _settled(view: View, record: SlotRecord) -> SlotRecord:
    if not view.led(record):
        return record
    grown = [one for one in record.replicas if one in view.owners and one not in record.isr]
    record = replace(record, isr=(*record.isr, *grown))
    if record.target in record.isr:
        record = replace(record, leader=record.target, epoch=record.epoch + 1)
    return replace(record, target="")


MAX_ROUNDS = 10_000
"""No plan takes so many rounds: 256 slots × 7 replicas, one at a time, several times over."""


def foretold(view: View) -> list[Step]:
    """All steps until nothing is left to do, if nobody dies meanwhile, behind those that are being carried out now."""
    steps: list[Step] = []
    if not plan(view):
        # What is under way may have used up the budget: it has to end first.
        view = carried_out(view, [])
    for _ in range(MAX_ROUNDS):
        now = plan(view)
        if not now:
            return steps
        steps += now
        view = carried_out(view, now)
    return steps


def left_to_move(view: View) -> Mapping[StepKind, int]:
    """How many steps of each kind are ahead."""
    return Counter(step.kind for step in foretold(view))
