"""What another controller has added to a live object where every entry counts: keys of a selector, containers,
privileges.

Rule: pure. Server-side apply leaves what other controllers add beside what we say, and `difference` does not see it.
That is right for annotations, wrong for what decides which pods a Service reaches or what runs in a pod: there we own
the whole field.

Worked example: wanted spec.selector {app: edge}, live {app: edge, tier: gold}. No pod has that label, so the Service
reaches none. surplus() gives the merge patch {spec: {selector: {tier: None}}} and says "spec.selector.tier".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model import Table

_CONTAINER = {"args": {}, "env": "name", "envFrom": {}, "lifecycle": {}, "securityContext": {}, "volumeDevices": {},
              "volumeMounts": "mountPath", "workingDir": {}}  # fmt: skip
_PODS = {
    "containers": ("name", _CONTAINER),
    "initContainers": ("name", _CONTAINER),
    "volumes": "name",
    "securityContext": {},
    "hostNetwork": {},
    "hostPID": {},
    "hostIPC": {},
    "hostAliases": {},
    "runtimeClassName": {},
}
_WORKLOAD = {"template": {"spec": _PODS}}
OWNED: Mapping[str, Any] = {
    "Service": {"selector": {}, "ports": "name", "externalIPs": {}},
    "Deployment": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "NetworkPolicy": {"ingress": {}, "egress": {}},
    "PodDisruptionBudget": {"minAvailable": {}},
}
"""kind → its spec. A table: only what it names is ours; empty: ours as a whole, at any depth. A text: a list, its
entries known by that key. A pair: such a list, and what is ours of each entry."""


def surplus(kind: str, wanted: Table, live: Table) -> tuple[Table, Table]:
    """(merge patch that takes the additions out, path → what was added); both empty when there are none."""
    found: Table = {}
    patch = _table(OWNED.get(kind), wanted.get("spec") or {}, live.get("spec") or {}, ".spec", found)
    return ({"spec": patch} if patch else {}), found


def _table(
    owned: Mapping[str, Any] | None,
    wanted: Mapping[str, Any],
    live: Mapping[str, Any],
    path: str,
    found: Table,
) -> Table:
    """The merge patch of one table. owned: None = nothing of it, {} = all of it."""
    if owned is None:
        return {}
    patch: Table = {}
    for key, value in live.items():
        if owned and key not in owned:
            continue
        here, rule = f"{path}.{key}", owned.get(key, {}) if owned else {}
        said = wanted.get(key)
        if said is None:
            if value not in (None, {}, [], False, ""):
                found[here] = value
                patch[key] = None
        elif isinstance(rule, (str, tuple)):
            if isinstance(value, list) and (kept := _list(rule, said, value, here, found)) is not None:
                patch[key] = kept
        elif (
            isinstance(value, Mapping)
            and isinstance(said, Mapping)
            and (part := _table(rule, said, value, here, found))
        ):
            patch[key] = part
    return patch


def _list(
    rule: str | tuple[str, Mapping[str, Any]], wanted: list[Any], live: list[Any], path: str, found: Table
) -> list[Any] | None:
    """The list without what was added; None: nothing was."""
    key, inside = (rule, None) if isinstance(rule, str) else rule
    said = {one.get(key): one for one in wanted}
    kept, before = [], len(found)
    for one in live:
        name = one.get(key)
        if name not in said:
            found[f"{path}[{name}]"] = one
            continue
        patch = _table(inside, said[name], one, f"{path}[{name}]", found)
        kept.append(_without(one, patch))
    return kept if len(found) > before else None


def _without(item: Table, patch: Table) -> Table:
    """RFC 7396, for a list's entry: a merge patch replaces lists as a whole."""
    result = dict(item)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _without(item[key], value)
        else:
            result[key] = value
    return result
