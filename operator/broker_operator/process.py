"""The operator as a process: where all objects meet, and which event makes what be looked at again.

Rule: wiring and life cycle. An event never does anything by itself; it puts an id into the queue. Whatever is followed
has an informer. Everything is looked at anew from time to time; that writes nothing unless something differs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import ChainMap
from collections.abc import Iterable
from typing import NamedTuple

from broker.core.errors import BrokerError
from broker.seams.clock import SystemClock
from broker.seams.memory import hand_back

from .copies.backups import Backups
from .copies.restores import Restores
from .etcd.etcd_reconciler import EtcdReconciler
from .kube.applying import Applier, owner_of
from .kube.bundles import LABEL, Bundles
from .kube.events import WARNING, Events, Told
from .kube.informer import Informer
from .kube.kube import Kube
from .kube.made_secrets import MADE, MadeSecrets, Wanted
from .kube.pod_deletion_cost import COSTS, Costs
from .kube.workqueue import WorkQueue
from .spec import names
from .spec.model import BrokerSpec, Resource, Table
from .spec.names import ACCEPTOR, ADDRESS, BACKUP, BROKER, RESTORE, USER, Id
from .workloads.owners import Versions
from .workloads.workloads import Workloads
from .world import connection_counts
from .world.address_traffic import Traffic
from .world.connecting import Connections
from .world.ownership import LOOK_S, Ownership
from .world.resource_cache import ResourceCache, slim
from .world.status_rounds import Rounds
from .world.statuses import Statuses
from .world.zones import ZONE, Zones, on_node

log = logging.getLogger("stampede.operator")

SWEEP = "Sweep"
"""Kind of an id whose rest names a StompBroker: keys that nobody wants any more are looked for."""
BUNDLE = "Bundle"
"""Kind of an id whose rest names a ConfigMap with resources."""
RESYNC_S = 300.0
"""Everything is looked at anew: what was not told, or was told and came to nothing."""
LOST = "Lost"
"""Kind of an id whose rest names a StompBroker: owners of it are gone that had not said so."""
OUTDATED_S = 1.0
"""A resource that we know only as it was before our own write: its event comes, and if not it is looked at again."""
TIDY_S = 15.0
CALM_S = 0.3
"""Slots and members change by the dozen: a broker is looked at once they are through."""


class Options(NamedTuple):
    """namespaces: () = all. image: of brokers that name none. any_template: see templates.py. lease: NAMESPACE/NAME of
    ours, which StompBrokers name (ownership.py). bundles: namespaces of bundles.py, None = all. read_nodes: we may.
    secrets: what is to be made (made_secrets.py)."""

    namespaces: tuple[str, ...] = ()
    image: str = ""
    any_template: bool = False
    lease: str = "default/stampede-operator"
    bundles: tuple[str, ...] | None = None
    read_nodes: bool = False
    secrets: Wanted | None = None


class Operator:
    """Everything that reconciles. run() when we are the only one."""

    def __init__(self, kube: Kube, options: Options) -> None:
        self.kube = kube
        self.options = options
        self.clock = SystemClock()
        self.queue = WorkQueue(self._work)
        self.cache = ResourceCache(self.queue.add)
        self.events = Events(kube, self.clock)
        self.statuses = Statuses(kube, self.cache, self.events)
        self.applier = Applier(kube)
        self.connections = Connections(self.cache, kube, self._on_cluster)
        self.ownership = Ownership(kube, self.cache, self.events, self.clock, options.lease)
        self.traffic = Traffic()
        self.rounds = Rounds(self.cache, self.traffic, self.queue.add, self.clock)
        self.etcd_reconciler = EtcdReconciler(self.cache, kube, self.statuses, self.events, self.clock, self.traffic)
        self.bundles = Bundles(
            kube, self.events, self.cache.resources, options.bundles, options.lease, options.image
        )  # fmt: skip
        self.costs = Costs(kube, self.clock)
        self.zones = Zones(kube, self.queue.add)
        own = options.lease.partition("/")[0]
        self.made = MadeSecrets(kube, self.clock, own, options.secrets) if options.secrets is not None else None
        self.workloads: Workloads | None = None
        self.backups: Backups | None = None
        self.restores: Restores | None = None
        self._informers: list[Informer] = []
        self._live: dict[str, ChainMap[Id, Table]] = {}
        self._bundled: list[dict[Id, Table]] = []
        self._resources: list[dict[Id, Table]] = []
        self._loops: list[asyncio.Task[None]] = []
        self.ready = False

    async def start(self) -> None:
        """Reads everything, then follows. Raises KubeError."""
        api = await versions(self.kube)
        selector = f"app.kubernetes.io/managed-by={names.FIELD_MANAGER}"
        for api_version, kind in managed(api):
            parts = []
            for namespace in self.options.namespaces or ("",):
                informer = Informer(self.kube, api_version, kind, namespace, selector, self._on_object)
                parts.append(informer.items)
                await self._begin(informer)
            self._live[kind] = ChainMap(*parts)
        for namespace in self.options.namespaces or ("",):
            informer = Informer(self.kube, "v1", "ConfigMap", namespace, f"{LABEL}=true", self._on_bundle)
            self._bundled.append(informer.items)
            await self._begin(informer)
        for namespace in self.options.namespaces or ("",):
            await self._begin(Informer(self.kube, "v1", "Secret", namespace, "", self._on_secret, meta=True))
        self.workloads = Workloads(
            self.cache, self.kube, self.statuses, self.events, self.applier, self._live, api, self.options.image,
            self.clock, self.options.any_template, self.options.read_nodes,
        )  # fmt: skip
        args = self.cache, self.kube, self.statuses, self._live, self.options.image, self.clock
        self.backups, self.restores = Backups(*args), Restores(*args)
        # All resources before the first sweep: the keys of one that is not known yet would be given back.
        for kind in await self._kinds():
            for namespace in self.options.namespaces or ("",):
                informer = Informer(self.kube, names.API_VERSION, kind, namespace, "", self._on_resource, shape=slim)
                self._resources.append(informer.items)
                await self._begin(informer)
        if self.options.read_nodes:
            for namespace in self.options.namespaces or ("",):
                informer = Informer(self.kube, "v1", "Pod", namespace, selector, self.zones.on_pod, shape=on_node)
                await self._begin(informer)
        if self.made is not None:
            self.queue.add(self.made.id)
        await self._apply_bundles()
        self.queue.start()
        self._loops = [
            asyncio.create_task(self._resync(), name="resync"),
            asyncio.create_task(self._hand_back(), name="memory"),
            asyncio.create_task(self.rounds.follow(), name="traffic"),
        ]
        self.ready = True

    async def run(self) -> None:
        """For ever. Raises KubeError."""
        await self.start()
        await asyncio.gather(*self._loops)

    async def stop(self) -> None:
        self.ready = False
        await self.queue.stop()  # first: the operator that has the lease next may begin before all else has ended
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        for informer in self._informers:
            await informer.stop()
        await self.connections.close()

    # ── what has happened ────────────────────────────────────────────────────────────────────────

    def _on_resource(self, id: Id, raw: Table) -> None:
        if any(id in items for items in self._resources):
            self._come(raw)
            return
        known = self.cache.resources.get(id)
        if known is None or known.uid == raw["metadata"]["uid"]:
            self._gone(id)

    def _come(self, raw: Table) -> None:
        """A custom resource has come or changed."""
        before = self.cache.resources.get(Id(raw["kind"], raw["metadata"]["namespace"], raw["metadata"]["name"]))
        resource = self.cache.put(raw)
        if resource is None:
            return
        self.queue.add(resource.id)
        if before is not None and before.uid != resource.uid:  # nobody has told yet, or ever will, that it is gone
            self._sweep_of(before.id.namespace, before.broker)
        if resource.leaving:
            self._sweep_of(resource.id.namespace, resource.broker)
        if resource.id.kind == BROKER:
            for other in self._dependents(resource.id):
                self.queue.add(other)

    def _gone(self, id: Id) -> None:
        resource = self.cache.resources.get(id)
        self.cache.drop(id)
        self.queue.add(id)
        if resource is not None and (owner := owner_of(resource.raw)) is not None:
            self.queue.add(owner._replace(kind=BUNDLE))
        if id.kind == BROKER:
            for other in self._dependents(id):
                self.queue.add(other)
        elif resource is not None:
            self._sweep_of(id.namespace, resource.broker)

    def _sweep_of(self, namespace: str, broker: str) -> None:
        self.queue.add(Id(SWEEP, namespace, broker))

    def _on_object(self, id: Id, item: Table) -> None:
        owner = owner_of(item)
        resource = self.cache.resources.get(owner) if owner is not None else None
        if id not in self._live.get(id.kind, {}):
            self.applier.gone(id, resource.uid if resource is not None and not resource.leaving else "")
        if owner is not None and resource is not None:
            self.queue.add(owner)

    def _on_bundle(self, id: Id, _: Table) -> None:
        self.queue.add(Id(BUNDLE, id.namespace, id.name))

    def _on_secret(self, id: Id, _: Table) -> None:
        """Resources that name this Secret look at it again, a ConfigMap that it vouches for too."""
        if self.made is not None and id.namespace == self.made.id.namespace and id.name in self.made.names:
            self.queue.add(self.made.id)
        if any(Id("ConfigMap", id.namespace, id.name) in bundled for bundled in self._bundled):
            self.queue.add(Id(BUNDLE, id.namespace, id.name))
        for resource in list(self.cache.resources.values()):
            if resource.id.namespace == id.namespace and id.name in _secrets_of(resource):
                self.queue.add(resource.id)

    def _on_cluster(self, broker: Id, part: str, places: list[str]) -> None:
        if part in ("reachable", "owners", "edges", "slots", "cordons", "rebalance"):
            self.queue.add(broker, CALM_S)
        if part == "owners":
            self.queue.add(broker._replace(kind=LOST))
        if part == "reachable":
            self._sweep_of(broker.namespace, broker.name)
            for id in self._dependents(broker):
                self.queue.add(id)
        elif part in ("applied", "owners", "edges"):
            for id in self.etcd_reconciler.caught_up(broker):
                self.queue.add(id)
        elif part == "loads":
            self.queue.add(broker._replace(kind=COSTS), CALM_S)
            for id in self._dependents(broker):
                if id.kind == ACCEPTOR:
                    self.queue.add(id, connection_counts.EVERY_S)
        elif part in ("config", "managed"):
            if any(place.startswith(("quotas/", "bridges/")) for place in places):
                self.queue.add(broker, CALM_S)
            for place in places:
                claimants = self.cache.claimants(broker.namespace, broker.name, place)
                for resource in claimants:
                    self.queue.add(resource.id)
                if not claimants:
                    self._sweep_of(broker.namespace, broker.name)
            if part == "managed":
                # The resource that wants a place need not be the one its marker names: that may have been made anew.
                self.queue.add(Id(SWEEP, broker.namespace, broker.name), CALM_S)

    def _dependents(self, broker: Id) -> list[Id]:
        return [
            id
            for id, resource in self.cache.resources.items()
            if id.kind != BROKER and id.namespace == broker.namespace and resource.broker == broker.name
        ]

    # ── what is done ─────────────────────────────────────────────────────────────────────────────

    async def _work(self, id: Id) -> float | None:
        if id.kind == SWEEP:
            await self.etcd_reconciler.sweep(Id(BROKER, id.namespace, id.name))
            return None
        if id.kind == BUNDLE:
            there = [found for one in self._bundled if (found := one.get(Id("ConfigMap", id.namespace, id.name)))]
            for found in there:
                await self.bundles.reconcile(found)
            if not there:
                self.bundles.forget(id.namespace, id.name)
            return None
        if id.kind == COSTS:
            broker = id._replace(kind=BROKER)
            cluster = self.cache.clusters.get(broker)
            return await self.costs.reconcile(broker, cluster.connections) if cluster is not None else None
        if id.kind == MADE:
            return await self.made.ensure() if self.made is not None else None
        if id.kind == ZONE:
            return await self.zones.tell(id)
        if id.kind == LOST:
            await self._tell_lost(id._replace(kind=BROKER))
            return None
        assert self.workloads is not None
        resource = self.cache.resources.get(id)
        if resource is None or resource.leaving:
            # Objects go by their owner references, keys by the sweep.
            if id.kind == BROKER:
                await self.connections.release(id)
            if id.kind in (BROKER, ACCEPTOR):
                self.workloads.gone(id)
            self.etcd_reconciler.gone(id)
            if self.backups is not None:
                self.backups.gone(id)
            return None
        named = self.cache.broker_of(resource) if id.kind != BROKER else None
        if self.bundles.outdated(resource) or (named is not None and self.bundles.outdated(named)):
            return OUTDATED_S
        if id.kind == BROKER:
            before = self.ownership.owned(id)
            if not await self.ownership.claim(resource):
                await self.connections.drop(id)
                return LOOK_S
            if not before:
                resource = self.cache.resources.get(id, resource)
                for other in self._dependents(id):
                    self.queue.add(other)
            if (rival := self.cache.rival(resource)) is not None:
                await self.connections.refuse(id, f"its etcd.prefix is that of {rival}")
            else:
                await self.connections.ensure(resource, resource.spec(BrokerSpec))
        elif self.ownership.others(resource):
            return None  # what becomes of its StompBroker has it looked at again
        assert self.backups is not None and self.restores is not None
        work = {
            BROKER: self.workloads.broker,
            ACCEPTOR: self.workloads.acceptor,
            ADDRESS: self.etcd_reconciler.address,
            USER: self.etcd_reconciler.user,
            BACKUP: self.backups.reconcile,
            RESTORE: self.restores.reconcile,
        }[id.kind]
        return await work(resource)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _tell_lost(self, id: Id) -> None:
        cluster, broker = self.cache.clusters.get(id), self.cache.resources.get(id)
        for owner in cluster.take_lost() if cluster is not None else ():
            why = f"{owner} is gone without having handed over; other owners take over what it led"
            log.warning("%s: %s", id, why)
            if broker is not None:
                await self.events.tell(broker.raw, Told(WARNING, "OwnerLost", why), owner)

    async def _kinds(self) -> list[str]:
        """Those that this cluster has: where an administrator installs the kinds, newer ones may be missing."""
        found = []
        for kind in names.PLURALS:
            if kind in names.LATER and not await self.kube.serves(names.API_VERSION, kind):
                log.warning("this cluster has no %s: apply deploy/crds (or the chart with crds.install)", kind)
                continue
            found.append(kind)
        return found

    async def _apply_bundles(self) -> None:
        """What an upgrade of the release says anew is there before a pod is replaced for the new operator's sake: once
        for both, then. What fails is tried again: each is in the queue since it was read."""
        for bundled in self._bundled:
            for bundle in list(bundled.values()):
                try:
                    await self.bundles.reconcile(bundle)
                except BrokerError as error:
                    log.info("ConfigMap %s is taken later: %s", bundle["metadata"]["name"], error)

    async def _begin(self, informer: Informer) -> None:
        self._informers.append(informer)
        await informer.start()

    def _look_at_all(self) -> None:
        for id in list(self.cache.resources):
            self.queue.add(id)
        for id in list(self.cache.clusters):
            self._sweep_of(id.namespace, id.name)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_S)
            self._look_at_all()

    async def _hand_back(self) -> None:
        """Lists and bursts leave free memory behind; nobody needs it until the next one."""
        seen = -1
        while True:
            await asyncio.sleep(TIDY_S)
            done = sum(self.queue.done.values())
            if done != seen and not self.queue.depth:
                seen = done
                hand_back()


async def versions(kube: Kube) -> Versions:
    """What this cluster serves of what we make. Raises KubeError."""
    served = await kube.served()

    def newest(group: str, wanted: Iterable[str]) -> str:
        return next((f"{group}/{one}" for one in wanted if one in served.get(group, ())), "")

    async def routes(kind: str) -> str:
        group = "gateway.networking.k8s.io"
        for version in ("v1", "v1alpha3", "v1alpha2"):
            if version in served.get(group, ()) and await kube.serves(f"{group}/{version}", kind):
                return f"{group}/{version}"
        return ""

    return Versions(
        newest("policy", ("v1", "v1beta1")),
        newest("autoscaling", ("v2", "v2beta2")),
        await routes("TCPRoute"),
        await routes("TLSRoute"),
        # Of 1.29, since the server's own number may be anybody's (a provider's); the field came with 1.27, and a server
        # that leaves it out would be asked for it for ever.
        "v1" in served.get("flowcontrol.apiserver.k8s.io", ()),
    )


def managed(api: Versions) -> list[tuple[str, str]]:
    """(API version, kind) of what we make."""
    found = [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("v1", "Service"),
        ("v1", "ConfigMap"),
        ("v1", "ServiceAccount"),
        (api.policy, "PodDisruptionBudget"),
        (api.autoscaling, "HorizontalPodAutoscaler"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("batch/v1", "Job"),
        (api.tcp_routes, "TCPRoute"),
        (api.tls_routes, "TLSRoute"),
    ]
    return [(version, kind) for version, kind in found if version]


def _secrets_of(resource: Resource) -> set[str]:
    """Names of the Secrets that a resource is about."""
    spec = resource.raw.get("spec", {})
    if resource.id.kind == BROKER:
        etcd = spec.get("etcd", {})
        logins = [etcd, etcd.get("owners") or {}, etcd.get("edges") or {}]
        found = {login.get(name, "") for login in logins for name in ("tlsSecretName", "userSecretName")}
        found |= {etcd.get("rootSecretName", ""), spec.get("bridgesSecretName", "")}
        tls = spec.get("tls") or {}
        found |= {tls.get("secretName") or names.components_secret(resource.id.name)}
        found |= {tls.get(name, "") for name in ("ownersSecretName", "edgesSecretName")}
        return found | {(spec.get("scrapers") or {}).get("tokenSecretName", "")}
    if resource.id.kind == USER:
        return {(spec.get("passwordSecretRef") or {}).get("name", names.user_secret(resource.id.name))}
    if resource.id.kind == BACKUP:
        return {((spec.get("store") or {}).get("bucket") or {}).get("secretName", "")}
    if resource.id.kind == ACCEPTOR:
        served = [*spec.get("listeners", []), {"tls": spec.get("adminTls")}]
        return {(one.get("tls") or {}).get("secretName", "") for one in served}
    return set()
