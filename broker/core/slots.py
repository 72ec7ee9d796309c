"""Which owner leads a slot, which follow it, and which are alive: the cluster's nouns.

Rule: values only, and their JSON. What may become of a record is decided in cluster/placement, who may change it
says docs/adr/0004. Must not know etcd or the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """One slot's place in the cluster. Changed only by compare-and-swap on `revision`.

    epoch      grows with every change of `leader`; every log record and every link message carries it.
    leader     owner id, "" = nobody: the slot is offline until a member of `isr` is back (or is forced).
    replicas   owner ids that keep the slot's log, the leader among them; those not in `isr` are being seeded.
    isr        in-sync replicas: each has every record that a client was told of. Never emptied.
    target     planned transfer: the leader stops taking commands, waits until `target` (in isr) has everything,
               and then makes it the leader itself. "" = none.
    revision   of the key this was read from; 0 = not there yet.
    shelved    why nobody shall lead it until an operator says so (cluster/shelving), "" = it is not shelved.
    """

    slot: int
    epoch: int
    leader: str
    replicas: tuple[str, ...]
    isr: tuple[str, ...]
    target: str = ""
    revision: int = 0
    shelved: str = ""

    def encode(self) -> bytes:
        """JSON, as it stands in the metadata store (the revision is the store's). What is hardly ever there is left
        out: older releases know nothing of it."""
        value: dict[str, Any] = {
            "epoch": self.epoch,
            "leader": self.leader,
            "replicas": self.replicas,
            "isr": self.isr,
            "target": self.target,
        }
        if self.shelved:
            value["shelved"] = self.shelved
        return msgspec.json.encode(value)

    @classmethod
    def decode(cls, slot: int, data: bytes, revision: int) -> SlotRecord:
        """Raises ValueError for anything that is not a record."""
        try:
            value: dict[str, Any] = msgspec.json.decode(data)
            return cls(
                slot,
                int(value["epoch"]),
                str(value["leader"]),
                tuple(map(str, value["replicas"])),
                tuple(map(str, value["isr"])),
                str(value.get("target", "")),
                revision,
                str(value.get("shelved", "")),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"slot {slot}: not a slot record: {error}") from error

    def with_isr(self, isr: Sequence[str]) -> SlotRecord:
        return replace(self, isr=tuple(isr))


@dataclass(frozen=True, slots=True)
class Member:
    """A live process. Its key hangs on the process's lease: the key gone, the process counts as dead.

    id        stable name ("owner-0"; of a pod: its name).   kind  "owner" | "edge".
    address   host:port of its component port (gRPC).        admin  host:port of its admin port, "" = none.
    boot      random, new at every start.                    disk   journal's disk id (hex), owners only.
    zone      failure domain, "" = unknown.                  leaving  asked to end: gets nothing new.
    lease     id of its lease, so that peers may revoke it.  reads  host:port of its read API, "" = none.
    unreached owners that an edge has not reached for a while, by id.
    """

    id: str
    kind: str
    address: str
    boot: str
    disk: str = ""
    zone: str = ""
    admin: str = ""
    leaving: bool = False
    lease: int = 0
    reads: str = ""
    unreached: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Member:
        """Raises ValueError for anything that is not a member."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"not a member: {error}") from error
