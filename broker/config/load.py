"""Settings from one file, the environment and flags: flags win over variables, variables over the file.

Rule: strict. An unknown name, a wrong type or unit, or two settings that contradict each other is a ConfigError
that names the setting, where it stood and the fix; nothing is guessed and nothing is dropped in silence.
Must not know what the settings are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NoReturn

import msgspec

from broker.core.errors import ConfigError
from broker.seams.files import read_whole

from .catalogue import address_leaves, leaves
from .checks import check, check_address
from .settings import AddressSettings, Settings
from .values import coerce

PREFIX = "STAMPEDE_"
NOT_SETTINGS = frozenset({"STAMPEDE_CONFIG", "STAMPEDE_URL", "STAMPEDE_LOGIN", "STAMPEDE_PASSCODE"})
"""Variables of ours that are read elsewhere (CLI)."""

_ADDRESSES = "engine.addresses"
# Kubernetes puts STAMPEDE_PORT=tcp://…, STAMPEDE_SERVICE_HOST and the like into every pod beside a Service named
# `stampede…`. They never hold a double underscore, our tables always do.
_SERVICE_LINK = re.compile(
    r"STAMPEDE(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def load(config_file: str | None, env: Mapping[str, str], overrides: Mapping[str, str]) -> Settings:
    """The effective settings. `overrides`: dotted name → text, from flags. Raises ConfigError."""
    values: dict[str, Any] = {}
    addresses: dict[str, dict[str, Any]] = {}
    for name, raw, where in _entries(config_file, env, overrides):
        if name.startswith(_ADDRESSES + "."):
            _address_setting(addresses, name, raw, where)
        else:
            values[name] = coerce(leaves()[_known(name, where)], raw, where)
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        table = tree
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    if addresses:
        tree.setdefault("engine", {})["addresses"] = addresses
    settings = msgspec.convert(tree, Settings)
    check(settings)
    return settings


def address_table(match: str, table: Mapping[str, Any], base: AddressSettings, where: str) -> dict[str, Any]:
    """The settings of one address or pattern, typed and checked as those of a config file. `base`: what they are laid
    over. Raises ConfigError."""
    tables: dict[str, dict[str, Any]] = {match: {}}
    for name, raw in table.items():
        if name not in address_leaves():
            _unknown(name, where, list(address_leaves()), "settings of an address: " + ", ".join(address_leaves()))
        _address_setting(tables, f"{_ADDRESSES}.{match}.{name}", raw, where)
    check_address(replace(base, **tables[match]), f'{where}, address "{match}"')
    return tables[match]


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
        return yaml.load(data, Loader)
    except yaml.YAMLError as error:
        raise msgspec.DecodeError(str(error)) from None


def _flatten(table: Mapping[Any, Any], prefix: str, where: str) -> Iterator[tuple[str, Any, str]]:
    for key, value in table.items():
        name = f"{prefix}{key}"
        if name in leaves() and name != _ADDRESSES:
            yield name, value, where
        elif isinstance(value, Mapping):
            yield from _flatten(value, name + ".", where)
        elif value is not None or not any(known.startswith(name + ".") for known in leaves()):
            yield name, value, where  # unknown, or a value where a table belongs: refused by name


def _known(name: str, where: str) -> str:
    """`name` if there is such a setting, else ConfigError with near misses."""
    table = leaves()
    if name in table and name != _ADDRESSES:
        return name
    if name == _ADDRESSES or any(known.startswith(name + ".") for known in table):
        raise ConfigError(
            f"{name} ({where}) is a table, not a value; set what is in it, for instance {_example(name)}."
        )
    _unknown(name, where, list(table), "`stampede serve --help` lists all")


def _example(name: str) -> str:
    if name == _ADDRESSES:
        return f'[{_ADDRESSES}."orders.#"] in a config file'
    return next(known for known in leaves() if known.startswith(name + "."))


def _unknown(name: str, where: str, names: list[str], hint: str) -> NoReturn:
    last = name.rpartition(".")[2]
    lasts = {known.rpartition(".")[2] for known in names}
    near = get_close_matches(name, names, 2, 0.75)
    for candidate in [] if near else get_close_matches(last, lasts, 1, 0.7):
        near = [known for known in names if known.rpartition(".")[2] == candidate]
    meant = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    raise ConfigError(f"Unknown setting {name} ({where}).{meant} {hint[0].upper() + hint[1:]}.")


def _address_setting(addresses: dict[str, dict[str, Any]], name: str, raw: Any, where: str) -> None:
    """`engine.addresses.orders.#.max_delivery_attempts`: the last part is the setting, the middle the pattern."""
    pattern, _, last = name[len(_ADDRESSES) + 1 :].rpartition(".")
    pattern = pattern.strip('"')
    if not pattern or "" in pattern.split("."):
        raise ConfigError(f"{name} ({where}) must be {_ADDRESSES}.<address or pattern>.<setting>.")
    words = pattern.split(".")
    if "#" in words[:-1] or any(mark in word and word != mark for word in words for mark in "*#"):
        raise ConfigError(
            f"{name} ({where}): in a pattern, `*` and `#` stand for whole words and `#` comes last, as in orders.#"
        )
    known = address_leaves()
    if last not in known:
        _unknown(name, where, list(known), "settings of an address: " + ", ".join(known))
    addresses.setdefault(pattern, {})[last] = coerce(known[last], raw, f"{where}, address {pattern}")
