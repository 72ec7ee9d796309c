"""What the reconcilers of StompBackup and StompRestore have in common: what they know, and the Job of a step as it is.

Rule: reads only; which step it is, and what its end means, is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.seams.clock import Clock

from ..kube.applying import controller_of
from ..kube.kube import Kube
from ..spec.model import Resource, Table
from ..spec.names import Id
from ..world.resource_cache import ResourceCache
from ..world.statuses import Statuses


class JobSteps:
    """objects: kind → the live objects, as informers have them. image: of brokers that name none."""

    def __init__(
        self, cache: ResourceCache, kube: Kube, statuses: Statuses, objects: Mapping[str, Mapping[Id, Table]],
        image: str, clock: Clock,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._kube = kube
        self._statuses = statuses
        self._objects = objects
        self._image = image
        self._clock = clock

    async def _job(self, id: Id) -> Table | None:
        """The Job, also one that no informer has heard of yet. Raises KubeError."""
        return self._objects["Job"].get(id) or await self._kube.get("batch/v1", *id)

    async def _pods(self, id: Id) -> list[Table]:
        """The pods of a Job. Raises KubeError."""
        pods: list[Table] = (await self._kube.read_list("v1", "Pod", id.namespace, f"job-name={id.name}"))["items"]
        return pods


def not_ours(found: Table, resource: Resource) -> str:
    """Why a Job says nothing of this resource; "": it is its own."""
    if controller_of(found) == resource.uid:
        return ""
    return f"Job {found['metadata']['name']} belongs to something else; if it does not go by itself, delete it"


def kept_fields(resource: Resource) -> dict[str, Any]:
    """Fields of the status as they are: all that conditions do not say."""
    return {key: value for key, value in resource.status.items() if key not in ("conditions", "observedGeneration")}
