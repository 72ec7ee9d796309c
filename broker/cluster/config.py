"""Live configuration: settings of addresses, addresses, users and tokens, as the metadata store has them.

    config/settings/<match>     {"max_delivery_attempts": 3}     for all addresses the pattern matches
    config/addresses/<name>     {"partitions": 8}                the same settings, for exactly this address
    config/queues/<name>        {"address": "orders"}            a queue that exists from the start
    config/diverts/<name>       {"address": "orders", "forward": "audit"}
    config/bridges/<name>       {"url": "stomp://eu:61613", "source": "/queue/orders"}
    config/quotas/<who>         {"max_connections": 100}         of user:ada, host:shop, ip:10.0.0.0/8; * for each
    config/users/<name>         {"hash": "$argon2id$…", "groups": ["admins"]}
    config/tokens/<name>        {"hash": "9f86d0…", "groups": ["ops"], "by": "ada", "created": 1764…}

Rule: what is wrong is named once and left out; what was there before it stays in use. A permission that cannot be read
and was not there before is for no user: what it was to close must not be open. And a process that starts with an entry
that it cannot read (`missing`) must not pass for one that has the whole configuration. Revisions applied only grow.
Must not know what uses the values: they go to callbacks, whole, after each batch of changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from broker.config.load import checked_entry
from broker.config.settings import EngineSettings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric
from broker.metadata.port import Change, KeyValue, Metadata

from .keys import Keys, last_part
from .watched import Watched

log = logging.getLogger("stampede.cluster")

Tables = Mapping[str, Mapping[str, Any]]

TOLD = 3
"""So many unreadable keys are named where a person looks; the log has all."""


class UserEntry(NamedTuple):
    """A user who may log in. hash: argon2id's text form. previous: of passcodes from before that are still valid."""

    hash: str
    groups: tuple[str, ...] = ()
    previous: tuple[str, ...] = ()


class KeptToken(msgspec.Struct, frozen=True):
    """With what a machine asks the API. hash: SHA-256 of the token. by: who has made it. created: milliseconds since
    1970."""

    hash: str
    groups: tuple[str, ...]
    by: str = ""
    created: int = 0


_OBJECT = msgspec.json.Decoder(dict[str, Any])


def parsed_table(data: bytes, where: str) -> dict[str, Any]:
    """Raises ConfigError when `data` is not a JSON object."""
    try:
        return _OBJECT.decode(data)
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


def parsed_token(data: bytes, where: str) -> KeptToken:
    """Raises ConfigError."""
    try:
        return msgspec.json.decode(data, type=KeptToken)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{where} cannot be read: {error}.") from None


ENTRIES: Mapping[str, str] = MappingProxyType({
    "settings": "engine.addresses", "addresses": "engine.addresses", "queues": "engine.queues",
    "diverts": "engine.diverts", "permissions": "edge.permissions", "users": "",
    "tokens": "", "bridges": "bridges", "quotas": "edge.quotas",
})  # fmt: skip
"""Part of the configuration → the table of a config file whose entries it has; users and tokens have none."""


def part_of(keys: Keys, key: str) -> str:
    """Which part of the configuration a key belongs to; "": none that this release knows."""
    part = key.removeprefix(keys.config).partition("/")[0]
    return part if key.startswith(keys.config) and part in ENTRIES else ""


def read_entry(part: str, name: str, data: bytes, base: EngineSettings) -> Any:
    """The value of one key, checked. Raises ConfigError, which says what mends it."""
    try:
        if part == "users":
            return parsed_user(data, f"cluster user {name}")
        if part == "tokens":
            return parsed_token(data, f"token {name}")
        table, where = ENTRIES[part], "cluster configuration"
        values = parsed_table(data, f"{where}, {table} {name}")
        return checked_entry(table, name, values, where, base.wildcard_delimiter, base.address)
    except ConfigError as error:
        if part == "tokens":
            raise ConfigError(f"{error} Revoke it with `stampede token revoke {name}`, and make another one.") from None
        gone, given = ("remove", "") if part == "users" else ("delete", " NAME=VALUE")
        raise ConfigError(
            f"{error} Mend it with `stampede cluster {part} set {name}{given}`, or take it away with "
            f"`stampede cluster {part} {gone} {name}`."
        ) from None


def all_bad(keys: Keys, items: Iterable[KeyValue], base: EngineSettings) -> dict[str, str]:
    """Key → what is wrong with it, of all that cannot be read."""
    found = {}
    for item in items:
        if part := part_of(keys, item.key):
            try:
                read_entry(part, last_part(item.key), item.value, base)
            except ConfigError as error:
                found[item.key] = str(error)
    return found


