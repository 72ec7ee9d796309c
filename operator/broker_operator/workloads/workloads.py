"""Reconciles StompBroker and StompAcceptor: objects, cordons, and what the status says of them.

Rule: owners.py and edges.py decide, this performs. Nothing is taken away while the state of the cluster is unknown. One
that makes no sense keeps the objects it has.
"""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import Mapping

from broker.cluster.planning.view import Policy
from broker.core.certificates import first_certificate, not_after
from broker.core.errors import BrokerError, ConfigError
from broker.metadata.port import Delete, Put
from broker.seams.clock import Clock

from ..kube.applying import Applier, Taken
from ..kube.events import NORMAL, Events, Told
from ..kube.kube import Kube, KubeError
from ..spec import bridges, names
from ..spec.conditions import REFUSED_AGAIN_S, Condition, new_status, paused, ready, rfc3339, seconds_of
from ..spec.model import AcceptorSpec, BrokerSpec, Resource, Table
from ..spec.names import Id
from ..world import counts, entries, templates
from ..world.cluster import Cluster
from ..world.counts import Counts
from ..world.resource_cache import ResourceCache
from ..world.statuses import Statuses
from . import edges, owners, rolling, waiting
from .disks import Disks, outgrown
from .owners import Scaling, Versions
from .rebalancing import Rebalancing
from .rolling import Roll

log = logging.getLogger("stampede.operator")

EXPIRES_SOON_S = 7 * 86400
ROLLING = "RollingOut"
_SHARED_TLS = "spec.tls.secretName"
PARTS_EXPIRE_SOON_S = 30 * 86400
"""Of the certificates between owners, edges and etcd: when they end, nobody in the cluster speaks with anybody."""
LOOK_AGAIN_S = 6 * 3600
"""Certificates end without an event."""


class Unmade(BrokerError):
    """Objects could not be made, which the status says; to be tried again."""


