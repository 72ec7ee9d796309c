"""`stampede config …`: settings of a running broker, changed without a restart (docs/operations.md).

Exit codes: 0 done; 1 refused, or something of it needs a restart; 2 wrong usage; 3 no connection; 4 no such thing.

Rule: arguments in, requests to the API out (admin_client.py).
"""

from __future__ import annotations

from typing import Any

import click

from .admin_cli import dumped
from .admin_client import NO_SUCH_THING, REFUSED, AdminApi, api_options, cell, dump, part, show
from .data_cli import told

TABLES = click.Choice(["addresses", "queues", "diverts", "permissions", "quotas", "bridges"])


@click.group()
def config() -> None:
    """Addresses, queues, diverts, permissions, quotas and bridges of a running broker, changed without a restart.

    Ask a standalone one, or an edge for its cluster (straight in etcd: `stampede cluster addresses …`)."""


@config.command("list")
@api_options
@click.argument("table", type=TABLES, required=False)
@click.option("-q", "part_of", metavar="TEXT", help="Only names that hold this text.")
@click.option("--live", is_flag=True, help="Only what was changed live.")
def list_(url: str, login: str | None, output: str, table: str | None, part_of: str | None, live: bool) -> None:
    """What is in use, where it comes from, and what the config file says where that was changed."""
    query = {"table": table, "q": part_of, "live": "true" if live else None}
    rows = list(AdminApi(url, login).rows("/config", 1_000_000, **query))
    if output == "table":
        rows = [{**row, "values": _pairs(row["values"]), "overridden": _pairs(row["overridden"])} for row in rows]
    show(rows, ("table", "name", "values", "source", "overridden", "by", "why"), output)


def _pairs(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={cell(value)}" for name, value in values.items())


@config.command("set")
@api_options
@click.argument("table", type=TABLES)
@click.argument("name")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE…")
def set_(url: str, login: str | None, output: str, table: str, name: str, values: tuple[str, ...]) -> None:
    """Change settings of an entry, or make one; NAME= without a value takes a change back."""
    changes: dict[str, str | None] = {}
    for text in values:
        setting, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{text!r} must be NAME=VALUE.")
        changes[setting.strip()] = value.strip() or None
    path = f"/config/{table}/{part(name)}"
    dumped(AdminApi(url, login).call("PATCH", path, {"values": changes}), output)


@config.command("reset")
@api_options
@click.argument("table", type=TABLES)
@click.argument("name")
@click.option("--data", metavar="FOLDER", help="Of a broker that does not run: its data folder.")
def reset(url: str, login: str | None, output: str, table: str, name: str, data: str | None) -> None:
    """Take back what was changed live; what the config file says counts again. Messages are not touched."""
    if data is not None:
        from ..live.live import forget_kept

        try:
            with told():
                forget_kept(data, table, name)
        except KeyError:
            click.echo(f"stampede: nothing was changed live of {table} {name} in {data}", err=True)
            raise SystemExit(NO_SUCH_THING) from None
        return
    dumped(AdminApi(url, login).call("DELETE", f"/config/{table}/{part(name)}"), output)


@config.command("reload")
@api_options
def reload(url: str, login: str | None, output: str) -> None:
    """Have the config file read again, as SIGHUP does. What needs a restart is named and stays as it was."""
    answer = AdminApi(url, login).call("POST", "/config/reload")
    if output != "table":
        dump(answer, output)
    else:
        for one in answer["changed"]:
            click.echo(f"changed  {one['table']} {one['name']}")
        if not answer["changed"]:
            click.echo("No entry is another now.")
        elif answer["total"] > len(answer["changed"]):
            click.echo(f"… {answer['total']} in all")
    for one in answer["aside"]:
        click.echo(
            f"stampede: what was changed live of {one['table']} {one['name']} is set aside: {one['why']}", err=True
        )
    for one in answer["restart"]:
        click.echo(
            f"stampede: {one['name']} needs a restart: it is {cell(one['in_use'])}, the file has {cell(one['wanted'])}",
            err=True,
        )
    if answer["restart"] or answer["aside"]:
        raise SystemExit(REFUSED)
