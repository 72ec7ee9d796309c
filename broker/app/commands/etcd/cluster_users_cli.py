"""`stampede cluster users`: who may log in at every edge, as etcd has it.

Rule: as commands/cluster_cli.py; hashes are never shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from broker.core.errors import BrokerError

from ...process.shell_audit import changes
from ..asked_passcode import asked_passcode
from ..cluster_cli import tables, with_cluster
from ..options import Failure, Misuse, source_options

if TYPE_CHECKING:
    from broker.cluster.keys import Keys
    from broker.config.settings import Settings
    from broker.metadata.port import Metadata


@click.group()
def users() -> None:
    """Users who may log in at every edge."""


@users.command("list")
@source_options
def users_list(**options: Any) -> None:
    """Names, one per line."""
    for name in sorted(with_cluster(options, lambda metadata, keys, _: tables(metadata, keys.config_users, ""))):
        click.echo(name)


@users.command("set")
@click.argument("name")
@click.option("--passcode-stdin", is_flag=True, help="Read the passcode from standard input instead of asking.")
@click.option("--group", "groups", multiple=True, help="A group of the user (may be repeated); without: as before.")
@source_options
@changes("cluster.users.set", "name", "groups")
def users_set(name: str, passcode_stdin: bool, groups: tuple[str, ...], **options: Any) -> None:
    """Add user NAME, or change the passcode."""
    from broker.cluster.operate import edit_table
    from broker.edge.access.users import check_name, checked_groups
    from broker.seams.passcodes import hash_passcode

    try:
        check_name(name)
        checked = checked_groups(groups)
    except BrokerError as error:
        raise Misuse(str(error)) from None
    hashed = hash_passcode(asked_passcode(name, passcode_stdin))
    changes = {"hash": hashed, "previous": None, **({"groups": checked} if groups else {})}
    with_cluster(options, lambda metadata, keys, _: edit_table(metadata, keys.user(name), changes))
    click.echo(f"User {name} may log in at every edge.")


@users.command("groups")
@click.argument("name")
@click.argument("groups", nargs=-1, metavar="[GROUP…]")
@source_options
@changes("cluster.users.groups", "name", "groups")
def users_groups(name: str, groups: tuple[str, ...], **options: Any) -> None:
    """User NAME belongs to these groups from now on, and to no other. Open connections notice at once."""
    from broker.cluster.operate import edit_table
    from broker.edge.access.users import checked_groups

    try:
        checked = checked_groups(groups)
    except BrokerError as error:
        raise Misuse(str(error)) from None

    async def work(metadata: Metadata, keys: Keys, _: Settings) -> None:
        if await metadata.get(keys.user(name)) is None:
            raise Failure(f"There is no user {name}.")
        await edit_table(metadata, keys.user(name), {"groups": checked or None})

    with_cluster(options, work)
    click.echo(f"{name} belongs to {', '.join(checked) or 'no group'}.")


@users.command("remove")
@click.argument("name")
@source_options
@changes("cluster.users.remove", "name")
def users_remove(name: str, **options: Any) -> None:
    """Remove user NAME."""
    if not with_cluster(options, lambda metadata, keys, _: metadata.delete(keys.user(name))):
        raise Failure(f"There is no user {name}.")
    click.echo(f"Removed {name}.")
