"""Writes statuses.

Rule: only when they differ, and only over the resource that was looked at: one that was made anew meanwhile is left
alone. What was written is known here at once, unless another writer changed the resource meanwhile (the answer has that
change too, and only its own event has it looked at) or its end was told before the answer came.
"""

from __future__ import annotations

from ..kube.events import Events, turned
from ..kube.kube import Kube, KubeError
from ..spec.conditions import Condition, new_status
from ..spec.model import Resource, Table
from .resource_cache import ResourceCache, slim


class Statuses:
    def __init__(self, kube: Kube, cache: ResourceCache, events: Events) -> None:
        self._kube = kube
        self._cache = cache
        self._events = events

    async def write(self, resource: Resource, status: Table | None) -> None:
        """status: None = it says that already. Raises KubeError."""
        if status is None:
            return
        try:
            raw = await self._kube.set_status(resource.raw, status)
        except KubeError as error:
            if error.status in (404, 422):  # gone, or another one of that name: its own event tells of it
                return
            raise
        written, known = slim(raw), self._cache.resources.get(resource.id)
        if known is not None and known.uid == resource.uid and _ours(written) == _ours(resource.raw):
            self._cache.put(written)
        for told in turned(resource, status):
            await self._events.tell(resource.raw, told)

    async def paused(self, resource: Resource, left_s: float, now: float) -> float | None:
        """Says that nothing is done for `left_s` seconds; the rest of the status stays as it was."""
        kept = [
            Condition(one["type"], {"True": True, "False": False}.get(one["status"]), one["reason"], one["message"])
            for one in resource.status.get("conditions", [])
            if one["type"] != "Paused"
        ]
        pause = Condition("Paused", True, "Annotation", "nothing is changed while the annotation stands")
        others = ("conditions", "observedGeneration")
        fields = {name: value for name, value in resource.status.items() if name not in others}
        await self.write(resource, new_status(resource, [*kept, pause], fields, now))
        return left_s + 0.1 if left_s != float("inf") else None


def _ours(raw: Table) -> tuple[Table, Table]:
    """What a write of the status leaves as it was."""
    meta = {key: value for key, value in raw["metadata"].items() if key != "resourceVersion"}
    return meta, raw.get("spec", {})
