"""Settings from one file, the environment and flags: flags win over variables, variables over the file.

Rule: strict. An unknown name, a wrong type or unit, or two settings that contradict each other is a ConfigError
that names the setting, where it stood and the fix; nothing is guessed and nothing is dropped in silence.
Must not know what the settings are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec

from broker.core.errors import ConfigError
from broker.seams.files import read_whole

from .addressing import AddressSettings
from .catalogue import TABLES, entry_leaves, leaves
from .checks import check, check_entry
from .ports import OF_EDGE, named
from .settings import Settings
from .values import coerce

PREFIX = "STAMPEDE_"
NOT_SETTINGS = frozenset(
    {
        "STAMPEDE_CONFIG",
        "STAMPEDE_URL",
        "STAMPEDE_ADMIN_URL",
        "STAMPEDE_ADMIN_CA",
        "STAMPEDE_LOGIN",
        "STAMPEDE_PASSCODE",
        "STAMPEDE_TOKEN",
    }
)
"""Variables of ours that are read elsewhere (CLI)."""

_ADDRESSES = "engine.addresses"
_PERMISSIONS = "edge.permissions"
_BY_MATCH = (_ADDRESSES, _PERMISSIONS)
"""Tables whose entries are named by an address or a pattern of addresses."""
_DELIMITER = "engine.wildcard_delimiter"
_ADDRESS = AddressSettings()
# Kubernetes puts STAMPEDE_PORT=tcp://…, STAMPEDE_SERVICE_HOST and the like into every pod beside a Service named
# `stampede…`. They never hold a double underscore, our tables always do.
_SERVICE_LINK = re.compile(
    r"STAMPEDE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def load(config_file: str | None, env: Mapping[str, str], overrides: Mapping[str, str]) -> Settings:
    """The effective settings. `overrides`: dotted name → text, from flags. Raises ConfigError."""
    return _settings(list(_entries(config_file, env, overrides)))


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Where the settings of a process come from, to be read again: see load()."""

    config_file: str | None
    env: Mapping[str, str]
    overrides: Mapping[str, str]
    _origins: dict[str, str] = field(default_factory=dict, compare=False)

    def read(self) -> Settings:
        """As it is now. Raises ConfigError."""
        entries = list(_entries(self.config_file, self.env, self.overrides))
        settings = _settings(entries)
        self._origins.clear()
        self._origins.update({_table_of(name) or name: where for name, _, where in entries})
        return settings

    def origins(self) -> dict[str, str]:
        """Setting → where the value stood that counted when it was read last; of a table: where the last of its entries
        stood. Raises ConfigError."""
        if not self._origins:
            self.read()
        return dict(self._origins)


def from_tree(tree: Mapping[str, Any], where: str) -> Settings:
    """The settings that a config file with these tables would give. Raises ConfigError."""
    return _settings(list(_flatten(tree, "", where)))


def _settings(entries: list[tuple[str, Any, str]]) -> Settings:
    values: dict[str, Any] = {}
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    delimiter = next((str(raw) for name, raw, _ in reversed(entries) if name == _DELIMITER), ".")
    for name, raw, where in entries:
        table_name = _table_of(name)
        if table_name is not None and raw == {}:
            entry = _entry_name(table_name, name[len(table_name) + 1 :], name, where, delimiter)
            tables.setdefault(table_name, {}).setdefault(entry, {})
        elif table_name is not None:
            _entry_setting(table_name, tables.setdefault(table_name, {}), name, raw, where, delimiter)
        else:
            values[name] = coerce(leaves()[_known(name, where)], raw, where)
    _give_way(values, tables.get("acceptors", {}))
    tree: dict[str, Any] = {}
    for name, value in {**values, **tables}.items():
        *path, last = name.split(".")
        table = tree
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    settings = msgspec.convert(tree, Settings)
    check(settings)
    return settings


def _table_of(name: str) -> str | None:
    """The table of named entries that a dotted name belongs to."""
    first, _, rest = name.partition(".")
    if first in TABLES and rest:
        return first
    table = f"{first}.{rest.partition('.')[0]}"
    return table if table in TABLES and len(name) > len(table) else None


def _give_way(values: dict[str, Any], acceptors: Mapping[str, Mapping[str, Any]]) -> None:
    """A port of [edge] that nobody has set is off when an acceptor wants it, or has its name."""
    wanted = {named(name, table).settings.port for name, table in acceptors.items()}
    for name, port in OF_EDGE.items():
        setting = f"edge.{port}"
        if setting not in values and (name in acceptors or leaves()[setting].default in wanted):
            values[setting] = -1


def checked_entry(
    table: str,
    entry: str,
    values: Mapping[str, Any],
    where: str,
    delimiter: str = ".",
    base: AddressSettings = _ADDRESS,
) -> dict[str, Any]:
    """An entry of `table` (catalogue.TABLES), typed and checked as those of a config file. `delimiter`:
    engine.wildcard_delimiter; `base`: what the settings of an address are laid over. Raises ConfigError."""
    typed = entry_table(table, entry, values, where, delimiter)
    check_entry(table, entry, typed, f'{where}, {_noun(table)} "{entry}"', delimiter, base)
    return typed


def entry_table(table: str, entry: str, values: Mapping[str, Any], where: str, delimiter: str = ".") -> dict[str, Any]:
    """The settings of one entry of `table` (catalogue.TABLES), typed as those of a config file. Raises ConfigError."""
    _entry_name(table, entry, f"{table}.{entry}", where, delimiter)
    known, place = entry_leaves(table), f"{where}, {_noun(table)} {entry}"
    for name in values:
        if name not in known:
            _unknown(name, where, list(known), f"settings of {_OWNERS[table]}: " + ", ".join(known))
    return {name: coerce(known[name], raw, place) for name, raw in values.items()}


