"""The planner's second half: replicas and leaders where they should be, with as little moving as possible.

A replica moves by one ADD now, and one DROP when the new one is in sync; the DROP is worked out anew from the record
then, so nothing has to be remembered between two plans. Each ADD goes from the fullest owner to the emptiest, so the
spread of the loads shrinks with every move and the moves end.

Rule: pure; at most `max_moves` slots are being seeded, and as many handed over, at a time (fewer where that only makes
leaders even). Zones come before even loads. An owner that is only away (a restart) is neither replaced nor relieved.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace

from broker.core.slots import SlotRecord

from .view import Step, StepKind, View, leaders

REACHING = 4
"""So many times `max_moves` are handed over at a time because edges cannot reach their leader: hardly anybody is served
there, so nothing is gained by being gentle; all at once would be a storm where the edges' machine is only too slow."""
EVENING = 4
"""One in so many of the transfers that may be under way is made only to have leaders even."""


def arrange(view: View) -> list[Step]:
    """Steps for a cluster in which every slot that can have a leader has one."""
    return _Desk(view).steps()


class _Desk:
    """One planning: loads and futures, changed as steps are decided."""

    __slots__ = (
        "_cut",
        "_eligible",
        "_future",
        "_homes",
        "_leads",
        "_loads",
        "_moves",
        "_newest_stays",
        "_over",
        "_ready",
        "_steps",
        "_transfers",
        "_view",
        "_want",
        "_zone",
    )

    def __init__(self, view: View) -> None:
        self._view = view
        self._homes = view.homes()
        self._eligible = set(view.eligible())
        self._cut = view.cut_off()
        self._zone = {one: view.zone(one) for one in {*self._homes, *self._eligible}}
        self._want = min(view.policy.replicas, len(self._homes))
        self._leads = leaders(view)
        self._steps: dict[int, Step] = {}
        homes = set(self._homes)
        self._future = {
            slot: [one for one in record.replicas if one in homes] for slot, record in sorted(view.records.items())
        }
        self._loads = Counter(one for kept in self._future.values() for one in kept)
        surplus = self._over = [slot for slot, kept in self._future.items() if len(kept) > self._want]
        # More than can be on the move: fewer replicas are wanted than before, and none of them is here to stay.
        self._newest_stays = len(surplus) <= view.policy.max_moves
        for slot in surplus:
            kept = self._future[slot]
            while len(kept) > self._want:
                gone = self._surplus(view.records[slot], kept)
                kept.remove(gone)
                self._loads[gone] -= 1
        self._moves = view.policy.max_moves - sum(map(self._seeding, view.records.values()))
        self._transfers = view.policy.max_moves - sum(map(view.handing_over, view.records.values()))

    def steps(self) -> list[Step]:
        self._reach_leaders()
        self._drain_leaders()
        self._drop()
        self._repair()
        if all(one in self._view.owners for one in self._homes):
            # Each of these has one replica too many until its drop. With more of them than may move, which one came
            # last says nothing any more (_surplus): the same two slots would go to and fro for ever.
            waiting = [
                slot for slot in self._over if slot not in self._steps or self._steps[slot].kind is not StepKind.DROP
            ]
            self._moves = min(self._moves, self._view.policy.max_moves - len(waiting))
            rebalance = self._view.rebalance
            if rebalance.moves:
                self._moves -= max(self._view.policy.max_moves - rebalance.moves, 0)
            if not rebalance.held:
                self._spread_zones()
                self._even_loads()
        self._even_leaders()
        return list(self._steps.values())

    def _seeding(self, record: SlotRecord) -> bool:
        live = self._view.owners
        return record.leader in live and any(one in live and one not in record.isr for one in record.replicas)

    def _surplus(self, record: SlotRecord, kept: Sequence[str]) -> str:
        """Which of more than enough replicas goes: not the newest, if it came to take the place of another."""
        zones = Counter(self._zone[one] for one in kept)
        olds = kept[:-1] if self._newest_stays else kept
        return min(olds, key=lambda o: (zones[self._zone[o]] == 1, -self._loads[o], o == record.leader, o))

    # -- leaders that must go, replicas that may go ------------------------------------------------------------------

    def _reach_leaders(self) -> None:
        """Leaders go to where the edges can reach them: to an owner in sync that most of them do reach."""
        reached = self._eligible - self._cut
        most = self._view.policy.max_moves
        self._transfers += (REACHING - 1) * most
        for slot, record in sorted(self._view.records.items()):
            if record.leader in self._cut and self._view.led(record):
                self._hand_over(slot, record, reached)
        self._transfers -= (REACHING - 1) * most

    def _drain_leaders(self) -> None:
        for slot, record in sorted(self._view.records.items()):
            if record.leader in self._view.owners and record.leader not in self._eligible:
                self._hand_over(slot, record, self._eligible)

    def _hand_over(self, slot: int, record: SlotRecord, to: set[str] | Sequence[str]) -> None:
        """To the one of `to` that is in sync and leads least; nothing when there is none, or no transfer is free."""
        able = [one for one in record.isr if one in to and one in self._eligible and one != record.leader]
        if able and not record.target and self._transfers > 0 and slot not in self._steps:
            target = min(able, key=lambda o: (o in self._cut, self._leads[o], o))
            self._transfers -= 1
            self._leads[record.leader] -= 1
            self._leads[target] += 1
            self._steps[slot] = Step(StepKind.TRANSFER, record, replace(record, target=target), target)

    def _drop(self) -> None:
        for slot, record in sorted(self._view.records.items()):
            if slot in self._steps or not self._view.led(record):
                continue
            kept = self._future[slot]
            synced = [one for one in kept if one in record.isr and one in self._view.owners]
            for one in record.replicas:
                if one in kept or one == record.target or len(synced) < self._needed(one):
                    continue
                if one == record.leader:
                    self._hand_over(slot, record, synced)
                else:
                    new = replace(record, replicas=_less(record.replicas, one), isr=_less(record.isr, one))
                    self._steps[slot] = Step(StepKind.DROP, record, new, one)
                break

    def _needed(self, gone: str) -> int:
        """How many others must be in sync before `gone` is dropped. One that is dead is not in the way: it goes only
        when it has been replaced in full."""
        replaced = gone in self._homes or gone in self._view.cordoned
        return max(self._want if replaced else self._view.policy.replicas, self._view.policy.min_in_sync)

    # -- replicas ----------------------------------------------------------------------------------------------------

    def _free(self, slot: int) -> bool:
        """This slot may be given another replica now."""
        record = self._view.records[slot]
        return self._moves > 0 and slot not in self._steps and not record.target and self._view.led(record)

    def _add(self, slot: int, owner: str) -> None:
        record = self._view.records[slot]
        self._moves -= 1
        self._loads[owner] += 1
        self._future[slot].append(owner)
        self._steps[slot] = Step(StepKind.ADD, record, replace(record, replicas=(*record.replicas, owner)), owner)

    def _repair(self) -> None:
        short = [slot for slot, kept in self._future.items() if len(kept) < self._want and self._free(slot)]
        short.sort(key=lambda slot: (len(self._view.in_sync(self._view.records[slot])), slot))
        for slot in short:
            zones = {self._zone[one] for one in self._future[slot]}
            hosts = self._eligible.difference(self._view.records[slot].replicas)
            if hosts and self._free(slot):
                self._add(slot, min(hosts, key=lambda o: (self._zone[o] in zones, self._loads[o], o)))

    def _settled(self, slot: int) -> bool:
        """All of its replicas are where they belong and in sync, so it may be moved."""
        record, kept = self._view.records[slot], self._future[slot]
        return self._free(slot) and len(record.replicas) == len(kept) == self._want and set(kept) <= set(record.isr)

    def _move(self, slot: int, source: str, owner: str) -> None:
        self._future[slot].remove(source)
        self._loads[source] -= 1
        self._add(slot, owner)

    def _spread_zones(self) -> None:
        zone = self._zone
        possible = min(self._want, len({zone[one] for one in self._homes}))
        for slot, kept in self._future.items():
            if len({zone[one] for one in kept}) >= possible or not self._settled(slot):
                continue
            zones = Counter(zone[one] for one in kept)
            hosts = [one for one in self._eligible if zone[one] not in zones]
            if hosts:
                leader = self._view.records[slot].leader
                doubled = [one for one in kept if zones[zone[one]] > 1]
                source = min(doubled, key=lambda o: (-self._loads[o], o == leader, o))
                self._move(slot, source, min(hosts, key=lambda o: (self._loads[o], o)))

    def _even_loads(self) -> None:
        while self._moves > 0 and (found := self._next_move()) is not None:
            self._move(*found)

    def _next_move(self) -> tuple[int, str, str] | None:
        """(slot, from, to) that makes the loads more even without bringing two replicas of a slot into one zone."""
        by_load = sorted(self._homes, key=lambda o: (self._loads[o], o))
        movable: list[int] | None = None
        for full in reversed(by_load):
            for empty in by_load:
                if self._loads[full] - self._loads[empty] < 2:
                    break
                if empty not in self._eligible:
                    continue
                if movable is None:
                    movable = [slot for slot in self._future if self._settled(slot)]
                slots = [slot for slot in movable if self._may_move(slot, full, empty)]
                if slots:
                    # A replica that leads would have to hand over first.
                    return min(slots, key=lambda s: (self._view.records[s].leader == full, s)), full, empty
        return None

    def _may_move(self, slot: int, full: str, empty: str) -> bool:
        kept, zone = self._future[slot], self._zone
        if full not in kept or empty in kept:
            return False
        others = {zone[one] for one in kept if one != full}
        return zone[empty] not in others or zone[full] in others

    # -- leaders -----------------------------------------------------------------------------------------------------

    def _even_leaders(self) -> None:
        """A few at a time. Nothing is at stake, and a slot that changes its leader stands still for as long as all
        that do so at the same time take together: its next leader is one process, which has just come as a rule.
        That one first has to get what it missed of its other slots, and has little time for anything else."""
        most = self._view.policy.max_moves
        spare = most - max(1, most // EVENING)
        lagging = Counter(one for record in self._view.records.values() for one in _less(record.replicas, *record.isr))
        self._ready = {one for one in self._eligible - self._cut if lagging[one] <= most}
        while self._transfers > spare and (path := self._next_path()) is not None and len(path) <= self._transfers:
            for slot, target in path:
                self._hand_over(slot, self._view.records[slot], [target])

    def _next_path(self) -> list[tuple[int, str]] | None:
        """The transfers that take one slot from who leads most and give one to who leads least, or the next such pair
        that can be connected."""
        hosts = sorted(self._eligible - self._cut, key=lambda o: (self._leads[o], o))
        edges: dict[str, dict[str, int]] | None = None
        for empty in hosts:
            for full in reversed(hosts):
                if self._leads[full] - self._leads[empty] < 2:
                    break
                edges = self._edges() if edges is None else edges
                path = _path(edges, full, empty)
                if path is not None:
                    return path
        return None

    def _edges(self) -> dict[str, dict[str, int]]:
        """leader → who could lead one of its slots instead → the first such slot."""
        edges: dict[str, dict[str, int]] = {}
        for slot, record in sorted(self._view.records.items()):
            if (
                slot in self._steps
                or record.target
                or record.leader not in self._eligible
                or not self._view.led(record)
            ):
                continue
            to = edges.setdefault(record.leader, {})
            for one in record.isr:
                if one in self._ready and one != record.leader and one in self._future[slot]:
                    to.setdefault(one, slot)
        return edges


def _less(names: tuple[str, ...], *gone: str) -> tuple[str, ...]:
    return tuple(one for one in names if one not in gone)


def _path(edges: dict[str, dict[str, int]], full: str, empty: str) -> list[tuple[int, str]] | None:
    """(slot, new leader) … from `full` to `empty`, breadth first over "a leads a slot that b could lead", because the
    two may share no slot. The last transfer comes first, so that nobody leads more meanwhile."""
    came: dict[str, tuple[int, str]] = {}
    todo = deque([full])
    while todo and empty not in came:
        owner = todo.popleft()
        for one, slot in edges.get(owner, {}).items():
            if one != full and one not in came:
                came[one] = (slot, owner)
                todo.append(one)
    path, at = [], empty
    while at != full:
        if at not in came:
            return None
        slot, before = came[at]
        path.append((slot, at))
        at = before
    return path
