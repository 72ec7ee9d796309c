"""What the operator knows: custom resources, who claims which key, the clusters of the brokers.

Rule: caches and indexes only; nothing is written from here. A key is claimed by its place below `config/`, so that
claims are known before any etcd is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from broker.cluster.keys import Keys
from broker.core.errors import BrokerError

from ..spec.model import BrokerSpec, Resource, Table, UserSpec, version_of
from ..spec.names import ACCEPTOR, ADDRESS, BROKER, RESTORE, USER, Id, etcd_prefix
from .cluster import Cluster
from .divert_loops import Circles
from .entries import of_address

_PLACES = Keys("")
Claim = tuple[str, str, str]
"""(namespace, broker, place of the key below `config/`)."""


class ResourceCache:
    """again(id): what shares a claim with a resource that has come, changed or gone, or waits for it. Told here, and
    not by the informers: what we write ourselves is known here before its event, which then is no news."""

    def __init__(self, again: Callable[[Id], None]) -> None:
        self._again = again
        self.resources: dict[Id, Resource] = {}
        self.clusters: dict[Id, Cluster] = {}
        """By the id of the StompBroker."""
        self.unusable: dict[Id, str] = {}
        """The same → why its etcd cannot even be asked."""
        self.metrics_tokens: dict[Id, str] = {}
        """The same → what its owners are shown by scrapers (spec.scrapers.tokenSecretName)."""
        self.circles = Circles()
        self._claims: dict[Id, frozenset[Claim]] = {}
        self._claimants: dict[Claim, set[Id]] = {}

    def put(self, raw: Table) -> Resource | None:
        """Takes a resource, see slim(). None: we have a newer one, maybe another of that name, or this very one."""
        resource = Resource(raw)
        known = self.resources.get(resource.id)
        if known is not None and version_of(known.raw) >= version_of(raw):
            return None
        self.resources[resource.id] = resource
        self.circles.put(resource)
        self._claim(resource.id, frozenset() if resource.leaving else claims_of(resource))
        self._let_go(resource)
        return resource

    def drop(self, id: Id) -> None:
        gone = self.resources.pop(id, None)
        if gone is not None:
            self._let_go(gone)
        self.circles.drop(id)
        self._claim(id, frozenset())

    def _let_go(self, restore: Resource) -> None:
        """Whom a StompRestore holds up (restoring()) looks at it again: a step further, at its end, or without it."""
        if restore.id.kind == RESTORE:
            broker = Id(BROKER, restore.id.namespace, restore.broker)
            for id, other in self.resources.items():
                acceptor = id.kind == ACCEPTOR and id.namespace == broker.namespace and other.broker == broker.name
                if acceptor or id == broker:
                    self._again(id)

    def _claim(self, id: Id, claims: frozenset[Claim]) -> None:
        before = self._claims.get(id, frozenset())
        for claim in before - claims:
            self._claimants[claim].discard(id)
        for claim in claims - before:
            self._claimants.setdefault(claim, set()).add(id)
        for claim in before ^ claims:
            for other in self._claimants[claim]:
                if other != id:
                    self._again(other)
            if not self._claimants[claim]:
                del self._claimants[claim]
        if claims:
            self._claims[id] = claims
        else:
            self._claims.pop(id, None)

    def claims(self, id: Id) -> frozenset[Claim]:
        """What a resource wants to be the only one for."""
        return self._claims.get(id, frozenset())

    def claimants(self, namespace: str, broker: str, place: str) -> list[Resource]:
        return [self.resources[id] for id in self._claimants.get((namespace, broker, place), ())]

    def living(self, broker: Id) -> set[str]:
        """uids of the resources that belong to a broker and are not being deleted, and its own: it has quotas."""
        own = self.resources.get(broker)
        found = {one.uid for one in self.of_broker(broker)}
        return found if own is None or own.leaving else found | {own.uid}

    def of_broker(self, broker: Id) -> Iterable[Resource]:
        for id, resource in self.resources.items():
            ours = id.namespace == broker.namespace and id.kind in (ADDRESS, USER) and resource.broker == broker.name
            if ours and not resource.leaving:
                yield resource

    def rival(self, broker: Resource) -> Id | None:
        """An older StompBroker with this prefix in the same etcd, or with one around or inside it: two of them would be
        one cluster, and each would take the other's users and addresses away."""
        place, born = _place(broker), _age(broker)
        for id, other in self.resources.items():
            if id.kind == BROKER and id != broker.id and not other.leaving and _age(other) < born:
                endpoints, prefix = _place(other)
                if _within(prefix, place[1]) and endpoints & place[0]:
                    return id
        return None

    def claimed_by_another(self, broker: Resource) -> str:
        """Why its prefix is another's, "": it is not, or nobody knows yet."""
        if (rival := self.rival(broker)) is not None:
            return f"{rival} is older and has the same etcd and prefix; give this one a spec.etcd.prefix of its own"
        cluster = self.clusters.get(broker.id)
        return cluster.possession.why if cluster is not None else ""

    def unsure(self, broker: Resource) -> bool:
        """Pods that join now could join another's cluster: its etcd is not of this namespace alone, and has not said
        whose the prefix is."""
        cluster = self.clusters.get(broker.id)
        return not (cluster is not None and cluster.possession.held) and not own_etcd(broker)

    def restoring(self, broker: Resource) -> str:
        """Why its owners do not start yet, "": nothing holds them up. Once restored, for ever."""
        asks = broker.spec(BrokerSpec).restore_from
        if asks is None or _is(broker, "Restored"):
            return ""
        found = self.resources.get(Id(RESTORE, broker.id.namespace, asks.name))
        if found is None or found.leaving:
            return f"there is no StompRestore {asks.name} (spec.restoreFrom); make it"
        if _is(found, "Complete"):
            return ""
        said = [one for one in found.status.get("conditions", []) if one["type"] == "Complete"]
        return (
            f"StompRestore {asks.name}: {said[0]['reason']} {said[0]['message']}".rstrip() if said else "not begun yet"
        )

    def broker_of(self, resource: Resource) -> Resource | None:
        found = self.resources.get(Id(BROKER, resource.id.namespace, resource.broker))
        return found if found is not None and not found.leaving else None


