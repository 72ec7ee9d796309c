"""Reconciles StompRestore: what etcd knew, then the disk of one owner after the other, while none of them runs.

Rule: a disk that holds a journal of another history is never written into (the command refuses it), and every step may
be done again. Nothing is taken back: what was restored half is gone on with.
"""

from __future__ import annotations

import logging

from ..kube.kube import KubeError
from ..spec import names
from ..spec.conditions import REFUSED_AGAIN_S, Condition, new_status, paused, ready, rfc3339, seconds_of
from ..spec.model import BackupSpec, BrokerSpec, Resource, RestoreSpec, Store, Table
from ..spec.names import Id
from ..workloads.owners import claim_spec
from .backups import LOOK_S, NOW_S, folder_of
from .job_steps import JobSteps, kept_fields, not_ours
from .jobs import METADATA, Step, claim_of, finished, job, job_name, last_words, root_of, why_failed, why_waiting
from .store import missing

log = logging.getLogger("stampede.operator")

RETRY_S = 60.0
TRIES = 2


class _Refused(Exception):
    """reason, and why with the fix."""

    def __init__(self, reason: str, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Restores(JobSteps):
    """One step after the other of each StompRestore, until all disks are made."""

    async def reconcile(self, resource: Resource) -> float | None:
        """Seconds until it wants to be looked at again. Raises KubeError."""
        now = self._clock.wall_ms() / 1000
        if any(one["type"] == "Complete" and one["status"] == "True" for one in resource.status.get("conditions", [])):
            return None
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec = resource.spec(RestoreSpec)
        fields: Table = {"step": METADATA, **kept_fields(resource)}
        try:
            broker = self._asked_for(resource)
            store, folder = self._source(resource, spec)
            reason, why = await missing(self._kube, resource.id.namespace, store)
            if reason:
                raise _Refused(reason, why)
            if (
                Id("StatefulSet", resource.id.namespace, names.owner_name(broker.id.name))
                not in self._objects["StatefulSet"]
            ):
                await self._say(resource, fields, "Waiting", "the operator makes the objects of the broker first")
                return LOOK_S
            return await self._advance(resource, spec, broker, store, folder, fields)
        except _Refused as error:
            accepted = Condition("Accepted", False, error.reason, str(error))
            complete = Condition("Complete", False, error.reason, str(error))
            await self._statuses.write(
                resource, new_status(resource, (accepted, complete, ready(accepted)), fields, now)
            )
            return REFUSED_AGAIN_S

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    def _asked_for(self, resource: Resource) -> Resource:
        """The broker, which waits for this. Raises _Refused."""
        broker = self._cache.broker_of(resource)
        if broker is None:
            raise _Refused(
                "BrokerNotFound",
                f"there is no StompBroker {resource.broker}; make it, with spec.restoreFrom.name: {resource.id.name}",
            )
        asks = broker.spec(BrokerSpec).restore_from
        if asks is None or asks.name != resource.id.name:
            raise _Refused(
                "NotAskedFor",
                f"StompBroker {broker.id.name} has not spec.restoreFrom.name: {resource.id.name}, and so its owners "
                "do not wait for this; name a new broker that has",
            )
        live = self._objects["StatefulSet"].get(
            Id("StatefulSet", broker.id.namespace, names.owner_name(broker.id.name))
        )
        if live is not None and (live["spec"].get("replicas") or live.get("status", {}).get("replicas")):
            raise _Refused("OwnersRun", f"owners of {broker.id.name} run; a backup is restored into a new broker only")
        return broker

    def _source(self, resource: Resource, spec: RestoreSpec) -> tuple[Store, str]:
        """(store, folder in it). Raises _Refused."""
        if spec.source.backup_ref is None:
            return spec.source.store or Store(), spec.source.folder
        name = spec.source.backup_ref.name
        backup = self._cache.resources.get(Id(names.BACKUP, resource.id.namespace, name))
        if backup is None:
            raise _Refused(
                "BackupNotFound", f"there is no StompBackup {name}; give source.store and source.folder instead"
            )
        return backup.spec(BackupSpec).store, folder_of(backup)

    async def _advance(
        self, resource: Resource, spec: RestoreSpec, broker: Resource, store: Store, folder: str, fields: Table
    ) -> float | None:
        step, shared = str(fields["step"]), broker.spec(BrokerSpec)
        image = shared.image or self._image
        ordinal = -1 if step == METADATA else int(step.rpartition("-")[2])
        name = job_name(resource, "", step, ordinal)
        id = Id("Job", resource.id.namespace, name)
        found = await self._job(id)
        if found is None:
            if ordinal >= 0:
                await self._claim(broker, shared, ordinal)
            todo = _step(spec, broker.id.name, shared, f"{root_of(store)}/{folder}", fields)
            made = job(
                resource, broker.id.name, shared, image, name, todo, store, spec.resources, spec.deadline_seconds
            )
            await self._create(made)
            await self._say(resource, fields, "Running", step)
            return LOOK_S
        # Of one of the same name, whose Jobs go after it: it has done nothing here.
        if why := not_ours(found, resource):
            await self._say(resource, fields, "Waiting", f"{step}: {why}")
            return LOOK_S
        done = finished(found)
        pods = await self._pods(id)
        if done is None:
            waits = why_waiting(pods)
            await self._say(resource, fields, "Waiting" if waits else "Running", f"{step}: {waits}" if waits else step)
            return LOOK_S
        words = last_words(pods)
        if not done or (step == METADATA and "run" not in words):
            why = why_failed(found, pods) if not done else "its pod was gone before it was looked at"
            await self._say(resource, fields, "Failed", f"{step}: {why}")
            if not _older(found, self._clock.wall_ms() / 1000 - RETRY_S):
                return RETRY_S
            await self._kube.delete(found)
            return LOOK_S
        return await self._next(resource, broker, fields, step, words)

    async def _next(self, resource: Resource, broker: Resource, fields: Table, step: str, words: Table) -> float | None:
        restored = dict(fields.get("restored") or {})
        if step == METADATA:
            fields["owners"] = [f"{words['head']}-{n}" for n in range(int(words["owners"]))]
            restored = {"run": words["run"], "takenAt": rfc3339(words["takenMs"] // 1000)}
        for field in ("bytes", "messages", "lost"):
            if step != METADATA:
                restored[field] = restored.get(field, 0) + int(words.get(field, 0))
        steps = [METADATA, *(names.owner_pod(broker.id.name, n) for n in range(len(fields["owners"])))]
        fields["restored"] = restored
        following = steps.index(step) + 1
        if following < len(steps):
            fields["step"] = steps[following]
            await self._say(resource, fields, "Running", fields["step"])
            return NOW_S
        fields["step"] = None
        fields["completedAt"] = rfc3339(self._clock.wall_ms() / 1000)
        await self._say(resource, fields, "Complete", "", True)
        return None

    async def _claim(self, broker: Resource, shared: BrokerSpec, ordinal: int) -> None:
        """The disk is there. Raises _Refused, KubeError."""
        await self._create(claim_of(broker, shared, ordinal, claim_spec(shared)))

    async def _create(self, body: Table) -> None:
        """It is there. Raises _Refused, KubeError."""
        try:
            await self._kube.create(body)
        except KubeError as error:
            if error.refused:
                raise _Refused("Refused", str(error)) from None
            if error.status != 409:
                raise

    async def _say(self, resource: Resource, fields: Table, reason: str, why: str, done: bool = False) -> None:
        accepted, complete = Condition("Accepted", True, "Accepted"), Condition("Complete", done, reason, why)
        wanted = (accepted, complete, ready(accepted, complete))
        await self._statuses.write(resource, new_status(resource, wanted, fields, self._clock.wall_ms() / 1000))


def _older(item: Table, than: float) -> bool:
    at = [one.get("lastTransitionTime", "") for one in item.get("status", {}).get("conditions") or ()]
    return any((seconds_of(one) or than) <= than for one in at)


def _step(spec: RestoreSpec, broker: str, shared: BrokerSpec, folder: str, fields: Table) -> Step:
    step, run = str(fields["step"]), (fields.get("restored") or {}).get("run", spec.source.run)
    if step == METADATA:
        owners = ",".join(names.owner_pod(broker, n) for n in range(shared.owners.replicas))
        which = [f"{folder}/{spec.source.run}"] if spec.source.run else [folder, "--latest"]
        return Step(step, ["stampede", "cluster", "restore", *which, "--owners", owners], tries=TRIES)
    ordinal = int(step.rpartition("-")[2])
    line = ["stampede", "restore", f"{folder}/{run}/{fields['owners'][ordinal]}.tar", "--data", names.DATA_DIR]
    return Step(step, [*line, "--whole-cluster", "--unless-restored"], names.data_claim(broker, ordinal), tries=TRIES)
