"""What of virtual hosts makes no sense: names that nobody could write, entries that reach from one host into another.

Rule: as checks.py. An entry is looked at alone, so that a live change is held to the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from broker.core.address import RECURRING, TEMPORARY
from broker.core.errors import ConfigError
from broker.core.virtual_host import HOST, NAME, split

from ..acceptor import AcceptorSettings
from ..addressing import AddressSettings
from ..ports import prefixes
from ..settings import Settings

BY_NAME = ("engine.addresses", "engine.queues", "edge.permissions")
"""Tables whose entries are named by what they are about."""
LETTERS = ("dead_letter_address", "expiry_address")


def check_hosts(settings: Settings, acceptors: Mapping[str, AcceptorSettings]) -> None:
    """Raises ConfigError for the first contradiction."""
    hosts = settings.edge.virtual_hosts
    delimiter = settings.engine.wildcard_delimiter
    taken = dict.fromkeys([name.lower() for name in prefixes(settings.edge.default_host_names)], "")
    for host, table in hosts.items():
        where = f'edge.virtual_hosts."{host}"'
        if not NAME.fullmatch(host):
            raise ConfigError(f"{where}: its name has letters, digits, - and _, 40 at most; put others into `names`.")
        if NAME.fullmatch(delimiter) or delimiter in HOST:
            raise ConfigError(
                f"engine.wildcard_delimiter is {delimiter!r}; with virtual hosts it is no letter, digit, - _ $ or /."
            )
        for name in (host, *prefixes(table.get("names", ""))):
            other = taken.setdefault(name.lower(), host)
            if other != host:
                raise ConfigError(f"{where}: {name!r} is a name of {other or 'the default host'}, too; take one away.")
        if table.get("max_connections") == 0:
            raise ConfigError(f"{where}.max_connections is 0, so nobody could come in; -1 means no limit.")
    for acceptor, its in acceptors.items():
        if its.virtual_host and its.virtual_host not in hosts:
            raise ConfigError(
                f"acceptors.{acceptor}.virtual_host is {its.virtual_host!r}, which is not there; add "
                f"[edge.virtual_hosts.{its.virtual_host}]."
            )
    for known in BY_NAME:
        for entry in attrgetter(known)(settings):
            if (host := split(entry).host) and host not in hosts:
                raise ConfigError(
                    f'{known}."{entry}": there is no virtual host {host!r}; add [edge.virtual_hosts.{host}].'
                )


def check_defaults(base: AddressSettings) -> None:
    """What holds for all addresses of all hosts. Raises ConfigError."""
    letters = {name: getattr(base, name) for name in LETTERS}
    check_reserved("engine.address", "", letters, "engine.address")
    for name, letter in letters.items():
        if letter.startswith(HOST):
            raise ConfigError(
                f"engine.address.{name} is {letter!r}; a name without {HOST} is one in each virtual host."
            )


def check_reserved(table: str, entry: str, values: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError for an entry that leads messages where they would be dropped, or found by nobody."""
    names = [values.get(field) or "" for field in (*LETTERS, "address")]
    names += [name.strip() for name in values.get("forward", "").split(",")]
    if table == "engine.queues":
        names.append(entry)
    for name in names:
        if name.startswith((RECURRING, TEMPORARY)):
            raise ConfigError(f"{where}: {name!r} is the broker's own; name an address that clients can name.")


def check_one_host(table: str, entry: str, values: Mapping[str, Any], where: str, delimiter: str) -> None:
    """Raises ConfigError for an entry that would be about two hosts, or that looks as if it were about one."""
    names: Iterable[str]
    if table == "engine.queues":
        names = (entry, values.get("address") or entry)
    elif table == "engine.diverts":
        names = (values.get("address", ""), *(name.strip() for name in values.get("forward", "").split(",")))
    else:
        names = (entry,)
    parts = [part for name in names for part in name.split("::")]
    hosts = {split(part).host for part in parts}
    if len(hosts) > 1:
        told = " and ".join(sorted(host or "the default host" for host in hosts))
        raise ConfigError(f"{where}: it would lead from one virtual host into another ({told}); keep it in one.")
    for letters in LETTERS:
        other = split(values.get(letters) or "").host
        if other and {other} != hosts:
            raise ConfigError(f"{where}: {letters} is in another virtual host ({other}); name one of its own.")
    for part in parts:
        host, local = split(part)
        if part.startswith(HOST) and not (host and local and part in _written(host, local, delimiter)):
            raise ConfigError(
                f"{where}: {part!r} must be {HOST}NAME{delimiter}…: the name of a virtual host, and of what is in it."
            )


def _written(host: str, local: str, delimiter: str) -> tuple[str, str]:
    return f"{HOST}{host}{delimiter}{local}", f"{HOST}{host}{local}" if local.startswith("$") else ""
