"""Conditions: what a resource's status says, and the pause annotation.

Rule: pure. A condition's time changes with its status only, so an unchanged world gives an unchanged status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from .model import Resource
from .names import PAUSED

REFUSED_AGAIN_S = 60.0
"""What Kubernetes refuses is tried again: nobody tells of a right or a quota that has changed."""


class Condition(NamedTuple):
    """status: True, False, or None = nobody knows. reason: one CamelCase word."""

    type: str
    status: bool | None
    reason: str
    message: str = ""


def rfc3339(seconds: float) -> str:
    """seconds: since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float | None:
    """None: it is no RFC 3339 time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.timestamp() if found.tzinfo is not None else None


def conditions(resource: Resource, wanted: Iterable[Condition], now: float) -> list[dict[str, Any]]:
    """As they stand in the status."""
    before = {one["type"]: one for one in resource.status.get("conditions", [])}
    found = []
    for condition in wanted:
        status = {True: "True", False: "False", None: "Unknown"}[condition.status]
        old = before.get(condition.type, {})
        at = old["lastTransitionTime"] if old.get("status") == status else rfc3339(now)
        found.append(
            {
                "type": condition.type,
                "status": status,
                "observedGeneration": resource.generation,
                "lastTransitionTime": at,
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    return found


def stands(resource: Resource, type: str) -> bool:
    """The condition is True for the present generation."""
    return any(
        one["type"] == type and one["status"] == "True" and one.get("observedGeneration") == resource.generation
        for one in resource.status.get("conditions", [])
    )


def is_true(resource: Resource, type: str) -> bool:
    """The condition is True, of whatever generation."""
    return any(one["type"] == type and one["status"] == "True" for one in resource.status.get("conditions", []))


def stood(resource: Resource, type: str) -> Condition | None:
    """What the status says of the present generation: for what could not be looked at this time. None: nothing."""
    for one in resource.status.get("conditions", []):
        if one["type"] == type and one.get("observedGeneration") == resource.generation:
            status = {"True": True, "False": False}.get(one["status"])
            return Condition(type, status, one["reason"], one["message"])
    return None


def since(resource: Resource, type: str, now: float) -> float:
    """Since when the condition is True, of whatever generation; `now`: it is not."""
    true = (one for one in resource.status.get("conditions", []) if one["type"] == type and one["status"] == "True")
    found = next(true, None)
    return (seconds_of(found["lastTransitionTime"]) or now) if found is not None else now


def new_status(
    resource: Resource, wanted: Iterable[Condition], fields: Mapping[str, Any], now: float
) -> dict[str, Any] | None:
    """The status to write, or None if it says that already. Fields that are None are left out."""
    status = {
        "observedGeneration": resource.generation,
        "conditions": conditions(resource, wanted, now),
        **{name: value for name, value in fields.items() if value is not None},
    }
    return status if status != resource.status else None


def paused(resource: Resource, now: float) -> float | None:
    """None: not paused. Else seconds until the pause ends, infinite for `true`."""
    text = resource.annotations.get(PAUSED, "").strip()
    if not text or text.lower() == "false":
        return None
    until = seconds_of(text)
    if until is None:
        return float("inf")  # anything else that stands there means: hands off
    return until - now if until > now else None


def ready(*needed: Condition) -> Condition:
    """Ready: all of `needed` are True; else what the first of them says."""
    for condition in needed:
        if condition.status is not True:
            return Condition("Ready", condition.status, condition.reason, condition.message)
    return Condition("Ready", True, "Ready")
