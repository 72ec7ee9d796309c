"""Reconciles StompBackup: begins a run when one is due, and makes one Job after the other.

Rule: what was begun stands in the status before anything is done, so that another operator goes on where this one
ended. A run that failed is worth nothing and is begun anew, under another name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from broker.core.errors import ConfigError
from broker.seams.clock import Clock

from ..kube.applying import controller_of
from ..kube.kube import Kube, KubeError
from ..spec import names
from ..spec.conditions import REFUSED_AGAIN_S, Condition, new_status, paused, ready, rfc3339, seconds_of
from ..spec.model import BackupSpec, BrokerSpec, Resource, Table
from ..spec.names import Id
from ..world.resource_cache import ResourceCache
from ..world.statuses import Statuses
from .job_steps import JobSteps, kept_fields, not_ours
from .jobs import COMPLETE, METADATA, Step, finished, job, job_name, last_words, root_of, why_failed, why_waiting
from .schedule import Schedule
from .store import missing

log = logging.getLogger("stampede.operator")

LOOK_S = 10.0
"""How often a Job that works is looked at beside its own events: why its pod waits has none."""
RETRY_S = 600.0
NOW_S = 0.1
MOST_WAIT_S = 6 * 3600.0


class State(NamedTuple):
    """For metrics. failed: the last run did, or none can begin. taken: the time that the last complete one stands for,
    since the epoch; None: there is none."""

    failed: bool
    taken: float | None


class Backups(JobSteps):
    """One run at a time of each StompBackup."""

    def __init__(
        self, cache: ResourceCache, kube: Kube, statuses: Statuses, objects: Mapping[str, Mapping[Id, Table]],
        image: str, clock: Clock,
    ) -> None:  # fmt: skip
        super().__init__(cache, kube, statuses, objects, image, clock)
        self.states: dict[Id, State] = {}

    def gone(self, id: Id) -> None:
        self.states.pop(id, None)

    async def reconcile(self, resource: Resource) -> float | None:
        """Seconds until it wants to be looked at again. Raises KubeError."""
        now = self._clock.wall_ms() / 1000
        taken = (resource.status.get("last") or {}).get("takenAt")
        failed = bool(resource.status.get("failedAt")) or _not_accepted(resource)
        self.states[resource.id] = State(failed, seconds_of(taken) if taken else None)
        if (left := paused(resource, now)) is not None:
            return await self._statuses.paused(resource, left, now)
        spec, fields = resource.spec(BackupSpec), kept_fields(resource)
        broker = self._cache.broker_of(resource)
        if broker is None:
            return await self._refused(resource, fields, "BrokerNotFound", f"there is no StompBroker {resource.broker}")
        shared = broker.spec(BrokerSpec)
        if not (image := shared.image or self._image):
            why = "name an image in spec.image of the StompBroker, or give the operator one with --image"
            return await self._refused(resource, fields, "NoImage", why)
        try:
            schedule = Schedule(spec.schedule, spec.time_zone) if spec.schedule else None
        except ConfigError as error:
            return await self._refused(resource, fields, "Invalid", str(error))
        fields["place"] = place_of(resource, spec)
        if running := fields.get("running"):
            return await self._advance(resource, spec, shared, image, fields, running)
        due, wait = _due(resource, spec, schedule, now)
        if not due:
            fields["nextAt"] = rfc3339(now + wait) if wait is not None else None
            await self._say(resource, fields, _last(resource))
            return min(wait, MOST_WAIT_S) if wait is not None else None
        if _just_ended(fields, now):
            return 1 - now % 1
        reason, why = await missing(self._kube, resource.id.namespace, spec.store)
        if reason:
            return await self._refused(resource, fields, reason, why)
        fields |= _begun(resource, schedule, due, now)
        fields["nextAt"] = None
        await self._tidy(resource)
        await self._say(resource, fields, _last(resource))
        return NOW_S

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _advance(
        self, resource: Resource, spec: BackupSpec, shared: BrokerSpec, image: str, fields: Table, running: Table
    ) -> float | None:
        step = str(running["step"])
        name = job_name(resource, running["run"], step, _ordinal(resource.broker, step))
        id = Id("Job", resource.id.namespace, name)
        found = await self._job(id)
        if found is None:
            made = job(
                resource, resource.broker, shared, image, name, _step(resource, spec, running), spec.store,
                spec.resources, spec.deadline_seconds,
            )  # fmt: skip
            try:
                await self._kube.create(made)
            except KubeError as error:
                if error.status == 409:
                    return NOW_S
                if not error.refused:
                    raise
                return await self._refused(resource, fields, "Refused", str(error))
            await self._say(resource, fields, _last(resource))
            return LOOK_S
        if why := not_ours(found, resource):  # its end says nothing of our run
            await self._say(resource, fields, _last(resource), why)
            return LOOK_S
        done = finished(found)
        pods = await self._pods(id)
        if done is None:
            await self._say(resource, fields, _last(resource), why_waiting(pods))
            return LOOK_S
        words = last_words(pods)
        if "bytes" in words:  # with some large bodies lost the command fails, and the copy is one
            done = True
        if done and step == METADATA and not words:
            done = False
        if not done:
            why = why_failed(found, pods) if finished(found) is False else "its pod was gone before it was looked at"
            return await self._failed(resource, fields, f"{step}: {why}")
        fields |= self._after(resource, running, step, words)
        await self._say(resource, fields, _last(resource) if fields.get("running") else _COMPLETE)
        return NOW_S

    def _after(self, resource: Resource, running: Table, step: str, words: Table) -> Table:
        """The fields when this step is done."""
        now = self._clock.wall_ms() / 1000
        running = dict(running)
        if step == METADATA:
            running["owners"] = [names.owner_pod(resource.broker, n) for n in range(int(words.get("owners", 0)))]
            # Whole seconds, never later than it was.
            running["takenAt"] = rfc3339(words.get("takenMs", 0) // 1000)
        elif step != COMPLETE:
            for field in ("bytes", "messages", "lost"):
                running[field] = running.get(field, 0) + int(words.get(field, 0))
        steps = [METADATA, *running.get("owners", []), COMPLETE]
        if step != COMPLETE:
            running["step"] = steps[steps.index(step) + 1]
            return {"running": running}
        last: Table = {
            field: running[field] for field in ("run", "takenAt", "bytes", "messages", "lost") if field in running
        }
        began = seconds_of(running["startedAt"]) or now
        last |= {"completedAt": rfc3339(now), "seconds": int(now - began)}
        return {"running": None, "last": last, "failedAt": None}

    async def _failed(self, resource: Resource, fields: Table, why: str) -> float:
        log.warning("%s: %s", resource.id, why)
        now = self._clock.wall_ms() / 1000
        fields |= {"running": None, "failedAt": rfc3339(now), "nextAt": rfc3339(now + RETRY_S)}
        await self._say(resource, fields, Condition("Succeeded", False, "Failed", why))
        return RETRY_S

    async def _refused(self, resource: Resource, fields: Table, reason: str, why: str) -> float:
        accepted = Condition("Accepted", False, reason, why)
        status = new_status(
            resource, (accepted, _last(resource), ready(accepted)), fields, self._clock.wall_ms() / 1000
        )
        await self._statuses.write(resource, status)
        return REFUSED_AGAIN_S

    async def _say(self, resource: Resource, fields: Table, last: Condition, waits: str = "") -> None:
        accepted, running = Condition("Accepted", True, "Accepted"), fields.get("running")
        works = Condition(
            "Running", bool(running), "Running" if running else "Idle", running["step"] if running else ""
        )
        if running and waits:
            works = Condition("Running", True, "Waiting", f"{running['step']}: {waits}")
        status = new_status(
            resource, (accepted, works, last, ready(accepted, last)), fields, self._clock.wall_ms() / 1000
        )
        await self._statuses.write(resource, status)

    async def _tidy(self, resource: Resource) -> None:
        """Jobs of runs before: their logs were there until now."""
        for item in list(self._objects["Job"].values()):
            if controller_of(item) == resource.uid:
                await self._kube.delete(item)


_COMPLETE = Condition("Succeeded", True, "Complete")


def place_of(resource: Resource, spec: BackupSpec) -> str:
    return f"{root_of(spec.store)}/{folder_of(resource)}"


def folder_of(resource: Resource) -> str:
    return f"{resource.id.namespace}/{resource.id.name}"


def _not_accepted(resource: Resource) -> bool:
    """Nothing is copied until the spec is corrected: a Secret that is gone makes no Job that fails."""
    return any(one["type"] == "Accepted" and one["status"] == "False" for one in resource.status.get("conditions", []))


def _last(resource: Resource) -> Condition:
    """How the last run ended, as the status says."""
    for one in resource.status.get("conditions", []):
        if one["type"] == "Succeeded":
            status = {"True": True, "False": False}.get(one["status"])
            return Condition("Succeeded", status, one["reason"], one["message"])
    return Condition("Succeeded", None, "NoneYet", "")


def _due(resource: Resource, spec: BackupSpec, schedule: Schedule | None, now: float) -> tuple[str, float | None]:
    """(what a run is due for, "": nothing; seconds until it may be, None: never by itself)"""
    status = resource.status
    asked = resource.annotations.get(names.RUN, "")
    if asked and asked != status.get("asked", ""):
        return "annotation", None
    if spec.suspend:
        return "", None
    if (failed := seconds_of(status.get("failedAt") or "")) is not None:
        again = failed + RETRY_S
        return ("retry", None) if now >= again else ("", again - now)
    if schedule is None:
        return ("", None) if status.get("last") else ("schedule", None)
    since = seconds_of(status.get("scheduledAt") or resource.created) or now
    if schedule.due(since, now) is not None:
        return "schedule", None
    following = schedule.after(now)
    return "", None if following is None else following - now


def _just_ended(status: Table, now: float) -> bool:
    """Has a run ended in this second. A run is named by the second in which it begins, and so are its Jobs: the next
    one would take those of this one for its own."""
    ended = status.get("failedAt"), (status.get("last") or {}).get("completedAt")
    return rfc3339(now) in ended


def _begun(resource: Resource, schedule: Schedule | None, why: str, now: float) -> Table:
    run = rfc3339(now).replace(":", "-")
    found: Table = {"running": {"run": run, "startedAt": rfc3339(now), "step": METADATA, "why": why}}
    if why == "annotation":
        found["asked"] = resource.annotations[names.RUN]
    if schedule is not None:
        since = seconds_of(resource.status.get("scheduledAt") or resource.created) or now
        met = schedule.due(since, now)
        found["scheduledAt"] = rfc3339(met) if met is not None else resource.status.get("scheduledAt")
    return found


def _ordinal(broker: str, step: str) -> int:
    found = names.ordinal_of(broker, step)
    return -1 if found is None else found


def _step(resource: Resource, spec: BackupSpec, running: Table) -> Step:
    step, folder = str(running["step"]), f"{place_of(resource, spec)}/{running['run']}"
    if step == METADATA:
        return Step(step, ["stampede", "cluster", "backup", folder, "--drop-incomplete"])
    if step == COMPLETE:
        keep = str(spec.retention.keep)
        return Step(step, ["stampede", "cluster", "backup", folder, "--complete", "--keep", keep], tries=2)
    line = ["stampede", "backup", f"{folder}/{step}.tar", "--data", names.DATA_DIR]
    claim = names.data_claim(resource.broker, _ordinal(resource.broker, step))
    return Step(step, [*line, "--rate", str(spec.megabytes_per_second)], claim, step)
