"""Every setting as one flat list: dotted name → type, default, unit, help, reason, bounds.

Rule: all of it is derived from the dataclasses in settings.py, nothing is written down twice. Loading, help
texts and docs walk this list. Knows nothing of files, variables or flags.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from .acceptor import AcceptorSettings
from .addressing import AddressSettings, DivertSettings, QueueSettings
from .bridges import BridgeSettings
from .exchange import ExchangeSettings
from .logins.hook import HookSettings
from .logins.issuer import IssuerSettings
from .logins.ldap import LdapSettings
from .permissions import PermissionSettings
from .quotas import QuotaSettings
from .settings import Settings
from .virtual_hosts import VirtualHostSettings

TABLES: dict[str, type] = {
    "engine.addresses": AddressSettings,
    "engine.queues": QueueSettings,
    "engine.diverts": DivertSettings,
    "acceptors": AcceptorSettings,
    "edge.permissions": PermissionSettings,
    "edge.quotas": QuotaSettings,
    "edge.exchanges": ExchangeSettings,
    "edge.virtual_hosts": VirtualHostSettings,
    "bridges": BridgeSettings,
    "edge.issuers": IssuerSettings,
    "edge.ldap": LdapSettings,
    "edge.hooks": HookSettings,
}
"""Tables whose entries have names that the user gives, and the settings of one entry."""


class Leaf:
    """One setting. `name` is dotted (`edge.port`); `kind` is bool, int, float, str or dict (the address table)."""

    __slots__ = ("default", "help", "kind", "least", "most", "name", "unit", "why")

    def __init__(self, name: str, kind: type, default: Any, about: dict[str, Any]) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.unit: str = about["unit"]
        self.help: str = about["help"]
        self.why: str = about["why"]
        self.least, self.most = _bounds(kind, default, self.unit, about.get("least"), about.get("most"))


class Group:
    """A table of settings: dotted name ("" = the top) and the one-line docstring of its dataclass."""

    __slots__ = ("about", "leaves", "name")

    def __init__(self, name: str, about: str) -> None:
        self.name = name
        self.about = about
        self.leaves: list[Leaf] = []


def _bounds(
    kind: type, default: Any, unit: str, least: float | None, most: float | None
) -> tuple[float | None, float | None]:
    """A default is always legal; 0 and -1 are legal only where the default or `least` says so."""
    if kind not in (int, float):
        return None, None
    if unit == "TCP port":
        return -1, 65535
    if unit == "fraction":
        return 0, 1
    if least is None:
        smallest = 0.05 if unit == "seconds" else 1
        least = min(smallest, default)
    return least, most


def _walk(cls: type, prefix: str, into: list[Group]) -> None:
    group = Group(prefix, (cls.__doc__ or "").strip().splitlines()[0])
    into.append(group)
    hints = get_type_hints(cls)
    for field in fields(cls):
        name = f"{prefix}.{field.name}" if prefix else field.name
        kind = hints[field.name]
        if is_dataclass(kind):
            _walk(kind, name, into)  # type: ignore[arg-type]  # is_dataclass says it is a class here
        else:
            is_table = name in TABLES
            group.leaves.append(
                Leaf(name, dict if is_table else kind, {} if is_table else field.default, dict(field.metadata))
            )


@cache
def groups() -> tuple[Group, ...]:
    """All tables in the order of the dataclasses, the top first."""
    found: list[Group] = []
    _walk(Settings, "", found)
    return tuple(found)


@cache
def leaves() -> dict[str, Leaf]:
    """All settings by dotted name."""
    return {leaf.name: leaf for group in groups() for leaf in group.leaves}


@cache
def entry_leaves(table: str) -> dict[str, Leaf]:
    """The settings of one entry of a table (see TABLES), by bare name."""
    found: list[Group] = []
    _walk(TABLES[table], "", found)
    return {leaf.name: leaf for leaf in found[0].leaves}


def entry_about(table: str) -> str:
    """What an entry of that table is, in one line."""
    return (TABLES[table].__doc__ or "").strip().splitlines()[0]