class Workloads:
    """objects: kind → the live objects, as informers have them.

    expiries: resource → when the first of its certificates ends, seconds since the epoch."""

    def __init__(
        self,
        world: ResourceCache,
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
        self._world = world
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
        self.expiries: dict[Id, float] = {}

    def gone(self, id: Id) -> None:
        """A StompAcceptor or StompBroker is not there any more."""
        self._counts.forget(id)
        self._rebalancing.forget(id)
        self.expiries.pop(id, None)

    async def broker(self, resource: Resource) -> float | None:
        now = self._now()
        spec = resource.spec(BrokerSpec)
        cluster = self._world.clusters.get(resource.id)
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        if why := self._world.taken(resource):
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
        restoring = self._world.restoring(resource)
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
        if live is None and self._world.unsure(resource):
            await self._say_broker(resource, spec, cluster, Scaling(0), accepted, image)
            return REFUSED_AGAIN_S
        placed, rolled = None, None
        try:
            if cluster is not None:
                await _cordon(cluster, step)
                await _keep_entries(resource, cluster)
            if live is not None and rolling.under_way(live):
                rolled = await self._rolled(resource, spec, cluster, live)
            partition = rolled.partition if rolled is not None else None
            made = owners.objects(resource, spec, image, step.replicas, live, self._api, partition)
            await self._make(resource, made)
            keeping = holding if cluster is not None and cluster.whole else None
            placed = await self._disks.settle(resource, spec, live, step, keeping)
            if live is not None and outgrown(spec, live, step):
                await self._applier.leave(live)
        except (Taken, ConfigError, KubeError) as error:
            accepted = _refusal(error)
        rebalance, planned, again = await self._rebalancing.settle(resource, spec, cluster)
        more = (_rolling(rolled), *(one for one in (rebalance, placed) if one is not None))
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
        selector = _selector(names.selector(resource.id.name, "owner"))
        pods = (await self._kube.read_list("v1", "Pod", resource.id.namespace, selector))["items"]
        reachable, settled = _seen(cluster, self._world.unusable.get(resource.id, "not connected yet"))
        if cluster is not None and cluster.known:
            settled = _replicated(cluster.slots(Policy(spec.replication.factor, spec.replication.min_in_sync)))
        unsettled = "" if settled.status or settled.reason == "NoSlots" else settled.message or reachable.message
        now = self._now()
        return rolling.step(resource.id.name, live, pods, unsettled, _since(resource, ROLLING, now), now)

    async def acceptor(self, resource: Resource) -> float | None:
        now = self._now()
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec = resource.spec(AcceptorSpec)
        broker = self._world.broker_of(resource)
        if broker is None:
            why = f"there is no StompBroker {resource.broker}"
            await self._say_acceptor(resource, spec, Condition("Accepted", False, "BrokerNotFound", why))
            return None
        if why := self._world.taken(broker):
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
        if not live and (self._world.unsure(broker) or self._world.restoring(broker)):
            await self._say_acceptor(resource, spec, accepted)
            return REFUSED_AGAIN_S
        try:
            made = edges.objects(resource, spec, broker.id.name, shared, image, self._api)
            await self._make(resource, made)
        except (Taken, ConfigError, KubeError) as error:
            accepted = _refusal(error)
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
                "selector": _selector(names.selector(resource.id.name, "owner")),
                "holding": step.holding,
            },
            "image": image or None,
            "rebalance": planned,
        }
        reachable, replicated = _seen(cluster, self._world.unusable.get(resource.id, "not connected yet"))
        if cluster is not None and cluster.known:
            policy = Policy(spec.replication.factor, spec.replication.min_in_sync)
            slots = cluster.slots(policy)
            edge_ids = [one for one in cluster.members.values() if one.kind == "edge"]
            fields |= {"slots": slots, "edges": len(edge_ids)}
            replicated = _replicated(slots)
        elif cluster is not None and not cluster.asked and accepted.status and resource.status.get("conditions"):
            return None  # an operator that has just started knows nothing yet: what the last one has seen stands
        all_up = Condition("OwnersReady", up >= wanted, "Ready" if up >= wanted else "Waiting", f"{up} of {wanted}")
        held = self._world.restoring(resource)
        if held and not there:
            all_up = Condition("OwnersReady", False, "Restoring", held)
        elif not all_up.status and live and (missing := await self._missing(resource, spec)):
            all_up = Condition("OwnersReady", False, "SecretMissing", f"{up} of {wanted}; {missing}")
        elif not all_up.status and live and (waits := await self._waits(resource, resource.id.name, "owner")):
            all_up = Condition("OwnersReady", False, waits.reason, f"{up} of {wanted}; {waits.message}")
        scaling = Condition("ScalingDown", bool(step.reason), step.reason or "Idle", _progress(step))
        # They say nothing of Ready before they end: who is told thirty days ahead has nothing broken.
        certificates, ends = await self._parts_certificates(resource, spec)
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
        return None if all_up.status or held or not live else waiting.LOOK_AGAIN_S

    async def _bridges(self, resource: Resource, spec: BrokerSpec, cluster: Cluster | None) -> Condition:
        name, lacking = spec.bridges_secret_name, None
        secret = await self._kube.get("v1", "Secret", resource.id.namespace, name) if name else None
        if cluster is not None and cluster.known:
            lacking = entries.bridges_lacking(resource, cluster.keys, cluster.config)
        return bridges.condition(spec, secret, lacking)

    async def _parts_certificates(self, resource: Resource, spec: BrokerSpec) -> tuple[Condition, float | None]:
        """Of owners and edges among themselves, and towards etcd."""
        tls, etcd = spec.tls, spec.etcd
        shared = tls.secret_name or names.components_secret(resource.id.name)
        named = {
            tls.owners_secret_name or shared: "spec.tls.ownersSecretName" if tls.owners_secret_name else _SHARED_TLS,
            tls.edges_secret_name or shared: "spec.tls.edgesSecretName" if tls.edges_secret_name else _SHARED_TLS,
        }
        clients = {
            "spec.etcd": etcd.tls_secret_name, "spec.etcd.owners": etcd.owners.tls_secret_name,
            "spec.etcd.edges": etcd.edges.tls_secret_name,
        }  # fmt: skip
        for where, name in clients.items():
            if not name or name in named:
                continue
            secret = await self._kube.get("v1", "Secret", resource.id.namespace, name)
            if "tls.crt" in ((secret or {}).get("data") or {}):  # else clients of etcd need none
                named[name] = f"{where}.tlsSecretName"
        return await self._certificates(resource, list(named.items()), PARTS_EXPIRE_SOON_S)

    async def _missing(self, resource: Resource, spec: BrokerSpec) -> str:
        """Why the pods cannot start: a Secret that they mount is not there; "" = all are."""
        etcd = spec.etcd
        named = {
            _SHARED_TLS: spec.tls.secret_name or names.components_secret(resource.id.name),
            "spec.tls.ownersSecretName": spec.tls.owners_secret_name,
            "spec.tls.edgesSecretName": spec.tls.edges_secret_name,
            "spec.etcd.tlsSecretName": etcd.tls_secret_name,
            "spec.etcd.userSecretName": etcd.user_secret_name,
            "spec.etcd.rootSecretName": etcd.root_secret_name,
            "spec.etcd.owners.tlsSecretName": etcd.owners.tls_secret_name,
            "spec.etcd.owners.userSecretName": etcd.owners.user_secret_name,
            "spec.etcd.edges.tlsSecretName": etcd.edges.tls_secret_name,
            "spec.etcd.edges.userSecretName": etcd.edges.user_secret_name,
            "spec.scrapers.tokenSecretName": spec.scrapers.token_secret_name,
            "spec.redis.passwordSecretName": spec.redis.password_secret_name if spec.redis else "",
        }
        for where, name in named.items():
            if name and await self._kube.get("v1", "Secret", resource.id.namespace, name) is None:
                return f"there is no Secret {name} ({where}); create it, or correct the name"
        return ""

    async def _waits(self, resource: Resource, broker: str, component: str) -> waiting.Waits | None:
        """Why its pods do not run; None: they do, or nobody knows."""
        pool = resource.id.name if component == "edge" else ""
        try:
            return await waiting.why(self._kube, resource.id.namespace, names.selector(broker, component, pool))
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
        addresses = _addresses(service, spec)
        certificates, ends = await self._listeners_certificates(resource, spec)
        available = Condition("Available", up > 0 or wanted == 0, "Available" if up else "Waiting", f"{up} of {wanted}")
        if not available.status and (waits := await self._waits(resource, resource.broker, "edge")):
            available = Condition("Available", False, waits.reason, f"{up} of {wanted}; {waits.message}")
        balanced = _balanced(service, spec)
        fields: Table = {
            "listeners": ",".join(f"{one['name']}:{one['port']}" for one in spec.listeners),
            "addresses": addresses,
            "replicas": there,
            "readyReplicas": up,
            "selector": _selector(names.selector(resource.broker, "edge", id.name)),
            "certificatesNotAfter": rfc3339(ends) if ends is not None else None,
        }
        counted, again = self._counts.due(id, resource.status, self._counted(resource), self._clock.monotonic())
        fields |= counted
        found = (accepted, available, balanced, certificates, ready(accepted, certificates, available, balanced))
        await self._statuses.write(resource, new_status(resource, found, fields, now))
        pods = None if available.status else waiting.LOOK_AGAIN_S
        times = (LOOK_AGAIN_S if ends is not None else None, again, pods)
        return min((one for one in times if one is not None), default=None)

    def _counted(self, resource: Resource) -> Table:
        """{}: nobody knows."""
        broker = self._world.broker_of(resource)
        cluster = self._world.clusters.get(broker.id) if broker is not None else None
        if cluster is None or not cluster.known:
            return {}
        return counts.fields(counts.of_pool(resource.id.name, cluster.connections))

    async def _listeners_certificates(self, resource: Resource, spec: AcceptorSpec) -> tuple[Condition, float | None]:
        named = [
            (tls.secret_name, f"listener {listener['name']}")
            for listener in spec.listeners
            if (tls := edges.tls_of(listener)) is not None
        ]
        if spec.admin_tls is not None:
            named.append((spec.admin_tls.secret_name, "adminTls"))
        return await self._certificates(resource, named, EXPIRES_SOON_S)

    async def _certificates(
        self, resource: Resource, named: list[tuple[str, str]], soon_s: float
    ) -> tuple[Condition, float | None]:
        """Whether those in the Secrets are there and last, and when the first one ends. named: (Secret, for what)."""
        ends: list[tuple[float, str]] = []
        for name, wanted_by in named:
            secret = await self._kube.get("v1", "Secret", resource.id.namespace, name)
            data = (secret or {}).get("data") or {}
            if not data.get("tls.crt") or not data.get("tls.key"):
                why = f"there is no Secret {name} with tls.crt and tls.key ({wanted_by})"
                return Condition("CertificatesValid", False, "Missing", why), None
            try:
                end = not_after(first_certificate(b64decode(data["tls.crt"]).decode(errors="replace")))
            except ValueError:
                why = f"tls.crt of Secret {name} is not a PEM certificate"
                return Condition("CertificatesValid", False, "Unreadable", why), None
            ends.append((end, name))
        if not ends:
            self.expiries.pop(resource.id, None)
            return Condition("CertificatesValid", True, "NoTLS"), None
        first, name = min(ends)
        self.expiries[resource.id] = first
        if first > self._now() + soon_s:
            return Condition("CertificatesValid", True, "Valid"), first
        over = first <= self._now()
        reason, verb = ("Expired", "ended") if over else ("ExpiresSoon", "ends")
        return Condition("CertificatesValid", False, reason, f"that of {name} {verb} {rfc3339(first)}; renew it"), first