def _entries(
    config_file: str | None, env: Mapping[str, str], overrides: Mapping[str, str]
) -> Iterator[tuple[str, Any, str]]:
    """(dotted name, raw value, where it stood), weakest source first."""
    if config_file:
        yield from _flatten(_parse(config_file), "", f"in {config_file}")
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if "__" in variable or not _SERVICE_LINK.fullmatch(variable):
            yield variable[len(PREFIX) :].lower().replace("__", "."), env[variable], f"variable {variable}"
    for name, text in overrides.items():
        yield name, text, "on the command line"


def _parse(path: str) -> dict[str, Any]:
    try:
        data = read_whole(path)
    except OSError as error:
        raise ConfigError(f"Cannot read the config file {path}: {error.strerror}.") from None
    try:
        tree = _parsed_yaml(data) if path.endswith((".yaml", ".yml")) else msgspec.toml.decode(data)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} cannot be parsed: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8.") from None
    if tree is None:  # an empty YAML file
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold tables like `[edge]`, not a {type(tree).__name__}.")
    return tree


def _parsed_yaml(data: bytes) -> Any:
    """Like msgspec.yaml.decode, but a key written twice is an error: PyYAML would keep the last in silence."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if key in found:
                raise ConfigError(f"{key!r} stands twice in the YAML file (line {key_node.start_mark.line + 1}).")
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(data, Loader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        raise msgspec.DecodeError(str(error)) from None


def _flatten(table: Mapping[Any, Any], prefix: str, where: str) -> Iterator[tuple[str, Any, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if name in leaves() and name not in TABLES:
            yield name, value, where
        elif isinstance(value, Mapping) and (value or not any(name.startswith(known + ".") for known in TABLES)):
            yield from _flatten(value, name + ".", where)
        elif value is not None or not any(known.startswith(name + ".") for known in leaves()):
            yield name, value, where  # unknown, or a value where a table belongs: refused by name


def _known(name: str, where: str) -> str:
    """`name` if there is such a setting, else ConfigError with near misses."""
    table = leaves()
    if name in table and name not in TABLES:
        return name
    if name in TABLES or any(known.startswith(name + ".") for known in table):
        raise ConfigError(
            f"{name} ({where}) is a table, not a value; set what is in it, for instance {_example(name)}."
        )
    _unknown(name, where, list(table), "`stampede serve --help` lists all")


def _example(name: str) -> str:
    if name in TABLES:
        return f'[{name}."{"orders.#" if name in _BY_MATCH else "orders"}"] in a config file'
    return next(known for known in leaves() if known.startswith(name + "."))


def _unknown(name: str, where: str, names: list[str], hint: str) -> NoReturn:
    last = name.rpartition(".")[2]
    lasts = {known.rpartition(".")[2] for known in names}
    near = get_close_matches(name, names, 2, 0.75)
    for candidate in [] if near else get_close_matches(last, lasts, 1, 0.7):
        near = [known for known in names if known.rpartition(".")[2] == candidate]
    meant = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    raise ConfigError(f"Unknown setting {name} ({where}).{meant} {hint[0].upper() + hint[1:]}.")


def _entry_setting(
    table: str, entries: dict[str, dict[str, Any]], name: str, raw: Any, where: str, delimiter: str
) -> None:
    """`engine.addresses.orders.#.max_delivery_attempts`: the last part is the setting, the middle the entry's name."""
    named, _, last = name[len(table) + 1 :].rpartition(".")
    entry = named if named in entries else _entry_name(table, named, name, where, delimiter)
    known = entry_leaves(table)
    if last not in known:
        _unknown(name, where, list(known), f"settings of {_OWNERS[table]}: " + ", ".join(known))
    entries.setdefault(entry, {})[last] = coerce(known[last], raw, f"{where}, {_noun(table)} {entry}")


def _entry_name(table: str, named: str, name: str, where: str, delimiter: str) -> str:
    """The entry that stands as `named` in the dotted name. Raises ConfigError."""
    entry = named.strip('"')
    if not entry or (table in _BY_MATCH and delimiter == "." and "" in entry.split(".")):
        raise ConfigError(f"{name} ({where}) must be {table}.<{_ENTRY_NAMES.get(table, 'name')}>.<setting>.")
    if table in _BY_MATCH:
        _check_pattern(entry, name, where, delimiter)
    return entry


_ENTRY_NAMES = dict.fromkeys(_BY_MATCH, "address or pattern")
_OWNERS = {
    _ADDRESSES: "an address",
    "engine.queues": "a queue",
    "engine.diverts": "a divert",
    "acceptors": "an acceptor",
    _PERMISSIONS: "a permission",
    "edge.exchanges": "an exchange",
    "edge.virtual_hosts": "a virtual host",
    "edge.quotas": "a quota",
    "bridges": "a bridge",
    "edge.issuers": "an issuer",
    "edge.ldap": "a directory",
    "edge.hooks": "a hook",
}


def _noun(table: str) -> str:
    return _OWNERS[table].split()[-1]


def _check_pattern(pattern: str, name: str, where: str, delimiter: str) -> None:
    if "*" not in pattern and "#" not in pattern:
        return
    words = pattern.split(delimiter or None)
    if "#" in words[:-1] or [word for word in words if len(word) > 1 and ("*" in word or "#" in word)]:
        raise ConfigError(
            f"{name} ({where}): in a pattern, `*` and `#` stand for whole words and `#` comes last, "
            f"as in orders{delimiter}#"
        )
