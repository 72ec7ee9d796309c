"""Tells Kubernetes which edge is the cheapest to take away: the one with the fewest connections.

Every edge says in etcd how many it has (`load/<edge>`); the pod of that name gets it as its deletion cost, which a
ReplicaSet looks at when it scales in (Kubernetes 1.22 and newer).

Rule: at most one write per pod and EVERY_S, and none while the number stays. A pod that is gone is no error.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.seams.clock import Clock

from ..spec.names import Id
from .kube import Kube, KubeError

COST = "controller.kubernetes.io/pod-deletion-cost"
COSTS = "Costs"
"""Kind of the work queue's ids that name a StompBroker whose edges have other numbers."""
EVERY_S = 30.0
MOST = (1 << 31) - 1


class Costs:
    """What was written, by (broker, pod)."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._written: dict[tuple[Id, str], tuple[int, float]] = {}

    async def reconcile(self, broker: Id, connections: Mapping[str, int]) -> float | None:
        """Seconds until it wants to be called again, None = when a number changes. Raises KubeError."""
        now, again = self._clock.monotonic(), None
        for key in [key for key in self._written if key[0] == broker and key[1] not in connections]:
            del self._written[key]
        for pod, count in list(connections.items()):  # a watch goes on changing them
            before, at = self._written.get((broker, pod), (-1, now - EVERY_S))
            if count == before:
                continue
            if (left := at + EVERY_S - now) > 0:
                again = left if again is None else min(again, left)
                continue
            patch = {"metadata": {"annotations": {COST: str(min(count, MOST))}}}
            try:
                await self._kube.merge("v1", "Pod", broker.namespace, pod, patch)
            except KubeError as error:
                if error.status != 404:
                    raise
            self._written[broker, pod] = (count, now)
        return again