def _place(broker: Resource) -> tuple[frozenset[str], str]:
    """Where its keys are: (endpoints of etcd, prefix)."""
    etcd = broker.spec(BrokerSpec).etcd
    prefix = etcd.prefix or etcd_prefix(broker.id.namespace, broker.id.name)
    return frozenset(etcd.endpoints), prefix.rstrip("/")


def _within(one: str, other: str) -> bool:
    """They are the same prefix, or one is inside the other: its keys would be entries there."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def own_etcd(broker: Resource) -> bool:
    """An etcd in its namespace, and the prefix that is nobody else's there."""
    etcd, namespace = broker.spec(BrokerSpec).etcd, broker.id.namespace
    hosts = [one.removeprefix("https://").removeprefix("http://").rpartition(":")[0] for one in etcd.endpoints]
    ours = (f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    return not etcd.prefix and all("." not in host or host.endswith(ours) for host in hosts)


def _is(resource: Resource, type: str) -> bool:
    return any(one["type"] == type and one["status"] == "True" for one in resource.status.get("conditions", []))


def _age(resource: Resource) -> tuple[str, str]:
    return str(resource.raw["metadata"].get("creationTimestamp", "")), resource.uid


_UNREAD = ("managedFields", "selfLink")
_NOT_INTERNED = 40
"""Longer texts are seldom the same in two resources."""


def slim(raw: Table) -> Table:
    """The resource without what nobody here reads, texts that many share held once: there may be thousands."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in _UNREAD}
    if meta.get("annotations"):
        last = "kubectl.kubernetes.io/last-applied-configuration"
        meta["annotations"] = {key: value for key, value in meta["annotations"].items() if key != last}
    found: Table = _shared({**raw, "metadata": meta})
    return found


def _shared(value: Any) -> Any:
    if isinstance(value, dict):
        return {sys.intern(key): _shared(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shared(one) for one in value]
    return sys.intern(value) if isinstance(value, str) and len(value) <= _NOT_INTERNED else value


def claims_of(resource: Resource) -> frozenset[Claim]:
    """What a resource wants to be the only one for. Nothing, if it makes no sense."""
    keys: Iterable[str] = ()
    with suppress(BrokerError, msgspec.ValidationError):
        if resource.id.kind == ADDRESS:
            keys = of_address(resource, _PLACES)
        elif resource.id.kind == USER:
            keys = [_PLACES.user(resource.spec(UserSpec).username or resource.id.name)]
    return frozenset((resource.id.namespace, resource.broker, place_of(_PLACES, key)) for key in keys)


def place_of(keys: Keys, key: str) -> str:
    """A key of `config` without what is above it."""
    return key.removeprefix(keys.config)
