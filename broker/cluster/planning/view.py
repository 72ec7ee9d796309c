"""What a plan is made from, and what it is made of.

Rule: values and counting; no decision. The same view gives the same plan, in every process and after every restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import msgspec

from broker.config.settings import ClusterSettings
from broker.core.slots import Member, SlotRecord

from ..identity import is_ghost


class Policy(NamedTuple):
    """How a cluster wants its slots: settings `cluster.replicas`, `.min_in_sync`, `.max_moves`."""

    replicas: int = 3
    min_in_sync: int = 2
    max_moves: int = 8

    @classmethod
    def of(cls, settings: ClusterSettings) -> Policy:
        return cls(settings.replicas, settings.min_in_sync, settings.max_moves)


@dataclass(frozen=True, slots=True)
class Rebalance:
    """What an operator wants of moves that are made for even loads and zones only; what replicas need is done anyway.

    held    none begins.    moves   so many at once, 0: as many as the policy says.    approved   for people."""

    held: bool = False
    moves: int = 0
    approved: str = ""

    @classmethod
    def decode(cls, data: bytes | None) -> Rebalance:
        """What makes no sense holds: the operator that wrote it did not want things to go on by themselves."""
        if data is None:
            return cls()
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError:
            return cls(held=True)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class StepKind(Enum):
    """What a step does to a slot's record."""

    CREATE = "create"
    """The first record: epoch 1, all replicas in sync, because there is nothing to be in sync about."""
    FAILOVER = "failover"
    """Another leader of the isr, epoch + 1."""
    CANCEL = "cancel"
    """A planned transfer that cannot happen any more."""
    TRANSFER = "transfer"
    """Asks the leader to hand over to `target`."""
    ADD = "add"
    """One more replica, to be seeded by the leader."""
    DROP = "drop"
    """One replica less; enough others are in sync."""


class Step(NamedTuple):
    """One compare-and-swap. owner: whom it is about (new leader, target, added or dropped replica)."""

    kind: StepKind
    old: SlotRecord | None
    new: SlotRecord
    owner: str

    def text(self) -> str:
        """For people."""
        slot, before = self.new.slot, self.old.leader if self.old else ""
        return {
            StepKind.CREATE: f"slot {slot}: create on {', '.join(self.new.replicas)}, led by {self.owner}",
            StepKind.FAILOVER: (
                f"slot {slot}: {self.owner} leads instead of {before or 'nobody'}, epoch {self.new.epoch}"
            ),
            StepKind.CANCEL: f"slot {slot}: no transfer to {self.owner}",
            StepKind.TRANSFER: f"slot {slot}: {before} hands over to {self.owner}",
            StepKind.ADD: f"slot {slot}: add replica on {self.owner}",
            StepKind.DROP: f"slot {slot}: drop replica on {self.owner}",
        }[self.kind]


@dataclass(frozen=True, slots=True)
class View:
    """owners: the live ones.   lost: dead for longer than `cluster.replace_after_s`; other dead owners are expected
    back and keep their replicas.   zones: of owners that are not alive, as far as anybody remembers.   edges: the live
    ones; each says which owners it cannot reach.   rebalance: how moves for even loads are wanted."""

    owners: Mapping[str, Member]
    records: Mapping[int, SlotRecord]
    policy: Policy
    cordoned: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    zones: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, Member] = field(default_factory=dict)
    rebalance: Rebalance = Rebalance()

    def zone(self, owner: str) -> str:
        """An owner that names no zone is one of its own."""
        member = self.owners.get(owner)
        return (member.zone if member else self.zones.get(owner, "")) or f"\0{owner}"

    def eligible(self) -> list[str]:
        """Owners that may be given something new."""
        return sorted(one for one, member in self.owners.items() if not member.leaving and one not in self.cordoned)

    def homes(self) -> list[str]:
        """Owners that replicas belong on: live ones and those expected back, without the cordoned."""
        named = set(self.owners).union(*(record.replicas for record in self.records.values()))
        away = self.lost | self.cordoned
        return sorted(one for one in named if one not in away and not is_ghost(one))

    def unreached(self) -> dict[str, list[str]]:
        """Live owner → the edges that cannot reach it; of those that none misses nothing."""
        found: dict[str, list[str]] = {}
        for name, edge in sorted(self.edges.items()):
            for owner in edge.unreached:
                if owner in self.owners:
                    found.setdefault(owner, []).append(name)
        return found

    def cut_off(self) -> frozenset[str]:
        """Owners that more than half of the edges cannot reach: what they lead hardly any client has."""
        return frozenset(owner for owner, edges in self.unreached().items() if 2 * len(edges) > len(self.edges))

    def in_sync(self, record: SlotRecord) -> list[str]:
        """Live members of the isr."""
        return [one for one in record.isr if one in self.owners]

    def led(self, record: SlotRecord) -> bool:
        """A live owner leads it."""
        return record.leader in self.owners and record.leader in record.isr

    def handing_over(self, record: SlotRecord) -> bool:
        """Its leader has been asked to hand over, and lives to do it."""
        return bool(record.target) and self.led(record)


class Health(NamedTuple):
    """The table in numbers. All 0 but `slots` and `online`: everything is where it should be."""

    slots: int
    online: int
    offline: int
    """No live leader."""
    stalled: int
    """Led, but fewer than min_in_sync live replicas are in sync: no durable message is confirmed."""
    under_replicated: int
    """Fewer live replicas in sync than cluster.replicas, or than there are owners."""
    seeding: int
    """Replicas that are being brought in sync."""
    transfers: int
    """Leaders that have been asked to hand over."""
    shelved: int
    """Taken out of service, because their leaders stopped one after the other; offline too."""


def health(view: View) -> Health:
    records = view.records.values()
    want = min(view.policy.replicas, max(1, len(view.homes())))
    synced = {record.slot: len(view.in_sync(record)) for record in records}
    led = [record for record in records if view.led(record)]
    return Health(
        slots=len(records),
        online=len(led),
        offline=len(records) - len(led),
        stalled=sum(synced[record.slot] < view.policy.min_in_sync for record in led),
        under_replicated=sum(count < want for count in synced.values()),
        seeding=sum(one in view.owners and one not in record.isr for record in led for one in record.replicas),
        transfers=sum(map(view.handing_over, records)),
        shelved=sum(bool(record.shelved) for record in records),
    )


def leaders(view: View) -> Counter[str]:
    """owner → slots it leads, planned transfers counted as done."""
    return Counter(record.target or record.leader for record in view.records.values())