async def _cordon(cluster: Cluster, step: Scaling) -> None:
    for owner in step.cordon:
        await cluster.commit([(cluster.keys.cordon(owner), 0)], [Put(cluster.keys.cordon(owner), b"")])
    for owner in step.uncordon:
        await cluster.commit([], [Delete(cluster.keys.cordon(owner))])


async def _keep_entries(resource: Resource, cluster: Cluster) -> None:
    """What its quotas and bridges say stands in etcd, where owners and edges follow it. Raises ConfigError for what
    they would not take, Unmade where somebody else wrote at the same moment."""
    if not cluster.known:
        return  # all is looked at again when it is
    wanted = entries.of_quotas(resource, cluster.keys) | entries.of_bridges(resource, cluster.keys)
    had, mark = sorted(cluster.marks.get(resource.uid, ())), entries.marker_of(resource)
    for change in entries.changes(
        cluster.keys, resource.uid, wanted, mark, cluster.config, cluster.managed, had
    ):  # fmt: skip
        if not await cluster.commit(change.compare, change.then, str(resource.id)):
            raise Unmade(f"quotas or bridges of {resource.id} were changed meanwhile")


def _refusal(error: Taken | ConfigError | KubeError) -> Condition:
    """What is wrong with a resource whose objects cannot be made. Raises `error` if trying again may help."""
    if isinstance(error, Taken):
        return Condition("Accepted", False, "NameTaken", str(error))
    if isinstance(error, ConfigError):
        return Condition("Accepted", False, "Invalid", str(error))
    if error.failed:
        why = f"the API server failed (HTTP 500), it is tried again: {error}"
        return Condition("Accepted", None, "ServerFailed", why)
    if not error.refused:
        raise error
    return Condition("Accepted", False, "Refused", str(error))


