"""Objects as they are wanted: applied when they differ, deleted when they are not wanted any more.

Rule: no write without a difference. What the server made of an object when we applied it (1000m → 1) is none the next
time. What an object was wanted to be is hashed into an annotation of it: a field that is wanted no more is missing in
what is wanted, and would never be seen else. An object of another owner is never adopted. An informer may not have
heard of our last write yet: what it has from before says nothing about what other controllers did.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from broker.core.errors import BrokerError

from ..spec.difference import difference
from ..spec.model import Table, mark_of, version_of
from ..spec.names import APPLIED, Id
from ..spec.surplus import surplus
from .kube import Kube

log = logging.getLogger("stampede.operator")

Live = Mapping[str, Mapping[Id, Table]]
"""Kind → the objects there are, as informers have them."""


class Taken(BrokerError):
    """The name of an object is taken by one that is not ours."""


class _Made(NamedTuple):
    """body: what we last applied. usual: what the server makes different of it. version: what it was then."""

    body: Table
    usual: dict[str, Any]
    version: int


_NOTHING = _Made({}, {}, 0)


class Drift(NamedTuple):
    """Another writer had changed or deleted an object of ours. what: the foreign values, for people."""

    id: Id
    what: str


class Applier:
    """`drifts`: how often another writer had changed or deleted an object of ours."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._made: dict[Id, _Made] = {}
        self._lost: set[tuple[Id, str]] = set()
        """Objects of ours that went without us, and uids of the resources that want them again."""
        self.drifts = 0

    async def ensure(self, uid: str, wanted: list[Table], live: Live) -> AsyncIterator[Drift]:
        """Makes the objects of the resource `uid` just these. Yields what another writer had done to each once that is
        undone, whatever becomes of the rest. Raises Taken, KubeError."""
        ids = set()
        for body in map(_stamped, wanted):
            id = id_of(body)
            ids.add(id)
            item = live[id.kind].get(id)
            if item is None:
                # Informers see what has our label only: there may be one of another owner.
                item = await self._kube.get(body["apiVersion"], *id)
            if drift := await self._one(id, uid, body, item):
                self.drifts += 1
                yield drift
        for objects in live.values():
            for id, item in list(objects.items()):
                if id not in ids and controller_of(item) == uid:
                    log.info("%s is not wanted any more", id)
                    await self._kube.delete(item)
                    self._made.pop(id, None)

    async def _one(self, id: Id, uid: str, body: Table, item: Table | None) -> Drift | None:
        if item is not None and controller_of(item) != uid:
            raise Taken(f"{id} is there already and belongs to somebody else; delete it, or rename this resource.")
        different = difference(body, item)
        _, added = surplus(id.kind, body, item or {})
        last = self._made.get(id, _NOTHING)
        late = item is not None and version_of(item) < last.version
        if item is not None and last.body == body and (late or (different == last.usual and not added)):
            return None
        if item is not None and not different and not late and not added:
            return None
        if item is not None and item.get("immutable") and not late:
            # Nobody can put such a ConfigMap right but by making it anew: what is in it would be the broker's for ever.
            # One that is right stays: where all are made immutable by a policy, this would have no end.
            await self._kube.delete(item)
            self._made[id] = _Made(body, {}, version_of(await self._kube.apply(body)))
            log.warning("%s was made immutable by somebody else", id)
            return Drift(id, _described({".immutable": True, **different}))
        drift = None
        if item is None and (id, uid) in self._lost:
            drift = Drift(id, "it was deleted")
        elif item is not None and last.body == body:
            usual = last.usual
            foreign = {path: value for path, value in different.items() if path not in usual or usual[path] != value}
            drift = Drift(id, _described(foreign)) if foreign else None
        if item is not None and drift is None and added and not late and _hash(item) == _hash(body):
            # Said now: from a map that is one value to the server (a Service's selector) our apply takes it itself.
            drift = Drift(id, _described(added, "was added:"))
        made = await self._kube.apply(_counted(body, item))
        # What is still there now, others have said beside us: what we said ourselves and say no more has just gone.
        patch, added = surplus(id.kind, body, made)
        if added:
            drift = drift or Drift(id, _described(added, "was added:"))
            made = await self._kube.merge(body["apiVersion"], *id, {**patch, "metadata": _seen(made)})
        self._made[id] = _Made(body, difference(body, made), version_of(made))
        self._lost.discard((id, uid))
        if drift is not None:
            log.warning("%s was changed by somebody else: %s", id, drift.what)
        return drift

    async def leave(self, item: Table) -> None:
        """Deletes an object of ours whose pods stay, to be made otherwise once it is gone. Raises KubeError."""
        self._made.pop(id_of(item), None)
        await self._kube.delete(item, alone=True)

    def gone(self, id: Id, uid: str) -> None:
        """The object is gone. uid: of the resource that it belonged to, "" = that is leaving as well."""
        if self._made.pop(id, None) is not None and uid:
            self._lost.add((id, uid))


def _stamped(body: Table) -> Table:
    """What is wanted, with its hash on it."""
    meta = body["metadata"]
    return {**body, "metadata": {**meta, "annotations": {**meta.get("annotations", {}), APPLIED: mark_of(body)}}}


def _hash(item: Table) -> str:
    """What it was wanted to be when we last applied it: what is more in it now is not from an earlier wish of ours."""
    found: str = item["metadata"].get("annotations", {}).get(APPLIED, "")
    return found


def _counted(body: Table, item: Table | None) -> Table:
    """A Deployment whose number of pods an autoscaler sets keeps the one it has: a number that we have said before and
    say no more would be taken out of it, and Kubernetes would make it 1. The API server refuses it (409) if it has
    another one by now."""
    if body["kind"] != "Deployment" or "replicas" in body["spec"] or item is None:
        return body
    metadata = {**body["metadata"], "resourceVersion": item["metadata"]["resourceVersion"]}
    return {**body, "metadata": metadata, "spec": {**body["spec"], "replicas": item["spec"].get("replicas", 1)}}


def _seen(item: Table) -> Table:
    """Lets a patch through only while the object is as we saw it."""
    return {"resourceVersion": item["metadata"]["resourceVersion"]}


def _described(different: Mapping[str, Any], verb: str = "was") -> str:
    """Fields that were others, and what stood there."""
    shown = [f"{path.lstrip('.')} {verb} {_short(value)}" for path, value in sorted(different.items())[:3]]
    more = f" and {len(different) - 3} more" if len(different) > 3 else ""
    return ", ".join(shown) + more


def _short(value: Any) -> str:
    text = "taken out" if value is None else json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def id_of(body: Table) -> Id:
    return Id(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])


def controller_of(item: Table) -> str:
    """uid of the resource that an object goes with, "" = none."""
    for reference in item["metadata"].get("ownerReferences", []):
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def owner_of(item: Table) -> Id | None:
    for reference in item["metadata"].get("ownerReferences", []):
        if reference.get("controller"):
            return Id(reference["kind"], item["metadata"]["namespace"], reference["name"])
    return None
