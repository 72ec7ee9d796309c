"""How many connections a pool of edges has, for the status of its StompAcceptor.

Every edge says in etcd how many it has (`load/<edge>`, at most every 5 s and when a tenth has changed). A status is for
people and is read by everybody who watches, so it follows at a coarser step; live numbers are metrics.

Rule: pure but for the last writes. A pool whose numbers stay is not written at all; one whose numbers
change by more than STEP at most every EVERY_S, by less at most every MINUTE_S. Must not know etcd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..spec.model import Table
from ..spec.names import Id, edge_name

EVERY_S = 10.0
MINUTE_S = 60.0
STEP = 0.1
FEW = 10
"""Below so many connections a tenth is nobody's news: the step is one connection of ten."""


def of_pool(acceptor: str, connections: Mapping[str, int]) -> list[int]:
    """Connections of each edge of this pool. A Deployment's pods are called <deployment>-<template>-<pod>."""
    ours = re.compile(rf"{re.escape(edge_name(acceptor))}-[a-z0-9]+-[a-z0-9]+")
    return [count for edge, count in connections.items() if ours.fullmatch(edge)]


def fields(counts: list[int]) -> Table:
    """What the status says of them."""
    if not counts:
        return {"connections": 0}
    return {"connections": sum(counts), "connectionsPerPod": {"least": min(counts), "most": max(counts)}}


class Counts:
    """What we last wrote of each StompAcceptor, and when."""

    def __init__(self) -> None:
        self._written: dict[Id, tuple[float, Table]] = {}

    def due(self, id: Id, said: Table, found: Table, now: float) -> tuple[Table, float | None]:
        """(what the status is to say, seconds until it is to be looked at again; None = when a number changes).

        said     the status as it is.     found   fields() of now, {} = nobody knows: what is said stays.
        now      monotonic seconds."""
        old: Table = {name: said[name] for name in ("connections", "connectionsPerPod") if name in said}
        if not found or found == old:
            return old, None
        at, last = self._written.get(id, (now - MINUTE_S, old))
        if found == last:
            # It does not show: the write failed, or the status that we know is the one from before it.
            return found, None
        left = at + (EVERY_S if _coarse(last, found) else MINUTE_S) - now
        if left > 0:
            return last, left
        self._written[id] = (now, found)
        return found, None

    def forget(self, id: Id) -> None:
        self._written.pop(id, None)


def _coarse(old: Table, new: Table) -> bool:
    if "connections" not in old:
        return True
    before, after = int(old["connections"]), int(new["connections"])
    return bool(before) != bool(after) or abs(after - before) > STEP * max(before, FEW)