def _seen(cluster: Cluster | None, otherwise: str) -> tuple[Condition, Condition]:
    """EtcdReachable, and FullyReplicated while nothing else is known of it. otherwise: why there is no cluster."""
    if cluster is not None and cluster.known:
        return Condition("EtcdReachable", True, "Reachable"), Condition("FullyReplicated", None, "Unknown")
    why = cluster.why if cluster is not None else otherwise
    unknown = Condition("FullyReplicated", None, "EtcdUnreachable", "what is not known cannot be said")
    return Condition("EtcdReachable", False, "Unreachable", why), unknown


def _replicated(slots: Mapping[str, int]) -> Condition:
    if not slots["total"]:
        return Condition("FullyReplicated", False, "NoSlots", "no owner has begun the cluster yet")
    for word, reason in (("offline", "Offline"), ("stalled", "Stalled"), ("underReplicated", "UnderReplicated")):
        if slots[word]:
            return Condition("FullyReplicated", False, reason, f"{slots[word]} of {slots['total']} slots")
    return Condition("FullyReplicated", True, "InSync")


def _rolling(rolled: Roll | None) -> Condition:
    if rolled is None:
        return Condition(ROLLING, False, "Idle")
    if rolled.waits:
        return Condition(ROLLING, True, "Waiting", rolled.waits)
    return Condition(ROLLING, True, "Replacing", f"owners from ordinal {rolled.partition} on get the new template")


def _since(resource: Resource, type: str, now: float) -> float:
    """Since when the condition is True; now: it is not."""
    stands = (one for one in resource.status.get("conditions", []) if one["type"] == type and one["status"] == "True")
    found = next(stands, None)
    return (seconds_of(found["lastTransitionTime"]) or now) if found is not None else now


def _progress(step: Scaling) -> str:
    if not step.reason:
        return ""
    if step.reason == "Unreachable":
        return "the state of the cluster is not known, so nobody is removed"
    return f"{step.holding} copies of slots have to move before owners are removed" if step.holding else "empty"


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _addresses(service: Table, spec: AcceptorSpec) -> list[str]:
    """Where clients connect: of the load balancer, else within the cluster."""
    balancer = service.get("status", {}).get("loadBalancer", {}).get("ingress") or []
    hosts = [one.get("hostname") or one.get("ip") for one in balancer]
    meta = service.get("metadata", {})
    if not hosts and meta:
        hosts = [f"{meta['name']}.{meta['namespace']}.svc"]
    ports = [one.get("servicePort", one["port"]) for one in spec.listeners]
    return [f"{host}:{port}" for host in hosts if host for port in ports]


def _balanced(service: Table, spec: AcceptorSpec) -> Condition:
    if spec.service.type != "LoadBalancer":
        return Condition("LoadBalancerReady", True, "NotWanted")
    if service.get("status", {}).get("loadBalancer", {}).get("ingress"):
        return Condition("LoadBalancerReady", True, "Ready")
    return Condition("LoadBalancerReady", False, "Pending", "the load balancer has no address yet")
