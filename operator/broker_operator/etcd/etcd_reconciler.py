"""Reconciles Address and StompUser: keys in etcd, and what the status says of them.

Rule: entries.py and passcodes.py decide, this performs. While etcd cannot be asked, what a status says stays: a
thousand resources must not be written because one etcd restarts.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker.cluster.keys import last_part
from broker.core.errors import BrokerError
from broker.metadata.port import KeyValue
from broker.seams.clock import Clock

from ..kube.events import NORMAL, Events, Told
from ..kube.kube import Kube, KubeError
from ..spec import names
from ..spec.conditions import REFUSED_AGAIN_S, Condition, new_status, paused, ready, rfc3339, stands
from ..spec.model import AddressOwner, AddressSpec, BrokerSpec, Resource, SecretKey, Table, UserSpec, json_table
from ..spec.names import ADDRESS, BROKER, Id
from ..world import entries
from ..world.address_traffic import Traffic
from ..world.cluster import Cluster
from ..world.resource_cache import ResourceCache, place_of
from ..world.statuses import Statuses
from . import address_owners, passcodes
from .unapplied import Unapplied

log = logging.getLogger("stampede.operator")

SETTLE_S = 0.5
"""A status is not written to say `Pending` if it will say `Applied` a moment later."""
ROTATION = f"{names.GROUP}/rotation"
"""Annotation of a generated Secret: the spec.generate.rotation it was made for."""


class Raced(BrokerError):
    """Another writer changed a key meanwhile; to be tried again."""


class EtcdReconciler:
    """`pending`: by the id of a broker, resources that wait for members to apply their revision."""

    def __init__(
        self, cache: ResourceCache, kube: Kube, statuses: Statuses, events: Events, clock: Clock,
        traffic: Traffic | None = None,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._kube = kube
        self._statuses = statuses
        self._events = events
        self._clock = clock
        self._traffic = traffic or Traffic()
        self.pending: dict[Id, Unapplied] = {}
        self._settling: dict[Id, int] = {}
        self.drifts = 0

    async def address(self, resource: Resource) -> float | None:
        """Seconds until it is to be looked at again, None = when something happens."""
        now = self._now()
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec = resource.spec(AddressSpec)
        fields: Table = {"address": spec.name or spec.match, "queues": len(spec.queues)}
        fields |= self._traffic.fields(resource.id, resource.status)
        cluster = self._cache.clusters.get(Id(BROKER, resource.id.namespace, resource.broker))
        if circle := self._cache.circles.through(resource, self._heard(resource, cluster)):
            why = f"its diverts lead back to it: {' → '.join(circle)}; each message would be there many times"
            await self._say(resource, Condition("Accepted", False, "DivertCircle", why), fields)
            return REFUSED_AGAIN_S
        refusal = self._refusal(resource, cluster)
        if refusal is None and cluster is not None:
            refusal = self._not_owner(resource, spec, cluster)
        if refusal is not None:
            return await self._say(resource, refusal, fields)
        assert cluster is not None
        try:
            wanted = entries.of_address(resource, cluster.keys)
        except BrokerError as error:
            return await self._say(resource, Condition("Accepted", False, "Invalid", str(error)), fields)
        if (refusal := self._closing(resource, wanted, cluster)) is not None:
            await self._say(resource, refusal, fields)
            return REFUSED_AGAIN_S
        first = next(iter(wanted))
        mark = entries.read_marker(cluster.managed.get(cluster.keys.marker(first)))
        adopted = bool(mark.get("adopted")) if mark else first in cluster.config
        flags = {"adopted": True} if adopted else {}
        if spec.deletion_policy == "Retain":
            flags["retain"] = True
        settled = stands(resource, "Programmed") and set(cluster.marks.get(resource.uid, ())) == set(wanted)
        foreign = entries.foreign(cluster.keys, wanted, cluster.config) if settled else ()
        await self._write(resource, cluster, wanted, entries.marker_of(resource, **flags), foreign)
        return await self._finish(resource, cluster, wanted, fields | ({"adopted": True} if adopted else {}))

    async def user(self, resource: Resource) -> float | None:
        now = self._now()
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec = resource.spec(UserSpec)
        username = spec.username or resource.id.name
        source = spec.password_secret_ref or SecretKey(name=names.user_secret(resource.id.name))
        fields: Table = {"username": username, "secretName": source.name}
        cluster = self._cache.clusters.get(Id(BROKER, resource.id.namespace, resource.broker))
        refusal = self._refusal(resource, cluster)
        if refusal is not None:
            return await self._say(resource, refusal, fields)
        assert cluster is not None
        key = cluster.keys.user(username)
        if spec.suspended:
            # Whatever set it: a resource of our name that was deleted may have left it a moment ago, or a user has.
            others = [key] if key in cluster.config else []
            drift = [f"the passcode of {username}"] if others and stands(resource, "Programmed") else []
            await self._write(resource, cluster, {}, b"", drift, others)
            accepted = Condition(
                "Accepted", True, "Suspended", "spec.suspended is true: nobody can log in as this user"
            )
            return await self._say(resource, accepted, fields, Condition("Programmed", True, "Suspended"))
        try:
            passcode, version = await self._passcode(resource, spec, source, username)
        except KubeError as error:
            if not error.refused:
                raise
            await self._say(resource, Condition("Accepted", False, "Refused", str(error)), fields)
            return REFUSED_AGAIN_S
        except BrokerError as error:
            return await self._say(resource, Condition("Accepted", False, "NoPasscode", str(error)), fields)
        item, mark = cluster.config.get(key), cluster.managed.get(cluster.keys.marker(key))
        current, memory = json_table(item.value if item else None), _memory(mark, resource)
        verifier = await asyncio.to_thread(
            passcodes.decide, passcode, version, sorted(spec.groups), spec.rotation_grace_seconds, current, memory, now
        )
        if cluster.config.get(key) != item:
            # Set while the hash was made (40 ms): what is written is decided from what it replaces.
            raise Raced(f"the passcode of {username} was changed meanwhile")
        wanted = {key: entries.encoded(verifier.value)}
        # What stands in such a key is told to nobody.
        foreign = [f"the passcode of {username}"] if passcodes.foreign(current, memory) else ()
        await self._write(resource, cluster, wanted, entries.marker_of(resource, **verifier.memory), foreign)
        fields |= {"lastRotated": verifier.rotated}
        if verifier.next is not None:
            fields["graceUntil"] = rfc3339(verifier.next)
        delay = await self._finish(resource, cluster, wanted, fields)
        until = max(0.5, verifier.next - now + 0.5) if verifier.next is not None else None
        return min((one for one in (delay, until) if one is not None), default=None)

    def gone(self, id: Id) -> None:
        """Nobody waits any more for members to apply what this resource says; of a StompBroker, what any says to it."""
        self.pending.pop(id, None)
        for waiting in self.pending.values():
            waiting.forget(id)
        self._settling.pop(id, None)

    def caught_up(self, broker: Id) -> list[Id]:
        """Takes out the pending resources that every live member has applied now: they are to be looked at."""
        cluster, waiting = self._cache.clusters.get(broker), self.pending.get(broker)
        if waiting is None or cluster is None or not cluster.members:
            return []
        return waiting.up_to(min(cluster.applied.get(id, 0) for id in cluster.members))

    async def sweep(self, broker: Id) -> None:
        """Gives back the keys of resources that are not there any more."""
        cluster = self._cache.clusters.get(broker)
        if cluster is None or not cluster.known:
            return
        living = self._cache.living(broker)
        for uid in [uid for uid in cluster.marks if uid not in living]:
            for key in sorted(cluster.marks.get(uid, ())):
                log.info("%s: nobody wants it any more", key)
                change = entries.released(cluster.keys, key, cluster.config, cluster.managed)
                if not await cluster.commit(change.compare, change.then):
                    raise Raced(f"{key} was changed meanwhile")

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    def _now(self) -> float:
        return self._clock.wall_ms() / 1000

    def _refusal(self, resource: Resource, cluster: Cluster | None) -> Condition | None:
        """Why nothing can be done for a resource now."""
        broker = self._cache.broker_of(resource)
        if broker is None:
            return Condition("Accepted", False, "BrokerNotFound", f"there is no StompBroker {resource.broker}")
        if cluster is None or not cluster.known:
            # Why, says the StompBroker: a thousand statuses cannot be written each time that changes.
            why = f"etcd of StompBroker {resource.broker} gives no answer; see its condition EtcdReachable"
            return Condition("Accepted", None, "EtcdUnreachable", why)
        owners = broker.spec(BrokerSpec).address_owners

        def claimants(key: str) -> list[Resource]:
            found = self._cache.claimants(resource.id.namespace, resource.broker, key)
            return [one for one in found if one.uid == resource.uid or not self._shut_out(one, key, owners, cluster)]

        places = sorted(place for _, _, place in self._cache.claims(resource.id))
        lost = entries.conflict(resource, places, claimants)
        if lost is None:
            return None
        return Condition(
            "Accepted", False, "Conflict", f"{lost.winner} is older and has {lost.key}; delete one of them"
        )

    def _heard(self, resource: Resource, cluster: Cluster | None) -> Callable[[Id, str], bool]:
        """Does what an Address of the same broker says of an address count: it does if it may have it, or has."""
        broker = self._cache.broker_of(resource)
        if broker is None or cluster is None or not (owners := broker.spec(BrokerSpec).address_owners):
            return lambda id, name: True

        def heard(id: Id, name: str) -> bool:
            place = place_of(cluster.keys, cluster.keys.address(name))
            return not self._shut_out(self._cache.resources[id], place, owners, cluster)

        return heard

    @staticmethod
    def _shut_out(other: Resource, place: str, owners: Sequence[AddressOwner], cluster: Cluster) -> bool:
        """An Address that is not to have the key and does not, however old, keeps nobody out."""
        if other.id.kind != ADDRESS or not address_owners.is_anothers(other.id.name, last_part(place), owners):
            return False
        return cluster.keys.config + place not in cluster.marks.get(other.uid, ())

    def _not_owner(self, resource: Resource, spec: AddressSpec, cluster: Cluster) -> Condition | None:
        """Another resource's address; what becomes of its StompBroker has it looked at again."""
        if why := address_owners.only_a_queue(spec):
            return Condition("Accepted", False, "Invalid", why)
        broker = self._cache.broker_of(resource)
        owners = broker.spec(BrokerSpec).address_owners if broker is not None else []
        why = address_owners.not_owner(resource.id.name, spec, owners)
        if not why:
            return None
        if cluster.marks.get(resource.uid):
            why += "; what it said before that stays in force: delete it to take it back"
        return Condition("Accepted", False, "NotOwner", why)

    def _closing(self, resource: Resource, wanted: Mapping[str, bytes], cluster: Cluster) -> Condition | None:
        """One Address must not close the whole broker: that it is closed, its StompBroker says."""
        if not entries.would_close(wanted, cluster.keys, cluster.config) or stands(resource, "Accepted"):
            return None  # what was taken once is put back when etcd has lost it: never open for want of a word
        broker = self._cache.broker_of(resource)
        if broker is None or broker.spec(BrokerSpec).permissions_required:
            return None
        why = (
            "it would be the first permission, and with one, all that no permission is about is for nobody: set "
            f"spec.permissionsRequired of StompBroker {resource.broker}, if that is meant"
        )
        return Condition("Accepted", False, "PermissionsNotRequired", why)

    async def _write(
        self, resource: Resource, cluster: Cluster, wanted: Mapping[str, bytes], marker: bytes, foreign: Sequence[str],
        others: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """foreign: what another writer had done to the keys. others: keys that must go whatever they belong to."""
        had = {*cluster.marks.get(resource.uid, ()), *others}
        found = entries.changes(
            cluster.keys, resource.uid, wanted, marker, cluster.config, cluster.managed, sorted(had)
        )  # fmt: skip
        if foreign:
            # Before the repair: of a commit whose answer is lost nothing foreign would be found afterwards.
            self.drifts += 1
            what = f"its keys in etcd were changed by somebody else and are repaired: {', '.join(foreign)}"
            log.warning("%s: %s", resource.id, what)
            await self._events.tell(resource.raw, Told(NORMAL, "DriftRepaired", what))
        for change in found:
            if not await cluster.commit(change.compare, change.then, str(resource.id)):
                raise Raced(f"keys of {resource.id} were changed meanwhile")

    async def _finish(
        self, resource: Resource, cluster: Cluster, wanted: Mapping[str, bytes], fields: Mapping[str, Any]
    ) -> float | None:
        revision = entries.revision_of(wanted, cluster.config)
        done = entries.programmed(resource, revision, len(cluster.members), cluster.behind(revision))
        if not done.status:
            broker = Id(BROKER, resource.id.namespace, resource.broker)
            self.pending.setdefault(broker, Unapplied()).wait(resource.id, revision)
            if done.reason == "Pending" and self._settling.get(resource.id) != revision:
                self._settling[resource.id] = revision
                return SETTLE_S
        accepted = Condition("Accepted", True, "Accepted")
        return await self._say(resource, accepted, {**fields, "etcdRevision": revision}, done)

    async def _say(
        self, resource: Resource, accepted: Condition, fields: Mapping[str, Any], done: Condition | None = None
    ) -> float | None:
        if accepted.status is None and resource.status.get("observedGeneration") == resource.generation:
            return None
        done = done or Condition("Programmed", accepted.status, accepted.reason, accepted.message)
        if done.status or not accepted.status:
            self.gone(resource.id)
        status = new_status(resource, (accepted, done, ready(accepted, done)), fields, self._now())
        await self._statuses.write(resource, status)
        return None

    async def _passcode(self, resource: Resource, spec: UserSpec, source: SecretKey, username: str) -> tuple[str, str]:
        """(passcode, version of the Secret it is from). Makes the Secret if it is ours. Raises BrokerError."""
        secret = await self._kube.get("v1", "Secret", resource.id.namespace, source.name)
        if spec.password_secret_ref is None:
            secret = await self._generated(resource, spec, source.name, username, secret)
        if secret is None:
            raise BrokerError(f"there is no Secret {source.name}; create it, or correct spec.passwordSecretRef")
        data = (secret.get("data") or {}).get(source.key)
        try:
            passcode = b64decode(data or "").decode().rstrip("\r\n")
        except ValueError:
            raise BrokerError(f"the key {source.key} of Secret {source.name} is not UTF-8") from None
        if not passcode:
            raise BrokerError(f"the Secret {source.name} has no key {source.key}; put the passcode there")
        meta = secret["metadata"]
        return passcode, f"{meta['uid']}/{meta['resourceVersion']}"

    async def _generated(
        self, resource: Resource, spec: UserSpec, name: str, username: str, secret: Table | None
    ) -> Table:
        rotation, length = (spec.generate.rotation, spec.generate.length) if spec.generate else ("", 32)
        if secret is not None:
            owners = [one["uid"] for one in secret["metadata"].get("ownerReferences", [])]
            if resource.uid not in owners:
                raise BrokerError(f"the Secret {name} is somebody else's; delete it, or name it in passwordSecretRef")
            annotations = secret["metadata"].get("annotations") or {}
            data = secret.get("data") or {}
            if annotations.get(ROTATION, "") == rotation and data.get("password"):
                return secret
        body: Table = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": resource.id.namespace,
                "labels": names.labels(resource.broker, "user"),
                "annotations": {ROTATION: rotation},
                "ownerReferences": [resource.reference()],
            },
            "type": "Opaque",
            "stringData": {"username": username, "password": passcodes.made_up(length)},
        }
        return await self._kube.apply(body)


def _memory(item: KeyValue | None, resource: Resource) -> Table:
    """What the marker remembers, if it is of this very resource."""
    mark = entries.read_marker(item)
    return mark if mark.get("uid") == resource.uid else {}