class ConfigWatch:
    """on_engine_settings(settings)  `base` with everything from the store laid over it; `settings.addresses` has both
                                  patterns and exact names.
    on_users(users)               all users by name.
    on_addresses(addresses)       the addresses declared in the store with their own settings.
    on_permissions(permissions)   those of the config file, and those of the store in place of the same ones of it.
    on_bridges(bridges)           those of the config file, and those of the store in place of the same ones of it.
    on_quotas(quotas)             those of the config file, and those of the store in place of the same ones of it.
    on_applied(revision)          after all other callbacks: everything up to this revision is in use.
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
        bridges: Tables = MappingProxyType({}),
        on_bridges: Callable[[Tables], None] = lambda bridges: None,
        quotas: Tables = MappingProxyType({}),
        on_quotas: Callable[[Tables], None] = lambda quotas: None,
        on_applied: Callable[[int], None] = lambda revision: None,
    ) -> None:
        self._keys = keys
        self._base = base
        self._on_engine_settings = on_engine_settings
        self._on_users = on_users
        self._on_addresses = on_addresses
        self._permissions = permissions
        self._on_permissions = on_permissions
        self._file_bridges = bridges
        self._on_bridges = on_bridges
        self._file_quotas = quotas
        self._on_quotas = on_quotas
        self._on_applied = on_applied
        self._watched = Watched(metadata, keys.config, self._apply)
        self.settings: dict[str, dict[str, Any]] = {}
        self.addresses: dict[str, dict[str, Any]] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.diverts: dict[str, dict[str, Any]] = {}
        self.permissions: dict[str, dict[str, Any]] = {}
        self.bridges: dict[str, dict[str, Any]] = {}
        self.quotas: dict[str, dict[str, Any]] = {}
        self.users: dict[str, UserEntry] = {}
        self.tokens: dict[str, KeptToken] = {}
        self.bad: dict[str, str] = {}
        """Key → what is wrong with its present value, and what mends it."""
        self.missing: set[str] = set()
        """Those of `bad` that were so when we started: nothing of them is in use, as it may be elsewhere."""
        self._started = False
        self.revision = 0
        self._moved = asyncio.Event()
        """Set, and another one from then on, whenever the revision has grown."""

    async def start(self) -> None:
        """Reads everything; the callbacks have been called (if there is anything) when it returns.

        Raises MetadataRefused; waits while the store gives no answer."""
        await self._watched.start()
        self._started = True

    async def stop(self) -> None:
        await self._watched.stop()

    def unreadable(self, part: str) -> bool:
        """Is there an entry in this part that cannot be read."""
        return any(part_of(self._keys, key) == part for key in self.bad)

    def told(self) -> str:
        """For people: what cannot be read, a few keys of it; "": everything can."""
        some = [f"{key} cannot be read: {why}" for key, why in sorted(self.bad.items())]
        more = [f"and {len(some) - TOLD} more"] if len(some) > TOLD else []
        return " ".join((*some[:TOLD], *more))

    def metrics(self) -> Iterable[Metric]:
        yield Metric("stomp_config_unreadable", "gauge", "Keys of the live configuration in etcd that this process "
                     "cannot read; `stampede cluster status` names them.", [({}, len(self.bad))])  # fmt: skip

    def _apply(self, changes: list[Change]) -> None:
        kinds = {self._one(change) for change in changes}
        if kinds & {"settings", "addresses", "queues", "diverts"}:
            self._on_engine_settings(self._merged())
        if "addresses" in kinds:
            self._on_addresses(dict(self.addresses))
        if "permissions" in kinds:
            self._on_permissions({**self._permissions, **self.permissions})
        if "bridges" in kinds:
            self._on_bridges({**self._file_bridges, **self.bridges})
        if "quotas" in kinds:
            self._on_quotas({**self._file_quotas, **self.quotas})
        if "users" in kinds:
            self._on_users(dict(self.users))
        self.revision = max(self.revision, *(change.revision for change in changes))
        self._on_applied(self.revision)
        self._moved.set()
        self._moved = asyncio.Event()

    async def reached(self, revision: int) -> None:
        """Returns when everything up to it is in use."""
        while self.revision < revision:
            await self._moved.wait()

    def _one(self, change: Change) -> str:
        """Takes one change into the tables; which of them it was, "" = none (it was bad or foreign)."""
        key, name, part = change.key, last_part(change.key), part_of(self._keys, change.key)
        if not part:
            return ""
        table: dict[str, Any] = getattr(self, part)
        try:
            if change.value is None:
                table.pop(name, None)
            else:
                table[name] = read_entry(part, name, change.value, self._base)
        except ConfigError as error:
            return self._bad(key, part, name, table, str(error))
        self.bad.pop(key, None)
        self.missing.discard(key)
        return part

    def _bad(self, key: str, part: str, name: str, table: dict[str, Any], why: str) -> str:
        self.bad[key] = why
        if name in table:
            log.error("%s: %s What was in use before it stays.", key, why)
            return ""
        # One that nobody knows opens nothing, and no client notices a bridge that does not run.
        if not self._started and part not in ("tokens", "bridges"):
            self.missing.add(key)
        if part == "permissions":
            table[name] = {}
            log.error("%s: %s Nobody may do anything there until it is mended.", key, why)
            return part
        log.error("%s: %s It is left out until it is mended.", key, why)
        return ""

    def _merged(self) -> EngineSettings:
        """The store wins over the config file, an address over a setting of the same name, a whole queue over one."""
        tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in self._base.addresses.items()}
        for more in (self.settings, self.addresses):
            for name, table in more.items():
                tables[name] = {**tables.get(name, {}), **table}
        queues, diverts = {**self._base.queues, **self.queues}, {**self._base.diverts, **self.diverts}
        return replace(self._base, addresses=tables, queues=queues, diverts=diverts)
