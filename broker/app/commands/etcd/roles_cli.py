"""`stampede cluster roles`: users and roles of etcd, so that each kind of process reaches only its part of it.

Rule: passwords are read from files and never shown. Must not know which keys those are: cluster/etcd_roles.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from broker.core.errors import BrokerError, ConfigError

from ...process.shell_audit import changes
from ..options import Failure, Misuse, settings_of, source_options


class EtcdUser:
    """NAME:FILE of the command line."""

    def __init__(self, role: str, text: str) -> None:
        """Raises ConfigError."""
        self.role = role
        self.name, mark, file = text.partition(":")
        if not (self.name and mark and file):
            raise ConfigError(f"--{role} is NAME:FILE, a user of etcd and the file with the password.")
        if self.name == "root":
            raise ConfigError(f"--{role} cannot be root: it would get another password, and keep only this role.")
        self.password = password_of(file)


def password_of(file: str) -> str:
    """Raises ConfigError."""
    try:
        password = Path(file).read_text().strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the password in {file}: {error}.") from None
    if not password:
        raise ConfigError(f"There is no password in {file}.")
    return password


@click.command("roles")
@click.option("--owner", metavar="NAME:FILE", default="", help="User of owners, and the file with the password.")
@click.option("--edge", metavar="NAME:FILE", default="", help="The same of edges.")
@click.option("--operator", metavar="NAME:FILE", default="", help="Of the operator and of `stampede cluster`.")
@click.option("--read-only-edges", is_flag=True, help="Edges write no settings: their API changes none.")
@click.option("--enable", metavar="FILE", default="", help="Let etcd ask everybody for a password; FILE: that of root.")
@source_options
@changes("cluster.roles")
def roles(owner: str, edge: str, operator: str, read_only_edges: bool, enable: str, **options: Any) -> None:
    """Make roles and users of etcd, so that each kind of process reaches only its part of it. As root (etcd.user), or
    while etcd asks nobody for a password. May be repeated: passwords and rights are then as said."""
    given = {"owner": owner, "edge": edge, "operator": operator}
    try:
        users = [EtcdUser(role, text) for role, text in given.items() if text]
        root = password_of(enable) if enable else ""
    except ConfigError as error:
        raise Misuse(str(error)) from None
    if not users and not root:
        raise Misuse("Say which users: --owner NAME:FILE, --edge NAME:FILE, --operator NAME:FILE.")
    if len({user.name for user in users}) < len(users):
        raise Misuse("Each role has a user of its own: with one user for two nobody is kept from anything.")
    settings = settings_of(**options)

    async def run() -> None:
        from broker.cluster.etcd_roles import grants, role_name
        from broker.cluster.keys import Keys
        from broker.metadata.etcd_auth import EtcdAuth

        keys, auth = Keys(settings.etcd.prefix), EtcdAuth(settings.etcd)
        try:
            for user in users:
                name = role_name(keys, user.role)
                await auth.role(name, grants(keys, user.role, api=not read_only_edges))
                await auth.user(user.name, user.password, name)
                click.echo(f"{user.name} has the role {name}.")
            if root:
                await auth.enable(root)
                click.echo("etcd asks for a password from now on.")
        finally:
            await auth.close()

    try:
        asyncio.run(run())
    except BrokerError as error:
        raise Failure(str(error)) from None
