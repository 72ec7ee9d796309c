"""`stampede user …` and `stampede journal …`: what is done to a data folder from outside the broker.

Rule: passcodes come from a prompt or stdin, never from the command line, where every process can read them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from broker.core.errors import BrokerError
from broker.seams.files import OsFiles

from ..process.shell_audit import changes
from .asked_passcode import asked_passcode
from .options import Failure, Misuse, settings_of, source_options


@contextmanager
def told() -> Iterator[None]:
    """Errors that we raise on purpose, and those of the system, become one line and exit status 1."""
    try:
        yield
    except BrokerError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename or 'data folder'}: {error.strerror or error}") from None


def _users_file(options: dict[str, Any]) -> str:
    settings = settings_of(**options)
    return settings.edge.users_file or os.path.join(settings.data, "users.toml")


@click.group()
def user() -> None:
    """Add, remove and list users."""


@user.command("add")
@click.argument("name")
@click.option("--passcode-stdin", is_flag=True, help="Read the passcode from standard input instead of asking.")
@click.option("--group", "groups", multiple=True, help="A group of the user (may be repeated); without: as before.")
@source_options
@changes("user.add", "name", "groups")
def add(name: str, passcode_stdin: bool, groups: tuple[str, ...], **options: Any) -> None:
    """Add user NAME, or change the passcode."""
    from broker.edge.access.users import add_user

    path = _users_file(options)
    passcode = asked_passcode(name, passcode_stdin)
    with told():
        known = add_user(path, name, passcode, groups)
    click.echo(f"{'Changed the passcode of' if known else 'Added'} {name} in {path}.")


@user.command("groups")
@click.argument("name")
@click.argument("groups", nargs=-1, metavar="[GROUP…]")
@source_options
@changes("user.groups", "name", "groups")
def groups(name: str, groups: tuple[str, ...], **options: Any) -> None:
    """User NAME belongs to these groups from now on, and to no other. Open connections notice within a second."""
    from broker.edge.access.users import set_groups

    with told():
        now = set_groups(_users_file(options), name, groups)
    click.echo(f"{name} belongs to {', '.join(now) or 'no group'}.")


@user.command("remove")
@click.argument("name")
@source_options
@changes("user.remove", "name")
def remove(name: str, **options: Any) -> None:
    """Remove user NAME."""
    from broker.edge.access.users import remove_user

    path = _users_file(options)
    with told():
        remove_user(path, name)
    click.echo(f"Removed {name} from {path}.")


@user.command("list")
@source_options
def show(**options: Any) -> None:
    """List the users, one per line."""
    from broker.edge.access.users import list_users

    with told():
        for name in list_users(_users_file(options)):
            click.echo(name)


@click.group()
def journal() -> None:
    """Check, read or repair the journal of a stopped broker."""


def folder_of(options: dict[str, Any]) -> str:
    """Of the journal that the settings name. Raises Misuse when there is none."""
    folder = os.path.join(settings_of(**options).data, "journal")
    if not os.path.isdir(folder):
        raise Misuse(f"There is no journal in {folder}; say where the data is with --data or --config.")
    return folder


@journal.command("verify")
@source_options
def verify(**options: Any) -> None:
    """Read every byte and say whether it checks. Changes nothing; exit status 1 when something is damaged."""
    from broker.journal.tools import inspect

    with told():
        report = inspect.verify(OsFiles(), folder_of(options))
    for line in report.lines:
        click.echo(line)
    for segment, offset in report.damaged:
        click.echo(
            f"to take this out: stampede journal repair --drop {segment:x}:{offset}   (what stood there is lost)"
        )
    if not report.ok:
        click.echo("to keep everything that can be read, in a new folder: stampede journal salvage")
    raise SystemExit(0 if report.ok else 1)


LOST = 3
"""Exit status: not everything could be read."""


@journal.command("dump")
@click.option("--bodies", is_flag=True, help="Also print message bodies.")
@click.option("--live", is_flag=True, help="All that lives, bodies included, for `stampede journal load`.")
@source_options
def dump(bodies: bool, live: bool, **options: Any) -> None:
    """Print every record as one line of JSON; with --live what lives, as `stampede journal load` reads it."""
    from broker.journal.tools import inspect

    if live:
        _dump_live(folder_of(options))
        return
    with told():
        for record in inspect.dump(OsFiles(), folder_of(options), bodies=bodies):
            click.echo(json.dumps(record, ensure_ascii=False, default=str))


def _dump_live(folder: str) -> None:
    """Prints all that lives; what is lost goes to stderr."""
    from broker.journal.tools.salvage import Salvaged, carry, remains
    from broker.journal.tools.transcript import Transcript

    report = Salvaged()
    with told(), remains(OsFiles(), folder, report) as (wreck, scan, live_index):
        sink = Transcript(lambda row: click.echo(json.dumps(row, ensure_ascii=False, default=str)))
        carry(scan, wreck, live_index, OsFiles(), folder, sink, report)
    for line in report.lost:
        click.echo(f"LOST: {line}", err=True)
    if report.lost:
        raise SystemExit(LOST)


@journal.command("repair")
@click.option("--drop", required=True, metavar="SEGMENT:OFFSET", help="The damaged place, as `verify` prints it.")
@source_options
@changes("journal.repair", "drop")
def repair(drop: str, **options: Any) -> None:
    """Drop one damaged place so that the broker can start. What is removed is kept as a `.broken` copy."""
    from broker.journal.tools import inspect

    segment, colon, offset = drop.partition(":")
    try:
        place = (int(segment.removesuffix(".log"), 16), int(offset))
    except ValueError:
        colon = ""
    if not colon:
        raise Misuse(f"--drop needs SEGMENT:OFFSET as `stampede journal verify` prints it, not {drop!r}.")
    with told():
        for line in inspect.repair(OsFiles(), folder_of(options), place):
            click.echo(line)
