"""The API for operators as the command line asks it, and how answers are shown.

Exit codes: 0 done; 1 refused, or not all of it could be done; 2 wrong usage; 3 no connection; 4 no such thing.

Rule: no logic of the broker; a problem becomes its detail and its fix on stderr.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPException
from threading import Event
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, urlencode

import click

from broker.seams.client_tls import client_context

REFUSED, NO_CONNECTION, NO_SUCH_THING = 1, 3, 4
TIMEOUT_S = 600.0
PAGE = 500
STARTING = "urn:stampede:problem:starting"
STARTS_S = 5.0
"""So long a broker that says it starts is asked again, every AGAIN_S. It has done nothing of what it was asked."""
AGAIN_S = 0.2

Command = TypeVar("Command", bound=Callable[..., Any])


_CA = "stampede.ca"


def _trust(context: click.Context, _option: click.Parameter, path: str | None) -> None:
    context.meta[_CA] = path


def api_options(command: Command) -> Command:
    """--url, --login and --output."""
    for option in reversed(
        (
            click.option("--url", default="http://127.0.0.1:61680", envvar="STAMPEDE_ADMIN_URL", show_default=True,
                         help="Admin port of a broker; also from $STAMPEDE_ADMIN_URL."),
            click.option("--ca", envvar="STAMPEDE_ADMIN_CA", type=click.Path(exists=True, dir_okay=False),
                         expose_value=False, callback=_trust, is_eager=True,
                         help="Certificates that an https URL is checked with; also from $STAMPEDE_ADMIN_CA. "
                         "Without: those of this machine."),
            click.option("--login", envvar="STAMPEDE_LOGIN",
                         help="User; the passcode comes from $STAMPEDE_PASSCODE or a prompt. Else: $STAMPEDE_TOKEN"),
            click.option("--output", "-o", type=click.Choice(["table", "json", "yaml"]), default="table",
                         show_default=True),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def list_options(command: Command) -> Command:
    """--limit and --sort."""
    for option in (
        click.option("--sort", help="Column to sort by; with - in front: descending."),
        click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Rows at most."),
    ):
        command = option(command)
    return command


class AdminApi:
    """One broker."""

    def __init__(self, url: str, login: str | None) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self.missing = False
        """A list that was told lacks what an owner or edge has that could not be asked."""
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if login is None and (token := os.environ.get("STAMPEDE_TOKEN")):
            self._headers["Authorization"] = f"Bearer {token}"
        if login is not None:
            passcode = os.environ.get("STAMPEDE_PASSCODE") or click.prompt("Passcode", hide_input=True, err=True)
            self._headers["Authorization"] = "Basic " + base64.b64encode(f"{login}:{passcode}".encode()).decode()

    def get(self, path: str, **query: Any) -> Any:
        given = {name: value for name, value in query.items() if value is not None}
        return self.call("GET", path + ("?" + urlencode(given) if given else ""))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer. Ends the command with a line for people where there is none."""
        given = {name: value for name, value in (body or {}).items() if value is not None}
        data = json.dumps(given).encode() if method in ("POST", "PATCH", "PUT") else None
        asked = 0
        try:
            while True:
                asked += 1
                request = urllib.request.Request(self._url + path, data=data, headers=self._headers, method=method)  # noqa: S310 (URL of who typed it)
                try:
                    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=_context(self._url)) as answer:  # noqa: S310 (URL of who typed it)
                        return json.load(answer)
                except urllib.error.HTTPError as error:
                    told = _told(error)
                    if told.get("type") != STARTING or asked * AGAIN_S > STARTS_S:
                        _refused(error, told)
                Event().wait(AGAIN_S)
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            click.echo(f"stampede: no answer from {self._url}: {why}", err=True)
            click.echo("Start one with `stampede serve`, or name another admin port with --url.", err=True)
            raise SystemExit(NO_CONNECTION) from None

    def rows(self, path: str, limit: int, **query: Any) -> Iterator[dict[str, Any]]:
        """Up to `limit` entries of a list, page by page."""
        page: str | None = None
        while limit > 0:
            most = 200 if path.endswith("/messages") else PAGE
            answer = self.get(path, limit=min(limit, most), page=page, **query)
            yield from answer["items"]
            self.missing = say_missing(answer) or self.missing
            limit -= len(answer["items"])
            page = answer["next"]
            if page is None:
                return


def _context(url: str) -> ssl.SSLContext | None:
    """What an https URL is checked with."""
    if not url.startswith("https:"):
        return None
    context = click.get_current_context(silent=True)
    return client_context(context.meta.get(_CA) if context is not None else None)


def _told(error: urllib.error.HTTPError) -> dict[str, Any]:
    """The problem document; empty: it is none."""
    try:
        told = json.load(error)
    except (OSError, HTTPException, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _refused(error: urllib.error.HTTPError, told: dict[str, Any]) -> NoReturn:
    try:
        text, fix = f"{told['title']}: {told['detail']}", told.get("fix", "")
    except KeyError:
        text, fix = f"{error.url} answers {error.code} {error.reason}", "check --url: that is no admin port of a broker"
    click.echo(f"stampede: {text}", err=True)
    if fix:
        click.echo(f"{fix[0].upper()}{fix[1:]}.", err=True)
    raise SystemExit(NO_SUCH_THING if error.code == 404 else REFUSED)


def say_missing(told: dict[str, Any]) -> bool:
    """On stderr, whose part an answer lacks; False: it is whole."""
    missing = told.get("missing", ())  # a broker of before does not say it of everything
    for each in missing:
        click.echo(f"stampede: {each['owner']} is missing: {each['why']}", err=True)
    return bool(missing)


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def show(rows: Sequence[dict[str, Any]], columns: Sequence[str], output: str) -> None:
    """A list, on stdout."""
    if output != "table":
        dump(list(rows), output)
        return
    cells = [[heading.upper() for heading in columns]]
    cells += [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row.get(column), int) for row in rows) for column in columns]
    for line in cells:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def cell(value: Any) -> str:
    """A value in a table: one line, no control characters."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value))[:120]


def dump(value: Any, output: str) -> None:
    """JSON or YAML, on stdout."""
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(value, allow_unicode=True, sort_keys=False), nl=False)
    else:
        click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def confirm(name: str, what: str, yes: bool) -> None:
    """Has the name typed, unless --yes was given. Ends the command with 2 otherwise."""
    if yes:
        return
    try:
        typed = click.prompt(f"{what} Type {name} to go on", default="", show_default=False, err=True)
    except click.Abort:
        typed = ""
    if typed.strip() != name:
        raise click.UsageError(f"not confirmed: type {name}, or give --yes.")
