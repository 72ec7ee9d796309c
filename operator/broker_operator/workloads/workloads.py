"""Reconciles StompBroker and StompAcceptor: objects, cordons, and what the status says of them.

Rule: owners.py and edges.py decide, this performs. Nothing is taken away while the state of the cluster is unknown. One
that makes no sense keeps the objects it has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.cluster.planning.view import Policy
from broker.core.errors import BrokerError, ConfigError
from broker.metadata.port import Delete, Put
from broker.seams.clock import Clock

from ..kube.applying import Applier, Taken
from ..kube.events import NORMAL, Events, Told
from ..kube.kube import Kube, KubeError
from ..spec import bridges, names
from ..spec.conditions import REFUSED_AGAIN_S, Condition, is_true, new_status, paused, ready, rfc3339, since, stood
from ..spec.model import AcceptorSpec, BrokerSpec, Resource, Table
from ..spec.names import Id
from ..world import connection_counts, entries, templates
from ..world.cluster import Cluster
from ..world.connection_counts import Counts
from ..world.resource_cache import ResourceCache
from ..world.statuses import Statuses
from . import edges, owners, pod_waits, rolling, saying
from .certificates import Certificates
from .disks import PLACED, Disks, outgrown
from .owners import Scaling, Versions
from .rebalancing import Rebalancing
from .rolling import Roll

log = logging.getLogger("stampede.operator")

LOOK_AGAIN_S = 6 * 3600
"""Certificates end without an event."""


class Unmade(BrokerError):
    """Objects could not be made, which the status says; to be tried again."""


class Workloads:
    """objects: kind → the live objects, as informers have them."""

    def __init__(
        self,
        cache: ResourceCache,
        kube: Kube,
        statuses: Statuses,
        events: Events,
        applier: Applier,
        objects: Mapping[str, Mapping[Id, Table]],
        api: Versions,
        image: str,
        clock: Clock,
        any_template: bool = False,
        reads_nodes: bool = False,
    ) -> None:
        """image: of brokers that name none. any_template: resources may say anything about their pods. reads_nodes: the
        operator may, so pods can be told their zone."""
        self._reads_nodes = reads_nodes
        self._cache = cache
        self._kube = kube
        self._statuses = statuses
        self._events = events
        self._applier = applier
        self._objects = objects
        self._api = api
        self._image = image
        self._any_template = any_template
        self._clock = clock
        self._counts = Counts()
        self._rebalancing = Rebalancing(clock)
        self._disks = Disks(kube)
        self.certificates = Certificates(kube, clock)

    def gone(self, id: Id) -> None:
        """A StompAcceptor or StompBroker is not there any more."""
        self._counts.forget(id)
        self._rebalancing.forget(id)
        self.certificates.forget(id)

    async def broker(self, resource: Resource) -> float | None:
        now = self._now()
        spec = resource.spec(BrokerSpec)
        cluster = self._cache.clusters.get(resource.id)
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        if why := self._cache.claimed_by_another(resource):
            taken = Condition("Accepted", False, "PrefixTaken", why)
            await self._say_broker(resource, spec, cluster, Scaling(0), taken)
            return REFUSED_AGAIN_S
        image = spec.image or self._image
        if not image:
            why = "name an image in spec.image, or give the operator one with --image"
            await self._say_broker(resource, spec, cluster, Scaling(0), Condition("Accepted", False, "NoImage", why))
            return None
        if (refused := self._harmful(spec.image, spec.owners.template, "owner", "spec.owners.template")) is not None:
            await self._say_broker(resource, spec, cluster, Scaling(0), refused)
            return None
        if spec.zones_from_nodes and not self._reads_nodes:
            why = "spec.zonesFromNodes needs an operator that may read nodes (chart: operator.readNodes)"
            await self._say_broker(resource, spec, cluster, Scaling(0), Condition("Accepted", False, "Invalid", why))
            return None
        workload = Id("StatefulSet", resource.id.namespace, names.owner_name(resource.id.name))
        live = self._objects["StatefulSet"].get(workload)
        restoring = self._cache.restoring(resource)
        wanted = 0 if restoring else spec.owners.replicas
        holding = cluster.holding() if cluster else {}
        current = wanted if restoring else owners.at_least(resource.id.name, wanted, holding)
        if live is not None:
            current = int(live["spec"].get("replicas", wanted))
        there = int(live.get("status", {}).get("replicas", 0)) if live else 0
        cordoned = cluster.cordoned if cluster else frozenset()
        step = owners.scaling(
            resource.id.name, wanted, current, there, holding, cordoned, cluster is not None and cluster.whole
        )  # fmt: skip
        accepted = Condition("Accepted", True, "Accepted")
        # Where a write is refused before claims were looked at, what was said of them still stands.
        placed = stood(resource, PLACED) if spec.owners.storage.storage_class_name else None
        if live is None and self._cache.unsure(resource):
            stands = () if placed is None else (placed,)
            await self._say_broker(resource, spec, cluster, Scaling(0), accepted, image, stands)
            return REFUSED_AGAIN_S
        rolled = None
        try:
            if cluster is not None:
                await _cordon(cluster, step)
                await _keep_entries(resource, cluster)
            if live is not None and rolling.under_way(live, is_true(resource, saying.ROLLING)):
                rolled = await self._rolled(resource, spec, cluster, live)
            partition = rolled.partition if rolled is not None else None
            made = owners.objects(resource, spec, image, step.replicas, live, self._api, partition)
            await self._make(resource, made)
            if live is not None and rolled is None:
                # Said with this generation: who waits for the end of it would else be told that there is nothing.
                rolled = rolling.begun(live, next(one for one in made if one["kind"] == "StatefulSet"))
            keeping = holding if cluster is not None and cluster.whole else None
            placed = await self._disks.settle(resource, spec, live, step, keeping)
            if live is not None and outgrown(spec, live, step):
                await self._applier.leave(live)
        except (Taken, ConfigError, KubeError) as error:
            accepted = saying.refusal(error)
        rebalance, planned, again = await self._rebalancing.settle(resource, spec, cluster)
        more = (saying.rolling(rolled), *(one for one in (rebalance, placed) if one is not None))
        waits = await self._say_broker(resource, spec, cluster, step, accepted, image, more, planned)
        if accepted.reason == "ServerFailed":
            raise Unmade(accepted.message)
        if accepted.reason == "Refused":
            return REFUSED_AGAIN_S
        if rolled is not None:
            return rolling.LOOK_AGAIN_S
        return 5.0 if step.reason == "Unreachable" else min(again or LOOK_AGAIN_S, waits or LOOK_AGAIN_S)

    async def _rolled(self, resource: Resource, spec: BrokerSpec, cluster: Cluster | None, live: Table) -> Roll:
        """How far the new template may come now. Raises KubeError."""
        selector = saying.selector(names.selector(resource.id.name, "owner"))
        pods = (await self._kube.read_list("v1", "Pod", resource.id.namespace, selector))["items"]
        reachable, settled = saying.seen(cluster, self._cache.unusable.get(resource.id, "not connected yet"))
        if cluster is not None and cluster.known:
            settled = saying.replicated(cluster.slots(Policy(spec.replication.factor, spec.replication.min_in_sync)))
        unsettled = "" if settled.status or settled.reason == "NoSlots" else settled.message or reachable.message
        now = self._now()
        return rolling.step(resource.id.name, live, pods, unsettled, since(resource, saying.ROLLING, now), now)

    async def acceptor(self, resource: Resource) -> float | None:
        now = self._now()
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec = resource.spec(AcceptorSpec)
        broker = self._cache.broker_of(resource)
        if broker is None:
            why = f"there is no StompBroker {resource.broker}"
            await self._say_acceptor(resource, spec, Condition("Accepted", False, "BrokerNotFound", why))
            return None
        if why := self._cache.claimed_by_another(broker):
            await self._say_acceptor(resource, spec, Condition("Accepted", False, "PrefixTaken", why))
            return REFUSED_AGAIN_S
        shared = broker.spec(BrokerSpec)
        image = spec.image or shared.image or self._image
        if not image:
            why = "name an image in spec.image, or in the StompBroker"
            await self._say_acceptor(resource, spec, Condition("Accepted", False, "NoImage", why))
            return None
        if (refused := self._harmful(spec.image, spec.template, "edge", "spec.template")) is not None:
            await self._say_acceptor(resource, spec, refused)
            return None
        accepted = Condition("Accepted", True, "Accepted")
        live = Id("Deployment", resource.id.namespace, names.edge_name(resource.id.name)) in self._objects["Deployment"]
        if not live and (self._cache.unsure(broker) or self._cache.restoring(broker)):
            await self._say_acceptor(resource, spec, accepted)
            return REFUSED_AGAIN_S
        try:
            made = edges.objects(resource, spec, broker.id.name, shared, image, self._api)
            await self._make(resource, made)
        except (Taken, ConfigError, KubeError) as error:
            accepted = saying.refusal(error)
        if accepted.status and spec.gateway and not any(one["kind"] == spec.gateway.kind for one in made):
            why = f"this cluster has no {spec.gateway.kind}; install the Gateway API, or take spec.gateway out"
            accepted = Condition("Accepted", False, "NoGatewayAPI", why)
        again = await self._say_acceptor(resource, spec, accepted)
        if accepted.reason == "ServerFailed":
            raise Unmade(accepted.message)
        return REFUSED_AGAIN_S if accepted.reason == "Refused" else again

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return self._clock.wall_ms() / 1000

    def _harmful(self, image: str, template: Table, ours: str, where: str) -> Condition | None:
        """Why the pods would run what this operator was not installed to run; what is there already stays as it is."""
        if self._any_template:
            return None
        lift = "or install the operator with podTemplates=any (chart: operator.podTemplates)"
        if templates.foreign_image(image, self._image):
            why = f"spec.image {image} is not of the operator's repository ({self._image}); use that one, {lift}"
            return Condition("Accepted", False, "ImageRefused", why)
        if paths := templates.forbidden(template, ours):
            why = f"{where} may not say {', '.join(paths[:5])}; take it out, {lift}"
            return Condition("Accepted", False, "TemplateRefused", why)
        return None

    async def _make(self, resource: Resource, wanted: list[Table]) -> None:
        """Raises Taken, KubeError."""
        async for drift in self._applier.ensure(resource.uid, wanted, self._objects):
            told = Told(
                NORMAL, "DriftRepaired", f"{drift.id} was changed by somebody else and is repaired: {drift.what}"
            )
            await self._events.tell(resource.raw, told, str(drift.id))

    # ── inside: brokers ──────────────────────────────────────────────────────────────────────────

    async def _say_broker(
        self,
        resource: Resource,
        spec: BrokerSpec,
        cluster: Cluster | None,
        step: Scaling,
        accepted: Condition,
        image: str = "",
        more: tuple[Condition, ...] = (),
        planned: Table | None = None,
    ) -> float | None:
        """more: what else there is to say, which Ready does not go by. When to look at the pods again, None: at their
        next event."""
        workload = Id("StatefulSet", resource.id.namespace, names.owner_name(resource.id.name))
        live = (self._objects["StatefulSet"].get(workload) or {}).get("status", {})
        up, there = int(live.get("readyReplicas", 0)), int(live.get("replicas", 0))
        wanted = spec.owners.replicas
        fields: Table = {
            "owners": {
                "replicas": there,
                "ready": up,
                "selector": saying.selector(names.selector(resource.id.name, "owner")),
                "holding": step.holding,
            },
            "image": image or None,
            "rebalance": planned,
        }
        reachable, replicated = saying.seen(cluster, self._cache.unusable.get(resource.id, "not connected yet"))
        if cluster is not None and cluster.known:
            policy = Policy(spec.replication.factor, spec.replication.min_in_sync)
            slots = cluster.slots(policy)
            edge_ids = [one for one in cluster.members.values() if one.kind == "edge"]
            fields |= {"slots": slots, "edges": len(edge_ids)}
            replicated = saying.replicated(slots)
        elif cluster is not None and not cluster.asked and accepted.status and resource.status.get("conditions"):
            return None  # an operator that has just started knows nothing yet: what the last one has seen stands
        all_up = Condition("OwnersReady", up >= wanted, "Ready" if up >= wanted else "Waiting", f"{up} of {wanted}")
        held = self._cache.restoring(resource)
        if held and not there:
            all_up = Condition("OwnersReady", False, "Restoring", held)
        elif not all_up.status and live and (missing := await self.certificates.missing(resource, spec)):
            all_up = Condition("OwnersReady", False, "SecretMissing", f"{up} of {wanted}; {missing}")
        elif not all_up.status and live and (waits := await self._waits(resource, resource.id.name, "owner")):
            all_up = Condition("OwnersReady", False, waits.reason, f"{up} of {wanted}; {waits.message}")
        scaling = Condition("ScalingDown", bool(step.reason), step.reason or "Idle", saying.progress(step))
        # They say nothing of Ready before they end: who is told thirty days ahead has nothing broken.
        certificates, ends = await self.certificates.of_broker(resource, spec)
        fields["certificatesNotAfter"] = rfc3339(ends) if ends is not None else None
        ended = (certificates,) if certificates.reason == "Expired" else ()
        needed = (accepted, *ended, reachable, all_up, replicated)
        if spec.restore_from is not None:
            reason = "Waiting" if held else "Restored"
            more = (*more, Condition("Restored", not held, reason, held or f"by StompRestore {spec.restore_from.name}"))
        if spec.bridges:
            more = (*more, await self._bridges(resource, spec, cluster))
        found = (accepted, reachable, all_up, replicated, scaling, *more, certificates, ready(*needed))
        await self._statuses.write(resource, new_status(resource, found, fields, self._now()))
        return None if all_up.status or held or not live else pod_waits.LOOK_AGAIN_S

    async def _bridges(self, resource: Resource, spec: BrokerSpec, cluster: Cluster | None) -> Condition:
        name, lacking = spec.bridges_secret_name, None
        secret = await self._kube.get("v1", "Secret", resource.id.namespace, name) if name else None
        if cluster is not None and cluster.known:
            lacking = entries.bridges_lacking(resource, cluster.keys, cluster.config)
        return bridges.condition(spec, secret, lacking)

    async def _waits(self, resource: Resource, broker: str, component: str) -> pod_waits.Waits | None:
        """Why its pods do not run; None: they do, or nobody knows."""
        pool = resource.id.name if component == "edge" else ""
        try:
            return await pod_waits.why(self._kube, resource.id.namespace, names.selector(broker, component, pool))
        except KubeError as error:
            log.info("why pods of %s wait is not known: %s", resource.id, error)
            return None

    # ── inside: acceptors ────────────────────────────────────────────────────────────────────────

    async def _say_acceptor(self, resource: Resource, spec: AcceptorSpec, accepted: Condition) -> float | None:
        id, now = resource.id, self._now()
        workload = self._objects["Deployment"].get(Id("Deployment", id.namespace, names.edge_name(id.name))) or {}
        service = self._objects["Service"].get(Id("Service", id.namespace, id.name)) or {}
        live = workload.get("status", {})
        up, there = int(live.get("readyReplicas", 0)), int(live.get("replicas", 0))
        wanted = int(workload.get("spec", {}).get("replicas", 0))
        addresses = saying.addresses(service, spec)
        certificates, ends = await self.certificates.of_acceptor(resource, spec)
        available = Condition("Available", up > 0 or wanted == 0, "Available" if up else "Waiting", f"{up} of {wanted}")
        if not available.status and (waits := await self._waits(resource, resource.broker, "edge")):
            available = Condition("Available", False, waits.reason, f"{up} of {wanted}; {waits.message}")
        balanced = saying.balanced(service, spec)
        fields: Table = {
            "listeners": ",".join(f"{one['name']}:{one['port']}" for one in spec.listeners),
            "addresses": addresses,
            "replicas": there,
            "readyReplicas": up,
            "selector": saying.selector(names.selector(resource.broker, "edge", id.name)),
            "certificatesNotAfter": rfc3339(ends) if ends is not None else None,
        }
        counted, again = self._counts.due(id, resource.status, self._counted(resource), self._clock.monotonic())
        fields |= counted
        found = (accepted, available, balanced, certificates, ready(accepted, certificates, available, balanced))
        await self._statuses.write(resource, new_status(resource, found, fields, now))
        pods = None if available.status else pod_waits.LOOK_AGAIN_S
        times = (LOOK_AGAIN_S if ends is not None else None, again, pods)
        return min((one for one in times if one is not None), default=None)

    def _counted(self, resource: Resource) -> Table:
        """{}: nobody knows."""
        broker = self._cache.broker_of(resource)
        cluster = self._cache.clusters.get(broker.id) if broker is not None else None
        if cluster is None or not cluster.known:
            return {}
        return connection_counts.fields(connection_counts.of_pool(resource.id.name, cluster.connections))


async def _cordon(cluster: Cluster, step: Scaling) -> None:
    for owner in step.cordon:
        await cluster.commit([(cluster.keys.cordon(owner), 0)], [Put(cluster.keys.cordon(owner), b"")])
    for owner in step.uncordon:
        await cluster.commit([], [Delete(cluster.keys.cordon(owner))])


async def _keep_entries(resource: Resource, cluster: Cluster) -> None:
    """What its quotas and bridges say stands in etcd, where owners and edges follow it. Raises ConfigError for what
    they would not take, Unmade where another writer wrote at the same moment."""
    if not cluster.known:
        return  # all is looked at again when it is
    wanted = entries.of_quotas(resource, cluster.keys) | entries.of_bridges(resource, cluster.keys)
    had, mark = sorted(cluster.marks.get(resource.uid, ())), entries.marker_of(resource)
    for change in entries.changes(
        cluster.keys, resource.uid, wanted, mark, cluster.config, cluster.managed, had
    ):  # fmt: skip
        if not await cluster.commit(change.compare, change.then, str(resource.id)):
            raise Unmade(f"quotas or bridges of {resource.id} were changed meanwhile")
