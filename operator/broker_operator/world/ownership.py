"""Which operator a StompBroker belongs to: two releases may look after one namespace, with images of their own.

A StompBroker has the annotation `stampede.dev/operator: NAMESPACE/LEASE`, the lease of the operator that looks after it
and after everything that names it. The chart writes it. One without it belongs to the operator that writes it first:
the write fails if another writer has changed the resource since it was read. An operator that is not there any more
(nothing has happened to its lease for GONE_S, by our own clock) is succeeded by the operator that notices.

Rule: what belongs to another operator is not written, connected to, or given a status.
"""

from __future__ import annotations

import logging

from broker.seams.clock import Clock

from ..kube.events import NORMAL, Events, Told
from ..kube.kube import Kube, KubeError
from ..spec import names
from ..spec.model import Resource
from ..spec.names import BROKER, Id
from .resource_cache import ResourceCache, slim

log = logging.getLogger("stampede.operator")

GONE_S = 90.0
"""An upgrade of a release starts a new operator, and may pull its image first. While nobody looks after a broker it
goes on as it is: too late costs less than two operators with different images."""
LOOK_S = 15.0
"""How often the lease of another operator is read."""


class Ownership:
    """me: NAMESPACE/LEASE of this operator."""

    def __init__(self, kube: Kube, cache: ResourceCache, events: Events, clock: Clock, me: str) -> None:
        self._kube = kube
        self._cache = cache
        self._events = events
        self._clock = clock
        self._me = me
        self._seen: dict[str, tuple[str, float]] = {}
        """By operator: the version of its lease ("": none), and since when it is that one."""

    def owned(self, broker: Id) -> bool:
        """True for a StompBroker of ours. False: another operator's, nobody's yet, or not there."""
        resource = self._cache.resources.get(broker)
        return resource is not None and _operator_of(resource) == self._me

    def others(self, resource: Resource) -> bool:
        """A resource that names a StompBroker which is not ours: the operator that has that one looks after it."""
        broker = Id(BROKER, resource.id.namespace, resource.broker)
        return self._cache.broker_of(resource) is not None and not self.owned(broker)

    async def claim(self, broker: Resource) -> bool:
        """True: it is ours, and so is everything that names it. Raises KubeError (409: tried again)."""
        operator = _operator_of(broker)
        if operator == self._me:
            return True
        if operator and not await self._gone(operator):
            return False
        found = await self._kube.annotate(broker.raw, names.OPERATOR, self._me)
        if operator:
            what = f"its operator {operator} is not there any more; {self._me} looks after it now"
            log.warning("%s: %s", broker.id, what)
            await self._events.tell(broker.raw, Told(NORMAL, "OperatorChanged", what))
        self._cache.put(slim(found))
        return True

    async def _gone(self, operator: str) -> bool:
        """Nobody has renewed its lease for GONE_S. An answer that we may not have says that it lives."""
        namespace, _, lease = operator.partition("/")
        try:
            found = await self._kube.get("coordination.k8s.io/v1", "Lease", namespace, lease)
        except KubeError as error:
            log.info("lease of %s: %s", operator, error)
            return False
        version, now = str(found["metadata"]["resourceVersion"]) if found else "", self._clock.monotonic()
        seen, since = self._seen.get(operator, (None, now))
        if seen != version:
            self._seen[operator] = version, now
            return False
        return now - since >= GONE_S


def _operator_of(broker: Resource) -> str:
    """ "" while nobody has written it."""
    return broker.annotations.get(names.OPERATOR, "")
