"""Changes made while a broker runs, laid over what its config file says: entries of the tables of LIVE.

    {"version": 1, "tables": {"engine.queues": {"orders": {"values": {"selector": "n > 1"}, "by": "ada", "at": 1764…}}}}

A change wins over the file, setting by setting; whatever it does not say stays as the file has it.

Rule: values only. A table that comes out has been checked as those of a config file are, or ConfigError names the entry
and the fix. Must not know where changes come from or where they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec

from broker.core.errors import ConfigError

from .catalogue import leaves
from .load import checked_entry
from .settings import Settings

LIVE: Mapping[str, str] = MappingProxyType({
    "addresses": "engine.addresses", "queues": "engine.queues", "diverts": "engine.diverts",
    "permissions": "edge.permissions",
})  # fmt: skip
"""What people call a table → its name in a config file. Their entries can be changed while a broker runs."""
MOST = 10_000
"""Entries with changes: each change of one looks at all of them."""
VERSION = 1

Tables = dict[str, dict[str, dict[str, Any]]]


class LiveChange(msgspec.Struct, frozen=True):
    """Of one entry. by: who made it last.    at: when, milliseconds since 1970."""

    values: dict[str, Any]
    by: str = ""
    at: int = 0


class Changes(msgspec.Struct, frozen=True):
    """All of them: table → entry → change."""

    tables: dict[str, dict[str, LiveChange]] = {}
    version: int = VERSION

    def of(self, table: str, entry: str) -> dict[str, Any]:
        """What was changed of an entry."""
        found = self.tables.get(table, {}).get(entry)
        return found.values if found is not None else {}

    def with_entry(self, table: str, entry: str, values: dict[str, Any] | None, by: str = "", at: int = 0) -> Changes:
        """The same but for this entry; values None (or {} where the file has the entry): nothing of it is changed."""
        entries = dict(self.tables.get(table, {}))
        if values is None:
            entries.pop(entry, None)
        else:
            entries[entry] = LiveChange(values, by, at)
        tables = {**self.tables, table: entries}
        return Changes({name: part for name, part in tables.items() if part})

    def count(self) -> int:
        return sum(map(len, self.tables.values()))

    def encoded(self) -> bytes:
        """As it is kept."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def decoded(data: bytes, where: str) -> Changes:
    """Raises ConfigError."""
    try:
        found = msgspec.json.decode(data, type=Changes)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} cannot be read: {error}. Mend it, or put it aside.") from None
    unknown = sorted(set(found.tables) - set(LIVE.values()))
    if found.version != VERSION or unknown:
        why = f"has a table {unknown[0]!r}" if unknown else f"is of version {found.version}"
        raise ConfigError(f"{where} {why}, which this release does not know; use the release that has written it.")
    return found


def tables_of(settings: Settings) -> Tables:
    """Entries of the tables of LIVE."""
    return {name: dict(attrgetter(name)(settings)) for name in LIVE.values()}


def with_tables(settings: Settings, tables: Mapping[str, dict[str, dict[str, Any]]]) -> Settings:
    """The same with these tables."""
    engine = replace(
        settings.engine, addresses=tables[LIVE["addresses"]], queues=tables[LIVE["queues"]],
        diverts=tables[LIVE["diverts"]],
    )  # fmt: skip
    return replace(settings, engine=engine, edge=replace(settings.edge, permissions=tables[LIVE["permissions"]]))


def checked(table: str, entry: str, values: Mapping[str, Any], settings: Settings, where: str) -> dict[str, Any]:
    """The values of one entry, typed. Raises ConfigError."""
    engine = settings.engine
    return checked_entry(table, entry, values, where, engine.wildcard_delimiter, engine.address)


def laid_over(settings: Settings, changes: Changes, where: str) -> Settings:
    """Settings of a file with changes over them. Raises ConfigError, which names the entry; where: they are kept."""
    tables = tables_of(settings)
    for table, entries in changes.tables.items():
        for entry, change in entries.items():
            whole = {**tables[table].get(entry, {}), **change.values}
            try:
                tables[table][entry] = checked(table, entry, whole, settings, f"in {where}")
            except ConfigError as error:
                raise ConfigError(
                    f"{error} It was changed while the broker ran: take the entry out of {where}, or mend it there."
                ) from None
    return with_tables(settings, tables)


def shrunk(entry: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Why settings of an address may not change so; "": they may. `before` may be another tool's work."""
    had, has = before.get("partitions", 1), after.get("partitions", 1)
    if not isinstance(had, int) or has >= had:
        return ""
    return (
        f"{entry} has {had} partitions, {has} are fewer: partitions may only grow, because messages in the last "
        "ones would be kept and given to nobody. To have fewer, use another address; consumers empty this one."
    )


def restart_needed(before: Settings, after: Settings) -> list[dict[str, Any]]:
    """Settings that differ and that no running broker changes: name, in use, wanted."""
    found = []
    for name in leaves():
        if name in LIVE.values():
            continue
        now, wanted = attrgetter(name)(before), attrgetter(name)(after)
        if now != wanted:
            found.append({"name": name, "in_use": now, "wanted": wanted})
    return found
