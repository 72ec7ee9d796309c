"""Live configuration: settings of addresses, addresses and users, as the metadata store has them.

    config/settings/<match>     {"max_delivery_attempts": 3}     for all addresses the pattern matches
    config/addresses/<name>     {"partitions": 8}                the same settings, for exactly this address
    config/queues/<name>        {"address": "orders"}            a queue that exists from the start
    config/diverts/<name>       {"address": "orders", "forward": "audit"}
    config/users/<name>         {"hash": "$argon2id$…", "groups": ["admins"]}

Rule: what is wrong is named once and left out; what was there before it stays in use. A permission that cannot be read
and was not there before is for nobody: what it was to close must not be open. Revisions applied only grow.
Must not know who uses the values: they go to callbacks, whole, after each batch of changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from broker.config.load import checked_entry
from broker.config.settings import EngineSettings
from broker.core.errors import ConfigError
from broker.metadata.port import Change, Metadata

from .keys import Keys, last_part
from .watched import Watched

log = logging.getLogger("stampede.cluster")

Tables = Mapping[str, Mapping[str, Any]]


class UserEntry(NamedTuple):
    """A user who may log in. hash: argon2id's text form. previous: of passcodes from before that are still valid."""

    hash: str
    groups: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()


def parsed_table(data: bytes, where: str) -> dict[str, Any]:
    """Raises ConfigError when `data` is not a JSON object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} must be a JSON object: {error}.") from None


def parsed_user(data: bytes, where: str) -> UserEntry:
    """Raises ConfigError."""
    table = parsed_table(data, where)
    unknown = sorted(set(table) - {"hash", "groups", "previous"})
    if unknown:
        raise ConfigError(f"{where} has an unknown entry {unknown[0]!r}; known are hash, groups and previous.")
    previous = table.get("previous", [])
    if not isinstance(previous, list):
        raise ConfigError(f"{where}: previous must be a list of argon2id hashes.")
    if not all(str(hash).startswith("$argon2id$") for hash in (table.get("hash", ""), *previous)):
        raise ConfigError(f"{where} has no argon2id hash; set the passcode with `stampede cluster users set`.")
    groups = table.get("groups", [])
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ConfigError(f"{where}: groups must be a list of texts.")
    return UserEntry(table["hash"], tuple(groups), tuple(previous))


class ConfigWatch:
    """on_engine_settings(settings)  `base` with everything from the store laid over it; `settings.addresses` has both
                                  patterns and exact names.
    on_users(users)               all users by name.
    on_addresses(addresses)       the addresses declared in the store with their own settings.
    on_permissions(permissions)   those of the config file, and those of the store in place of the same ones of it.
    on_applied(revision)          after the others: everything up to this revision is in use.
    """

    def __init__(
        self,
        metadata: Metadata,
        keys: Keys,
        base: EngineSettings,
        *,
        on_engine_settings: Callable[[EngineSettings], None] = lambda settings: None,
        on_users: Callable[[Mapping[str, UserEntry]], None] = lambda users: None,
        on_addresses: Callable[[Tables], None] = lambda addresses: None,
        permissions: Tables = MappingProxyType({}),
        on_permissions: Callable[[Tables], None] = lambda permissions: None,
        on_applied: Callable[[int], None] = lambda revision: None,
    ) -> None:
        self._keys = keys
        self._base = base
        self._on_engine_settings = on_engine_settings
        self._on_users = on_users
        self._on_addresses = on_addresses
        self._permissions = permissions
        self._on_permissions = on_permissions
        self._on_applied = on_applied
        self._watched = Watched(metadata, keys.config, self._apply)
        self.settings: dict[str, dict[str, Any]] = {}
        self.addresses: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.diverts: dict[str, dict[str, Any]] = {}
        self.permissions: dict[str, dict[str, Any]] = {}
        self.users: dict[str, UserEntry] = {}
        self.bad: dict[str, str] = {}
        """Key → what is wrong with its present value."""
        self.revision = 0

    async def start(self) -> None:
        """Reads everything; the callbacks have been called (if there is anything) when it returns.

        Raises MetadataRefused; waits while the store gives no answer."""
        await self._watched.start()

    async def stop(self) -> None:
        await self._watched.stop()

    def _apply(self, changes: list[Change]) -> None:
        kinds = {self._one(change) for change in changes}
        if kinds & {"settings", "addresses", "queues", "diverts"}:
            self._on_engine_settings(self._merged())
        if "addresses" in kinds:
            self._on_addresses(dict(self.addresses))
        if "permissions" in kinds:
            self._on_permissions({**self._permissions, **self.permissions})
        if "users" in kinds:
            self._on_users(dict(self.users))
        self.revision = max(self.revision, *(change.revision for change in changes))
        self._on_applied(self.revision)

    def _one(self, change: Change) -> str:
        """Takes one change into the tables; which of them it was, "" = none (it was bad or foreign)."""
        key, value, name = change.key, change.value, last_part(change.key)
        self.bad.pop(key, None)
        try:
            if key.startswith(self._keys.config_settings):
                _place(self.settings, name, value, lambda data: self._entry("engine.addresses", name, data))
                return "settings"
            if key.startswith(self._keys.config_addresses):
                _place(self.addresses, name, value, lambda data: self._entry("engine.addresses", name, data))
                return "addresses"
            if key.startswith(self._keys.config_queues):
                _place(self.queues, name, value, lambda data: self._entry("engine.queues", name, data))
                return "queues"
            if key.startswith(self._keys.config_diverts):
                _place(self.diverts, name, value, lambda data: self._entry("engine.diverts", name, data))
                return "diverts"
            if key.startswith(self._keys.config_permissions):
                _place(self.permissions, name, value, lambda data: self._entry("edge.permissions", name, data))
                return "permissions"
            if key.startswith(self._keys.config_users):
                _place(self.users, name, value, lambda data: parsed_user(data, f"cluster user {name}"))
                return "users"
        except ConfigError as error:
            self.bad[key] = str(error)
            if key.startswith(self._keys.config_permissions) and name not in self.permissions:
                self.permissions[name] = {}
                log.error("%s Nobody may do anything there until it is mended.", error)
                return "permissions"
            log.error("%s What was in use before it stays.", error)
        return ""

    def _entry(self, table: str, name: str, value: bytes) -> dict[str, Any]:
        where, base = "cluster configuration", self._base
        values = parsed_table(value, f"{where}, {table} {name}")
        return checked_entry(table, name, values, where, base.wildcard_delimiter, base.address)

    def _merged(self) -> EngineSettings:
        """The store wins over the config file, an address over a setting of the same name, a whole queue over one."""
        tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in self._base.addresses.items()}
        for more in (self.settings, self.addresses):
            for name, table in more.items():
                tables[name] = {**tables.get(name, {}), **table}
        queues, diverts = {**self._base.queues, **self.queues}, {**self._base.diverts, **self.diverts}
        return replace(self._base, addresses=tables, queues=queues, diverts=diverts)


def _place(tables: dict[str, Any], name: str, value: bytes | None, parse: Callable[[bytes], Any]) -> None:
    if value is None:
        tables.pop(name, None)
    else:
        tables[name] = parse(value)
