"""Changes made while a broker runs, laid over what its config file says: entries of the tables of LIVE.

    {"version": 1, "tables": {"engine.queues": {"orders": {"values": {"selector": "n > 1"}, "by": "ada", "at": 1764…}}}}

A change wins over the file, setting by setting; whatever it does not say stays as the file has it. A change that makes
no entry any more (the rest of it has left the file, or contradicts it) is set aside: kept, not in use, and told. The
entry is as the file has it then; only the partitions of an address stay, which may only grow.

Rule: values only. A table that comes out has been checked as those of a config file are, or ConfigError names the entry
and the fix; what was checked before is not checked again. Must not know where changes come from or where they are kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
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
    "permissions": "edge.permissions", "quotas": "edge.quotas", "bridges": "bridges",
})  # fmt: skip
"""What people call a table → its name in a config file. Their entries can be changed while a broker runs."""
MOST = 10_000
"""Entries with changes: each change of one writes all of them."""
MOST_BYTES = 8 * 1024 * 1024
"""Of all changes, as they are kept."""
VERSION = 1

Table = Mapping[str, dict[str, Any]]
Tables = dict[str, Table]
Aside = dict[tuple[str, str], str]
"""(table, entry) → why what was changed of it is not in use."""


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
        """As it is kept: a line for each entry. Raises ConfigError when that is too much."""
        data = b"".join(self._lines())
        if len(data) > MOST_BYTES:
            raise ConfigError(
                f"All that was changed live would be {len(data)} bytes, {MOST_BYTES} are the most: put some of it into "
                "the config file."
            )
        return data

    def _lines(self) -> Iterator[bytes]:
        yield b'{"version": %d, "tables": {' % self.version
        for nth, (table, entries) in enumerate(self.tables.items()):
            yield (b"\n" if not nth else b"},\n") + msgspec.json.encode(table) + b": {"
            for at, (entry, change) in enumerate(entries.items()):
                yield (b"\n" if not at else b",\n") + msgspec.json.encode(entry) + b": " + msgspec.json.encode(change)
        yield b"}}}\n" if self.tables else b"}}\n"


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
    """Entries of the tables of LIVE: the very ones, not to be changed."""
    return {name: attrgetter(name)(settings) for name in LIVE.values()}


def with_tables(settings: Settings, tables: Mapping[str, Table]) -> Settings:
    """The same with these tables."""
    own: Any = tables
    engine = replace(
        settings.engine, addresses=own[LIVE["addresses"]], queues=own[LIVE["queues"]], diverts=own[LIVE["diverts"]]
    )
    edge = replace(settings.edge, permissions=own[LIVE["permissions"]], quotas=own[LIVE["quotas"]])
    return replace(settings, engine=engine, edge=edge, bridges=own[LIVE["bridges"]])


def with_known(known: Tables, tables: Tables) -> Tables:
    """The same tables, with the very entries of `known` where they are equal: a loop that has to find out what is
    new among 100,000 of them need not compare their values."""
    return {
        name: own if (own := known[name]) == entries
        else {entry: own[entry] if own.get(entry) == values else values for entry, values in entries.items()}
        for name, entries in tables.items()
    }  # fmt: skip


def checked(table: str, entry: str, values: Mapping[str, Any], settings: Settings, where: str) -> dict[str, Any]:
    """The values of one entry, typed. Raises ConfigError."""
    engine = settings.engine
    return checked_entry(table, entry, values, where, engine.wildcard_delimiter, engine.address)


def laid_over(settings: Settings, changes: Changes, fix: str, known: Tables | None = None) -> tuple[Settings, Aside]:
    """Settings of a file with changes over them, and what of the changes is not in use. Raises ConfigError where that
    would open what a permission has closed: it names the entry and how to mend it (`fix`, a command to which table and
    name are added). known: tables in use, checked against the same settings but for these tables."""
    tables, aside = tables_of(settings), Aside()
    for table, entries in changes.tables.items():
        own, before = dict(tables[table]), known[table] if known is not None else {}
        for entry, change in entries.items():
            whole = {**own.get(entry, {}), **change.values}
            if before.get(entry) == whole:
                own[entry] = before[entry]
                continue
            try:
                own[entry] = checked(table, entry, whole, settings, "changed live")
            except ConfigError as error:
                if table == LIVE["permissions"]:
                    why = f"{error} Without it others could do what it forbids: {told(fix, table, entry)}"
                    raise ConfigError(why) from None
                aside[table, entry] = str(error)
                if (kept := _partitions(table, entry, own.get(entry, {}), change, settings)) is not None:
                    own[entry] = kept
        tables[table] = own
    return with_tables(settings, tables), aside


def _partitions(
    table: str, entry: str, said: dict[str, Any], change: LiveChange, settings: Settings
) -> dict[str, Any] | None:
    """An entry of a change that is set aside, with nothing of it but partitions: in them are messages."""
    if table != LIVE["addresses"] or "partitions" not in change.values:
        return None
    try:
        return checked(table, entry, {**said, "partitions": change.values["partitions"]}, settings, "changed live")
    except ConfigError:
        return None


def told(fix: str, table: str, entry: str) -> str:
    """Which command takes back what was changed of an entry."""
    name = next(name for name, its in LIVE.items() if its == table)
    return f"take back what was changed of it, with `{fix} {name} {shlex.quote(entry)}`."


def differing(before: Tables, after: Tables) -> list[tuple[str, str]]:
    """(what people call the table, entry) of all entries that are not the same in both, by name."""
    return [
        (name, entry)
        for name, table in LIVE.items()
        if before[table] is not after[table]
        for entry in sorted({*before[table], *after[table]})
        if before[table].get(entry) != after[table].get(entry)
    ]


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
