"""The live settings of a cluster as one of its edges changes them (admin/api/ports.ConfigPort): entries in etcd.

    file of this edge   [engine.addresses."orders.#"]  max_delivery_attempts = 3
    etcd                config/settings/orders.#       {"max_delivery_attempts": 5}     counts for owners and edges

What a pattern stands for goes to `settings`, an address to `addresses`, as with `stampede cluster`. An entry of queues,
diverts, permissions and bridges stands in etcd whole (there it replaces that of a file), one of addresses only with
what it says itself.

Rule: checked as a config file is, then in etcd, then in use here, then told; who else does not use it yet is named. Not
one change at a time: etcd decides between two, and the entry is looked at again by who comes second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.cluster.config import ConfigWatch, part_of
from broker.cluster.config_writer import ConfigWriter, Table
from broker.cluster.keys import Keys, last_part
from broker.config.changes import LIVE, checked, tables_of, with_tables
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.engine.address.address_settings import is_pattern

from .cluster_users import ClusterUsers
from .live import last_permission
from .shrinking import refuse_shrinking

_PARTS = {"settings": "addresses", "addresses": "addresses", "queues": "queues", "diverts": "diverts",
          "permissions": "permissions", "quotas": "quotas", "bridges": "bridges"}  # fmt: skip
"""Part of the configuration in etcd → table of the API."""


class ClusterLive:
    """file: what this process was started with.    now: what is in use."""

    def __init__(
        self, file: Settings, now: Callable[[], Settings], config: ConfigWatch, writer: ConfigWriter,
        people: ClusterUsers,
    ) -> None:  # fmt: skip
        self.people = people
        self._file = file
        self._now = now
        self._config = config
        self._writer = writer

    # ── told ───────────────────────────────────────────────────────────────────────────────────────

    def entries(self) -> Iterator[dict[str, Any]]:
        """All entries; those that cannot be read as well."""
        file, now = tables_of(self._file), tables_of(self._now())
        for name, table in LIVE.items():
            for entry, values in now[table].items():
                yield _row(name, entry, values, file[table].get(entry), self._stored(name, entry))
        for key, why in self._config.bad.items():
            part, entry = part_of(self._writer.keys, key), last_part(key)
            if part in _PARTS:
                yield {**_row(_PARTS[part], entry, {}, None, {}), "source": "set aside", "why": why}

    def _stored(self, name: str, entry: str) -> Table | None:
        """What etcd says of one; None: nothing."""
        if name != "addresses":
            return dict(table[entry]) if entry in (table := _table(self._config, name)) else None
        both = [table[entry] for table in (self._config.settings, self._config.addresses) if entry in table]
        return {setting: value for table in both for setting, value in table.items()} if both else None

    def entry(self, name: str, entry: str) -> dict[str, Any] | None:
        """One that is in use."""
        return tables_of(self._now())[LIVE[name]].get(entry)

    async def behind(self) -> list[str]:
        """Members that do not use the last change yet."""
        return await self._writer.behind()

    # ── changes ────────────────────────────────────────────────────────────────────────────────────

    async def change(self, name: str, entry: str, values: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Lays values over an entry (None: as the file of this edge has it); the entry before. Raises ConfigError,
        BrokerError."""
        before = dict(self.entry(name, entry) or {})
        said = tables_of(self._file)[LIVE[name]].get(entry)
        await self._allowed(name, entry, self._after(name, entry, self._stored(name, entry), values, said))
        key = self._key(name, entry)
        await self._writer.edit(key, lambda stored: self._after(name, entry, stored, values, said))
        return before

    def _after(
        self, name: str, entry: str, stored: Table | None, values: Mapping[str, Any], said: Table | None
    ) -> Table | None:
        """What etcd shall say of the entry; None: nothing. Raises ConfigError."""
        # A file's entry of these does not count beside one in etcd: what it says must be said there.
        under = (said or {}) if name != "addresses" else {}
        given = {each: under.get(each) if value is None else value for each, value in values.items()}
        laid = {**(under if stored is None else stored), **given}
        own = {each: value for each, value in laid.items() if value is not None}
        # Who takes back all that was changed wants no entry that says nothing: a permission would be for nobody.
        if None in values.values() and (not own or own == under):
            return None
        typed = checked(LIVE[name], entry, own if under else {**(said or {}), **own}, self._file, "changed live")
        return {each: typed[each] for each in own}

    async def forget(self, name: str, entry: str) -> dict[str, Any]:
        """What etcd says of an entry goes; the entry before. Raises ConfigError, BrokerError, KeyError: it says
        nothing."""
        before = dict(self.entry(name, entry) or {})
        if self._stored(name, entry) is None and not self._unreadable(name, entry):
            raise KeyError(entry)
        await self._allowed(name, entry, None)
        in_file = bool(tables_of(self._file)[LIVE["permissions"]])

        def left(entries: Mapping[str, Table]) -> None:
            if not in_file:
                last_permission(entries, {each: table for each, table in entries.items() if each != entry})

        for key in self._keys(name, entry):
            await self._writer.edit(key, lambda _: None, name, left if name == "permissions" else None)
        return before

    async def reload(self) -> dict[str, Any]:
        """Raises ConfigError."""
        raise ConfigError(
            "An edge of a cluster reads its config file when it starts; what can be changed while it runs is in etcd."
        )

    # ── where an entry is ──────────────────────────────────────────────────────────────────────────

    def _key(self, name: str, entry: str) -> str:
        """Where a change of it is written."""
        keys, config = self._writer.keys, self._config
        if name != "addresses":
            return _one(keys, name, entry)
        pattern = is_pattern(entry, self._file.engine.wildcard_delimiter)
        # `stampede cluster settings` takes addresses as well: where one is, it stays.
        there = entry in config.settings and entry not in config.addresses
        return keys.setting(entry) if pattern or there else keys.address(entry)

    def _keys(self, name: str, entry: str) -> list[str]:
        keys = self._writer.keys
        return [keys.setting(entry), keys.address(entry)] if name == "addresses" else [_one(keys, name, entry)]

    def _unreadable(self, name: str, entry: str) -> bool:
        return any(key in self._config.bad for key in self._keys(name, entry))

    async def _allowed(self, name: str, entry: str, stored: Table | None) -> None:
        """Raises ConfigError where that must not come into use."""
        now, table = self._now(), LIVE[name]
        said = tables_of(self._file)[table].get(entry)
        entries = dict(tables_of(now)[table])
        values = stored if name != "addresses" or stored is None else {**(said or {}), **stored}
        if values is None and said is None:
            entries.pop(entry, None)
        else:
            entries[entry] = values if values is not None else dict(said or {})
        if name == "addresses":
            after = with_tables(now, {**tables_of(now), table: entries})
            await asyncio.to_thread(refuse_shrinking, now.engine, after.engine)
        if name == "permissions":
            last_permission(tables_of(now)[table], entries)


def _row(name: str, entry: str, values: Table, said: Table | None, stored: Table | None) -> dict[str, Any]:
    source = "file" if stored is None else "live" if said is None else "file and live"
    over = {each: said[each] for each in stored if each in said and said[each] != stored[each]} if (
        stored is not None and said is not None
    ) else {}  # fmt: skip
    return {
        "table": name, "name": entry, "values": values, "source": source, "overridden": over, "live": stored or {},
        "by": "", "since": 0, "why": "",
    }  # fmt: skip


def _table(config: ConfigWatch, name: str) -> dict[str, Table]:
    return {
        "queues": config.queues, "diverts": config.diverts, "permissions": config.permissions,
        "bridges": config.bridges, "quotas": config.quotas,
    }[name]  # fmt: skip


def _one(keys: Keys, name: str, entry: str) -> str:
    return {
        "queues": keys.queue, "diverts": keys.divert, "permissions": keys.permission, "bridges": keys.bridge,
        "quotas": keys.quota,
    }[name](entry)  # fmt: skip
