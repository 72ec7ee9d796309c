"""From the broker's settings to JSON schema, and from a resource back to settings.

Rule: everything is derived from `broker.config.catalogue`, nothing is written down twice; so what a resource may say
is what a config file may say, in camelCase. Must not know which resource uses which settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from broker.config.catalogue import Leaf, entry_leaves, groups

Schema = dict[str, Any]

MAX_TEXT = 1024
MAX_ITEMS = 64
_SIZE = r"^[0-9]+(\.[0-9]+)?\s*([kKmMgGtT]i?)?[bB]?$"
_PAIR = r"^\s*[0-9]{1,9}\s*,\s*[0-9]{1,9}\s*$"


def camel(name: str) -> str:
    """redelivery_delay_ms → redeliveryDelayMs"""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def text(description: str, *, most: int = 253, least: int = 1, pattern: str = "", default: str | None = None) -> Schema:
    schema: Schema = {"type": "string", "description": description, "minLength": least, "maxLength": most}
    if pattern:
        schema["pattern"] = pattern
    if default is not None:
        schema["default"] = default
    return schema


def word(description: str, words: Collection[str], default: str | None = None) -> Schema:
    schema: Schema = {"type": "string", "description": description, "enum": list(words)}
    return schema if default is None else {**schema, "default": default}


def integer(description: str, least: int, most: int, default: int | None = None) -> Schema:
    schema: Schema = {"type": "integer", "format": "int32", "description": description}
    schema |= {"minimum": least, "maximum": most}
    return schema if default is None else {**schema, "default": default}


def boolean(description: str, default: bool | None = None) -> Schema:
    schema: Schema = {"type": "boolean", "description": description}
    return schema if default is None else {**schema, "default": default}


def strings(description: str, *, items: int = MAX_ITEMS, length: int = 253, words: Collection[str] = ()) -> Schema:
    """A set of texts."""
    item: Schema = {"type": "string", "enum": list(words)} if words else {"type": "string", "maxLength": length}
    return {
        "type": "array",
        "description": description,
        "maxItems": items,
        "items": item,
        "x-kubernetes-list-type": "set",
    }


def table(description: str, properties: Mapping[str, Schema], required: Iterable[str] = (), **more: Any) -> Schema:
    """An object. more: further keywords, as they are."""
    schema: Schema = {"type": "object", "description": description, "properties": dict(properties), **more}
    names = list(required)
    return {**schema, "required": names} if names else schema


def free(description: str) -> Schema:
    """An object that Kubernetes does not look into: merged into what we make."""
    return {"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": True}


def entry_properties(name: str, without: Collection[str] = ()) -> dict[str, Schema]:
    """The settings of one entry of a table of settings (`engine.addresses`, …), by their camelCase names."""
    return {camel(leaf.name): leaf_schema(leaf) for leaf in entry_leaves(name).values() if leaf.name not in without}


def group_schema(name: str, without: Collection[str] = ()) -> Schema:
    """One group of settings (`journal`, `edge`, …) as an object."""
    group = next(group for group in groups() if group.name == name)
    leaves = [leaf for leaf in group.leaves if leaf.kind is not dict]
    named = {leaf.name.rpartition(".")[2]: leaf for leaf in leaves}
    return table(
        group.about, {camel(last): leaf_schema(leaf) for last, leaf in named.items() if last not in without}
    )  # fmt: skip


def leaf_schema(leaf: Leaf) -> Schema:
    schema = _typed(leaf)
    help = f"{leaf.help[0].upper()}{leaf.help[1:]}" if leaf.help else ""
    if schema.get("type") == "array":
        help = help.replace("Comma list of", "List of")
    said = f" Default: {_shown(leaf.default)}." if leaf.default != "" else ""
    unit = "" if leaf.kind is bool or "|" in leaf.unit or leaf.unit in ("list", "address") else f" ({leaf.unit})"
    schema["description"] = f"{help}{unit}.{said}"
    return schema


def _typed(leaf: Leaf) -> Schema:
    if leaf.kind is bool:
        return {"type": "boolean"}
    if leaf.kind is str:
        return _text(leaf)
    if leaf.unit == "bytes":
        # A whole number with its bounds, or a text like 64MiB; the operator checks the text's bounds.
        return {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "minimum": leaf.least,
            "pattern": _SIZE,
            "maxLength": 32,
        }
    schema: Schema = {"type": "integer", "format": "int64"} if leaf.kind is int else {"type": "number"}
    if leaf.least is not None:
        schema["minimum"] = leaf.least
    if leaf.most is not None:
        schema["maximum"] = leaf.most
    return schema


def _text(leaf: Leaf) -> Schema:
    if "|" in leaf.unit:
        return {"type": "string", "enum": leaf.unit.split("|")}
    if leaf.unit == "list":
        return strings("", length=253)
    if leaf.unit == "ms,ms":
        return {"type": "string", "maxLength": 21, "pattern": _PAIR}
    return {"type": "string", "maxLength": 8192 if leaf.unit == "selector" else MAX_TEXT}


def _shown(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


@cache
def _snakes(name: str) -> dict[str, Leaf]:
    return {camel(leaf.name): leaf for leaf in entry_leaves(name).values()}


@cache
def _group_snakes(name: str) -> dict[str, str]:
    group = next(group for group in groups() if group.name == name)
    return {camel(leaf.name.rpartition(".")[2]): leaf.name.rpartition(".")[2] for leaf in group.leaves}


def entry_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a resource says, as an entry of that table of settings. Names that are no settings are left out: they are
    the resource's own."""
    known = _snakes(name)
    return {
        known[key].name: ",".join(value) if known[key].unit == "list" else value
        for key, value in given.items()
        if key in known
    }


def group_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a resource says of one group of settings."""
    known = _group_snakes(name)
    return {
        known[key]: ",".join(value) if isinstance(value, list) else value
        for key, value in given.items()
        if key in known
    }
