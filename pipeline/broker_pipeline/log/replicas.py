"""Which replica is read for what: a slot's log is the same at its leader and at every follower in sync.

Rule: pure. What is to be read is spread without gap or overlap (tests/pipeline/test_ranges.py) over brokers that have
it from its first item on. How far a slot goes is its leader's to say: followers know it a little later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .ranges import Range, SlotInfo, Split, parted, splits


@dataclass(frozen=True)
class SlotReplica:
    """Of one slot, at a broker that may be read."""

    endpoint: str
    earliest: int
    leads: bool


@dataclass
class Described:
    """What brokers have said.

    infos      slot → info, as its leader says; `earliest` is that of the replica that has most.
    cuts       places of the leaders' logs, ascending: slot → offset.
    endpoints  of all owners.    answered  those that have said something.
    deliveries some address of those asked for records hand-outs.
    unknown    names that all of them say are no address; None: nobody has been asked."""

    broker: str
    now_ms: int
    infos: dict[int, SlotInfo] = field(default_factory=dict)
    cuts: list[dict[int, int]] = field(default_factory=list)
    replicas: dict[int, list[SlotReplica]] = field(default_factory=dict)
    places: dict[str, list[dict[int, int]]] = field(default_factory=dict)
    endpoints: tuple[str, ...] = ()
    answered: set[str] = field(default_factory=set)
    deliveries: bool = False
    unknown: frozenset[str] | None = None
    _named: dict[int, set[str]] = field(default_factory=dict)
    _away: set[tuple[str, int]] = field(default_factory=set)

    def put(self, answer: Any, endpoint: str) -> None:
        """What the broker at this endpoint has said."""
        self.answered.add(endpoint)
        self.deliveries = self.deliveries or answer.deliveries
        told = frozenset(answer.unknown)
        self.unknown = told if self.unknown is None else self.unknown & told
        here = [part.slot for part in answer.slots if not part.endpoint]
        led = set()
        for part in answer.slots:
            elsewhere = part.endpoint or part.leader
            if elsewhere:
                self._named.setdefault(part.slot, set()).add(elsewhere)
                self._away.add((endpoint, part.slot))
            if part.endpoint:
                continue
            self.replicas.setdefault(part.slot, []).append(SlotReplica(endpoint, part.earliest, not part.follower))
            if not part.follower:
                led.add(part.slot)
                self._lead(part, endpoint)
        for cut in answer.cuts:
            place = dict(zip(here, cut.offsets, strict=True))
            self.places.setdefault(endpoint, []).append(place)
            self.cuts.append({slot: at for slot, at in place.items() if slot in led})

    def _lead(self, part: Any, endpoint: str) -> None:
        """Of two that say that they lead it the one is right that leads it in the later epoch."""
        lineage = tuple((line.epoch, line.start) for line in part.lineage)
        known = self.infos.get(part.slot)
        if known is None or known.lineage[-1:] < lineage[-1:]:
            self.infos[part.slot] = SlotInfo(part.slot, endpoint, part.earliest, max(part.end, part.earliest), lineage)

    def missing(self) -> list[int]:
        """Slots that nobody leads just now, as far as anybody says. What its leader does not mention is empty."""
        return sorted(
            slot for slot, leaders in self._named.items()
            if slot not in self.infos
            and not any(name in self.answered and (name, slot) not in self._away for name in leaders)
        )  # fmt: skip

    def whole(self) -> Described:
        """All have been asked."""
        for slot, info in self.infos.items():
            earliest = min(replica.earliest for replica in self.replicas[slot])
            self.infos[slot] = replace(info, earliest=min(earliest, info.end))
        return self

    def tasks(self, ranges: Iterable[Range], items: int) -> list[Split]:
        """Of about `items` items each, spread over who has them."""
        spread_out = spread(ranges, self.replicas, self.infos, items)
        return [replace(task, endpoints=self.endpoints) for task in splits(spread_out, items, self.places, self.infos)]


def spread(
    ranges: Iterable[Range], replicas: Mapping[int, Sequence[SlotReplica]], infos: Mapping[int, SlotInfo], items: int
) -> list[Range]:
    """Of each slot the oldest part to one broker, the next to another: each then passes over a part of its log only.

    No more brokers than there are tasks of `items` items; another one first from batch to batch."""
    ranges = [part for part in ranges if len(part)]
    names = sorted({replica.endpoint for part in ranges for replica in replicas.get(part.slot, ())})
    if len(names) < 2:
        return ranges
    first = sum(part.start for part in ranges) % len(names)
    order = names[first:] + names[:first]
    having = {part.slot: _having(part, replicas) for part in ranges}
    wanted = -(-sum(map(len, ranges)) // items)
    chosen: list[str] = []
    for name in order:
        lacking = [slot for slot, names in having.items() if names and not names & set(chosen)]
        if len(chosen) < wanted or any(name in having[slot] for slot in lacking):
            chosen.append(name)
    found: list[Range] = []
    for part in ranges:
        takers = [name for name in chosen if name in having[part.slot]]
        if not takers:
            found.append(part)
            continue
        start, length = part.start, len(part)
        for number, name in enumerate(takers, 1):
            piece, part = parted(part, start + length * number // len(takers), infos.get(part.slot))
            if len(piece):
                found.append(replace(piece, endpoint=name))
    return found


def _having(part: Range, replicas: Mapping[int, Sequence[SlotReplica]]) -> set[str]:
    return {replica.endpoint for replica in replicas.get(part.slot, ()) if replica.earliest <= part.start}


def another(part: Range, replicas: Iterable[SlotReplica], avoid: Iterable[str]) -> Range:
    """The same, where it may go on: not with those that have just failed if there is anybody else; its leader first.

    What nobody has any more its leader is asked for: it says so."""
    known = sorted(replicas, key=lambda r: (not r.leads, r.endpoint))
    having = [r for r in known if r.earliest <= part.start] or [r for r in known if r.leads]
    fresh = [replica for replica in having if replica.endpoint not in avoid] or having
    return replace(part, endpoint=fresh[0].endpoint) if fresh else part
