"""What of a wanted object is not in the live one.

Rule: pure. Only what we want is compared: fields that others own or the server fills in are theirs. Lists of named
things are compared by name, other lists as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = ("name", "type", "mountPath", "containerPort", "port", "ip", "key")


def difference(wanted: Any, live: Any, path: str = "") -> dict[str, Any]:
    """Path → the live value there (None: nothing), for every field of `wanted` that is another one in `live`."""
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return {} if not wanted and live is None else {path: live}
        found: dict[str, Any] = {}
        for key, value in wanted.items():
            found |= difference(value, live.get(key), f"{path}.{key}")
        return found
    if isinstance(wanted, list):
        return _lists(wanted, live, path)
    return {} if wanted == live else {path: live}


def _lists(wanted: list[Any], live: Any, path: str) -> dict[str, Any]:
    if not isinstance(live, list):
        return {} if not wanted and live is None else {path: live}
    key = next((key for key in _NAMES if wanted and all(isinstance(one, Mapping) and key in one for one in wanted)), "")
    if not key:
        if len(wanted) != len(live):
            return {path: live}
        found: dict[str, Any] = {}
        for index, (one, other) in enumerate(zip(wanted, live, strict=True)):
            found |= difference(one, other, f"{path}[{index}]")
        return found
    by_name = {one.get(key): one for one in live if isinstance(one, Mapping)}
    found = {}
    for one in wanted:
        found |= difference(one, by_name.get(one[key]), f"{path}[{one[key]}]")
    return found


def merged(base: Any, patch: Any) -> Any:
    """`patch` laid over `base`: tables and lists of named things are merged, the rest is replaced; None takes out."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        result = dict(base)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(base[key], value) if key in base else value
        return result
    named = isinstance(base, list) and isinstance(patch, list) and base and patch
    if named and all(isinstance(one, Mapping) and "name" in one for one in (*base, *patch)):
        names = [one["name"] for one in base]
        over = {one["name"]: one for one in patch}
        result_list = [merged(one, over[one["name"]]) if one["name"] in over else one for one in base]
        return result_list + [one for one in patch if one["name"] not in names]
    return patch
