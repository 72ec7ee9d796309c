"""A rebalance is proposed, approved and watched: `spec.owners.rebalance.mode: Manual`.

Copies then move for even loads only while an administrator has approved just these moves, by their id in an annotation;
what replicas need after a loss, and what a scale-in asks for, moves all the same. Another annotation, or none, stops
it: what is on its way ends, nothing new begins.

Rule: etcd says what is approved (`rebalance`), so it outlives this process and controllers need not know us. An id is
used once: the next proposal has another one even if it moves the same.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import NamedTuple

from broker.cluster.planning.placement import foretold
from broker.cluster.planning.view import Policy, Rebalance, StepKind, View
from broker.config.load import from_tree
from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.metadata.port import Delete, Put
from broker.seams.clock import Clock

from ..spec.conditions import Condition
from ..spec.model import BrokerSpec, Resource, Table
from ..spec.names import REBALANCE, Id
from ..spec.schema import group_settings
from ..world.cluster import Cluster

MANUAL = "Manual"
AGAIN_S = 5.0
"""A plan to the end takes some tenths of a second: made at most so often."""
EACH_S = 0.2
"""Of one copy that weighs nothing: some writes to etcd and two handshakes."""
LOOK_S = 60.0
"""What slots weigh changes without an event."""


class Proposal(NamedTuple):
    """What would move: copies, leaders; what that weighs, None: not known. calm: nobody is away, so that is all."""

    id: str = ""
    moves: int = 0
    leaders: int = 0
    nbytes: int | None = None
    calm: bool = True


class Decided(NamedTuple):
    """write: what etcd is to say, None: it says so. condition, fields: for the status."""

    write: Rebalance | None
    condition: Condition
    fields: Table


def proposed(view: View, last: str, weights: dict[int, int]) -> Proposal:
    """last: the id that was approved before. weights: bytes of each slot, {} = not known."""
    free = replace(view, rebalance=Rebalance())
    repairs = any(step.kind is StepKind.ADD for step in foretold(replace(view, rebalance=Rebalance(held=True))))
    calm = all(one in view.owners for one in view.homes()) and not repairs
    if repairs:
        return Proposal(
            "", 0, 0, None, calm
        )  # those are made without anybody's leave, and what they lead to is not known
    steps = foretold(free)
    adds = sorted((step.new.slot, step.owner) for step in steps if step.kind is StepKind.ADD)
    leaders = sum(step.kind is StepKind.TRANSFER for step in steps)
    id = hashlib.sha256(f"{last}{adds}".encode()).hexdigest()[:8] if adds else ""
    nbytes = sum(weights.get(slot, 0) for slot, _ in adds) if weights else None
    return Proposal(id, len(adds), leaders, nbytes, calm)


def decide(now: Rebalance | None, asked: str, at_once: int, found: Proposal, bytes_per_s: int) -> Decided:
    """now: what etcd says, None: nothing. asked: the annotation. bytes_per_s: of one copy at most."""
    fields: Table = {"state": "Idle"}
    if found.moves:
        fields = {"state": "Proposed", "id": found.id, "moves": found.moves, "leaders": found.leaders}
        if found.nbytes is not None:
            seconds = (found.nbytes / max(bytes_per_s, 1) + found.moves * EACH_S) / at_once
            fields |= {"bytes": _coarse(found.nbytes), "seconds": max(round(seconds), 1)}
    last = now.approved if now is not None else ""
    if now is not None and not now.held and last:
        if asked != last:
            return _held(last, "Cancelled", f"what was on its way comes to its end, {_what(found)} are left", fields)
        if found.moves or not found.calm:
            wait = "" if found.calm else "; an owner is away, or copies are repaired: it goes on behind that"
            moving = Condition("Rebalancing", True, "Moving", f"{_what(found)} are left{wait}")
            wanted = Rebalance(False, at_once, last)
            return Decided(wanted if now != wanted else None, moving, {**fields, "state": "Moving", "id": last})
        return _held(last, "Done", "all copies are where they belong", fields)
    held = None if now is not None and now.held else Rebalance(held=True, approved=last)
    if not found.moves:
        why = (
            "nothing has to move"
            if found.calm
            else "an owner is away, or copies are on their way: what is to be moved is known behind that"
        )
        return Decided(held, Condition("Rebalancing", False, "Idle", why), fields)
    if asked == found.id and held is None:
        begun = Condition("Rebalancing", True, "Moving", f"{_what(found)} are left")
        return Decided(Rebalance(False, at_once, found.id), begun, {**fields, "state": "Moving"})
    stale = f"; {asked!r} in the annotation is not (or no longer) the id of it" if asked and asked != last else ""
    what = _what(found)
    if "seconds" in fields:
        what += f" ({_size(fields['bytes'])}, about {fields['seconds']} s)"
    why = f"{what} would move: approve it with the annotation {REBALANCE}={found.id}{stale}"
    return Decided(held, Condition("Rebalancing", False, "Proposed", why), fields)


def _held(last: str, reason: str, why: str, fields: Table) -> Decided:
    return Decided(Rebalance(held=True, approved=last), Condition("Rebalancing", False, reason, why), fields)


def _what(found: Proposal) -> str:
    return f"{found.moves} copies of slots and {found.leaders} leaders"


def _coarse(number: int) -> int:
    """Two digits: a status is not written for each message."""
    return int(float(f"{number:.1e}"))


def _size(nbytes: int) -> str:
    size, units = float(nbytes), ["TB", "GB", "MB", "kB", "B"]
    while size >= 1000 and len(units) > 1:
        size, _ = size / 1000, units.pop()
    return f"{size:.3g} {units[-1]}"


def _settings(spec: BrokerSpec) -> ClusterSettings:
    """Of its owners."""
    try:
        tree = {"cluster": group_settings("cluster", spec.settings.get("cluster", {}))}
        return from_tree(tree, "in spec.settings").cluster
    except ConfigError:  # the condition Accepted says so
        return ClusterSettings()


class Rebalancing:
    """Of all brokers. `_plans`: what was proposed last, when, for which table of slots."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plans: dict[Id, tuple[float, tuple[int, str, bool] | None, Proposal]] = {}

    def forget(self, id: Id) -> None:
        self._plans.pop(id, None)

    async def settle(
        self, resource: Resource, spec: BrokerSpec, cluster: Cluster | None
    ) -> tuple[Condition | None, Table | None, float | None]:
        """(condition, status.rebalance, in how many seconds to look again). None: nothing is said."""
        if cluster is None or not cluster.whole:
            return None, None, None
        now, revision = cluster.rebalance
        if spec.owners.rebalance.mode != MANUAL:
            if now is not None:
                await cluster.commit([(cluster.keys.rebalance, revision)], [Delete(cluster.keys.rebalance)])
            return None, None, None
        found, again = await self._plan(resource.id, spec, cluster, now.approved if now is not None else "")
        settings = _settings(spec)
        # Owners do not begin more than max_moves, whatever asks for it, and the time told is the true one.
        at_once = min(spec.owners.rebalance.moves_at_once, settings.max_moves)
        asked = resource.annotations.get(REBALANCE, "").strip()
        decided = decide(now, asked, at_once, found, settings.seed_bytes_per_s)
        if decided.write is not None:
            key = cluster.keys.rebalance
            if not await cluster.commit([(key, revision)], [Put(key, decided.write.encode())]):
                return None, None, 1.0  # another writer was first: its event has it looked at again
        return decided.condition, decided.fields, again

    async def _plan(self, id: Id, spec: BrokerSpec, cluster: Cluster, last: str) -> tuple[Proposal, float]:
        at, of, found = self._plans.get(id, (float("-inf"), None, Proposal()))
        made_of = (cluster.moved, last, bool(cluster.weights))
        now = self._clock.monotonic()
        age = now - at
        if of is not None and of[1] == last and (age < AGAIN_S or (of == made_of and age < LOOK_S)):
            return found, (LOOK_S if of == made_of else AGAIN_S) - age
        policy = Policy(spec.replication.factor, spec.replication.min_in_sync)
        found = await asyncio.to_thread(proposed, cluster.view(policy), last, dict(cluster.weights))
        self._plans[id] = (now, made_of, found)
        return found, LOOK_S
