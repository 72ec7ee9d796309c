"""Events: what a person should hear of without reading conditions — drift undone, owners emptied, what is refused.

Rule: one Event per cause. What happens again is counted in the same Event, written at most every EVERY_S: a fight with
another controller is one line in `kubectl describe`, not a thousand. An Event is never worth a failure.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any, NamedTuple

from broker.seams.clock import Clock
from broker.seams.entropy import token

from ..spec.conditions import rfc3339
from ..spec.model import Resource, Table
from ..spec.names import FIELD_MANAGER
from .kube import Kube, KubeError

log = logging.getLogger("stampede.operator")

EVERY_S = 60.0
KEPT_S = 3600.0
"""API servers keep Events for an hour; what happens later is a new one."""
MOST = 1000
"""Causes that are remembered; of further ones a repetition is a new Event."""
TRIES = 3
"""A server that is overloaded for a moment loses no Event."""
LONGEST = 1000
"""Characters of a message; the API server takes 1024."""

NORMAL, WARNING = "Normal", "Warning"


class Told(NamedTuple):
    """An Event to be. type: NORMAL, WARNING. reason: one CamelCase word."""

    type: str
    reason: str
    message: str


class _Cause:
    __slots__ = ("at", "body", "count", "first")

    def __init__(self, body: Table, now: float) -> None:
        self.body = body
        self.count = 1
        self.first = self.at = now


class Events:
    """Writes Events, see Rule."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._causes: OrderedDict[tuple[str, str, str], _Cause] = OrderedDict()

    async def tell(self, about: Table, what: Told, subject: str = "") -> None:
        """about: the object as read. subject: what makes it another cause although the reason is the same."""
        now = self._clock.monotonic()
        key = (str(about["metadata"]["uid"]), what.reason, subject)
        cause = self._causes.get(key)
        if cause is not None and now - cause.first < KEPT_S:
            await self._again(key, cause, what, now)
            return
        meta = about["metadata"]
        body = _body(about, what, f"{meta['name'][:200]}.{token(8)}", self._wall())
        self._causes[key] = _Cause(body, now)
        self._causes.move_to_end(key)
        while len(self._causes) > MOST:
            self._causes.popitem(last=False)
        for _ in range(TRIES):
            try:
                await self._kube.create(body)
                return
            except KubeError as error:
                log.debug("event: %s", error)
                if error.status == 409:  # a try before was not in vain
                    return
                if 0 < error.status < 500:
                    break
        self._causes.pop(key, None)  # others may have crowded it out meanwhile

    async def _again(self, key: tuple[str, str, str], cause: _Cause, what: Told, now: float) -> None:
        cause.count += 1
        if now - cause.at < EVERY_S:
            return
        cause.at = now
        meta = cause.body["metadata"]
        patch = {"count": cause.count, "lastTimestamp": self._wall(), "message": what.message[:LONGEST]}
        try:
            await self._kube.merge("v1", "Event", meta["namespace"], meta["name"], patch)
        except KubeError as error:
            self._causes.pop(key, None)
            log.debug("event: %s", error)

    def _wall(self) -> str:
        return rfc3339(self._clock.wall_ms() / 1000)


def _body(about: Table, what: Told, name: str, at: str) -> Table:
    meta = about["metadata"]
    involved = {"apiVersion": about["apiVersion"], "kind": about["kind"]}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": meta["namespace"]},
        "involvedObject": {**involved, **{key: meta[key] for key in ("name", "namespace", "uid")}},
        "type": what.type,
        "reason": what.reason,
        "message": what.message[:LONGEST],
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": FIELD_MANAGER},
    }


def turned(resource: Resource, status: Table) -> list[Told]:
    """What a new status says that the one before did not. Pure, and so nothing is told again by an operator that has
    just started: it finds the same status."""
    before, after = _conditions(resource.status), _conditions(status)
    found = []
    for type, new in after.items():
        old = before.get(type, {})
        same = (old.get("status"), old.get("reason")) == (new["status"], new["reason"])
        if type == "Accepted" and not (same and old.get("message") == new["message"]):
            found += _accepted(old, new)
        elif type == "ScalingDown" and not same:
            found += _scaling(old, new)
        elif type == "Rebalancing" and not same and new["reason"] != "Idle":
            found.append(Told(NORMAL, f"Rebalance{new['reason']}", new["message"]))
        elif type == "Succeeded" and not same and new["reason"] != "NoneYet":
            found.append(Told(NORMAL if new["status"] == "True" else WARNING, f"Backup{new['reason']}", new["message"]))
        elif type == "Complete" and not same and new["reason"] in ("Complete", "Failed"):
            found.append(
                Told(NORMAL if new["status"] == "True" else WARNING, f"Restore{new['reason']}", new["message"])
            )
        elif type == "CertificatesValid" and not same and new["status"] == "False":
            found.append(Told(WARNING, f"Certificate{new['reason']}", new["message"]))
        elif type == "OwnersReady" and not same and new["reason"] == "SecretMissing":
            found.append(Told(WARNING, "SecretMissing", new["message"]))
        elif type == "EtcdReachable" and (old.get("status"), new["status"]) == ("True", "False"):
            found.append(Told(WARNING, "EtcdUnreachable", new["message"]))
    found += _traffic(resource.status, status)
    rotated, last = status.get("lastRotated"), resource.status.get("lastRotated")
    until = status.get("graceUntil")
    # Times have whole seconds: a passcode that is changed in the second it was made shows by its grace.
    if rotated and last and (rotated != last or (until and until != resource.status.get("graceUntil"))):
        grace = f"; the one before works until {until}" if until else ""
        found.append(Told(NORMAL, "PasscodeRotated", f"the passcode is another one now{grace}"))
    return found


def _traffic(before: Table, after: Table) -> list[Told]:
    """Of an Address: it is full, its messages become dead letters. Of numbers that were not told before nobody knows
    when they came to be."""
    found = []
    if "blocked" in after and bool(before.get("blocked")) != after["blocked"]:
        if after["blocked"]:
            why = (
                f"the address is full ({after.get('depth', 0)} messages): whoever sends to it waits (fullPolicy BLOCK)"
            )
            found.append(Told(WARNING, "Blocked", why))
        elif before:
            found.append(Told(NORMAL, "Unblocked", "there is room again for messages"))
    more = after.get("deadLettered", 0) - before.get("deadLettered", after.get("deadLettered", 0))
    if more > 0:
        why = (
            f"{more} more of its messages became dead letters, {after['deadLettered']} in all; `stampede dlq` says why"
        )
        found.append(Told(WARNING, "DeadLetters", why))
    return found


def _accepted(old: Table, new: Table) -> list[Told]:
    if new["status"] == "False" or new["reason"] == "ServerFailed":
        return [Told(WARNING, new["reason"], new["message"])]
    if new["status"] == "True" and old.get("status") == "False":
        return [Told(NORMAL, "Accepted", f"accepted; it was refused before ({old['reason']})")]
    return []


def _scaling(old: Table, new: Table) -> list[Told]:
    if new["status"] == "True":
        kind = WARNING if new["reason"] == "Unreachable" else NORMAL
        return [Told(kind, f"Owners{new['reason']}", f"owners are being removed: {new['message']}")]
    if old.get("status") == "True":
        return [Told(NORMAL, "OwnersRemoved", "the owners that were to go are gone")]
    return []


def _conditions(status: Table) -> dict[str, dict[str, Any]]:
    return {one["type"]: one for one in status.get("conditions", [])}
