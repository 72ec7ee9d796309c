"""`stampede token …`: tokens with which machines ask the API of a running broker.

Exit codes: 0 done; 1 refused; 2 wrong usage; 3 no connection; 4 no such token.

Rule: arguments in, requests to the API out (admin_client.py). The token goes to stdout, once, and nothing else does.
"""

from __future__ import annotations

import click

from .admin_cli import dumped
from .admin_client import AdminApi, api_options, part, show


@click.group()
def token() -> None:
    """Tokens for machines: $STAMPEDE_TOKEN in place of login and passcode."""


@token.command("create")
@api_options
@click.argument("name")
@click.option("--group", "groups", multiple=True, required=True, help="What it may do; may be repeated.")
def create(url: str, login: str | None, output: str, name: str, groups: tuple[str, ...]) -> None:
    """Make a token and print it; it cannot be seen again."""
    told = AdminApi(url, login).call("POST", "/tokens", {"name": name, "groups": list(groups)})
    if output == "table":
        click.echo(told["token"])
    else:
        dumped(told, output)


@token.command("list")
@api_options
def list_(url: str, login: str | None, output: str) -> None:
    """Who has one, and what for."""
    show(AdminApi(url, login).get("/tokens")["items"], ("name", "groups", "by", "created"), output)


@token.command("revoke")
@api_options
@click.argument("name")
def revoke(url: str, login: str | None, output: str, name: str) -> None:
    """A client that uses it is a stranger from now on."""
    dumped(AdminApi(url, login).call("DELETE", f"/tokens/{part(name)}"), output)
