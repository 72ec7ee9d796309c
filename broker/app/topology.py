"""The cluster as one of its edges knows it (admin/api/ports.TopologyPort).

Rule: what is shown comes from what is known here anyway; only who is being drained is asked of the store, and where it
does not answer the state says so. What is changed is what `stampede cluster drain|undrain|move` change.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from broker.cluster import operate
from broker.cluster.keys import Keys, last_part
from broker.cluster.membership import Membership
from broker.cluster.slots import SlotTable
from broker.core.errors import BrokerError
from broker.core.slots import Member
from broker.metadata.port import Metadata

ANSWER_S = 3.0
"""Then the store counts as away."""


class Topology:
    """See the head of this file."""

    def __init__(self, metadata: Metadata, keys: Keys, table: SlotTable, membership: Membership) -> None:
        self._metadata = metadata
        self._keys = keys
        self._table = table
        self._membership = membership

    async def nodes(self) -> list[dict[str, Any]]:
        cordoned = await self._cordoned()
        records = list(self._table.records.values())
        leads = Counter(record.leader for record in records)
        replicas = Counter(one for record in records for one in record.replicas)
        in_sync = Counter(one for record in records for one in record.isr)
        members, edges = self._membership.owners, self._membership.edges
        missed = {owner for edge in edges.values() for owner in edge.unreached}
        found = []
        for name in sorted({*members, *replicas, *(cordoned or ())}):
            state = _state(members.get(name))
            if cordoned is None:
                state += ", drained or not: etcd does not answer"
            elif name in cordoned:
                state += ", drained" if not replicas[name] else ", draining"
            by = sorted(edge.id for edge in edges.values() if name in edge.unreached) if name in missed else []
            counts = (leads[name], replicas[name], in_sync[name])
            found.append(_node(name, "owner", state, members.get(name), counts, by))
        return [*found, *_edges(edges.values())]

    async def _cordoned(self) -> set[str] | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                return {last_part(item.key) for item in (await self._metadata.range(self._keys.cordons))[0]}
        except (BrokerError, TimeoutError):
            return None

    def slots(self) -> list[dict[str, Any]]:
        return [
            {
                "slot": slot, "epoch": record.epoch, "leader": record.leader, "replicas": list(record.replicas),
                "in_sync": list(record.isr), "target": record.target, "shelved": record.shelved,
            }
            for slot, record in sorted(self._table.records.items())
        ]  # fmt: skip

    async def drain(self, owner: str, on: bool) -> bool:
        return await operate.set_cordon(self._metadata, self._keys, owner, on)

    async def move(self, slot: int, owner: str) -> str:
        return await operate.ask_to_lead(self._metadata, self._keys, slot, owner)


def _state(member: Member | None) -> str:
    return "dead" if member is None else "leaving" if member.leaving else "up"


def _edges(members: Iterable[Member]) -> list[dict[str, Any]]:
    known = {member.id: member for member in members}
    return [
        _node(name, "edge", _state(edge), edge, (0, 0, 0), list(edge.unreached)) for name, edge in sorted(known.items())
    ]


def _node(
    name: str, kind: str, state: str, member: Member | None, counts: tuple[int, int, int], unreached: list[str]
) -> dict[str, Any]:
    leads, replicas, in_sync = counts
    return {
        "name": name, "kind": kind, "state": state, "zone": member.zone if member else "",
        "address": member.address if member else "", "admin": member.admin if member else "",
        "leads": leads, "replicas": replicas, "in_sync": in_sync, "unreached": unreached,
    }  # fmt: skip
