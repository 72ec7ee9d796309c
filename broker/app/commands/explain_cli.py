"""`stampede rights` and `stampede audit`: who may do what, and who did what.

Exit codes: 0 done (`rights … OPERATION`: it is allowed); 1 refused, or it is not allowed; 2 wrong usage; 3 no
connection; 4 no such user.

Rule: arguments in, requests to the API out (admin_client.py).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from .admin_client import REFUSED, AdminApi, api_options, dump, say_missing, show


@click.command()
@api_options
@click.argument("user")
@click.argument("address")
@click.argument("operation", required=False)
def rights(url: str, login: str | None, output: str, user: str, address: str, operation: str | None) -> None:
    """May USER do OPERATION (send, consume, …) at ADDRESS, and why; without OPERATION: all of them.

    ADDRESS may be a pattern, or ADDRESS::QUEUE."""
    told = AdminApi(url, login).get("/rights", user=user, address=address)
    rows = [row for row in told["rights"] if operation in (None, row["operation"])]
    if operation is not None and not rows and not told["open"]:
        raise click.UsageError(
            f"There is no operation {operation!r}: {', '.join(r['operation'] for r in told['rights'])}"
        )
    if output != "table":
        dump(told | {"rights": rows}, output)
    elif told["open"]:
        click.echo("There are no permissions: every user may do everything.")
    else:
        show([{**row, "because": _because(user, told["groups"], row)} for row in rows],
             ("operation", "allowed", "because"), output)  # fmt: skip
    if operation is not None and not all(row["allowed"] for row in rows):
        raise SystemExit(REFUSED)


def _because(user: str, groups: list[str], row: dict[str, Any]) -> str:
    if row["entry"] is None:
        return "no entry of the permissions is about all of it, so it is for nobody"
    named = ", ".join("every user" if name == "*" else name for name in row["groups"]) or "nobody"
    return f"the entry {row['entry']} says {named}; {user} is in {', '.join(groups) or 'no group'}"


@click.command()
@api_options
@click.option("-q", "part_of", metavar="TEXT", help="Only lines that hold this text.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Lines at most.")
def audit(url: str, login: str | None, output: str, part_of: str | None, limit: int) -> None:
    """The last changes that were asked for, through any edge, and how they ended; the log stampede.audit has all."""
    told = AdminApi(url, login).get("/audit", q=part_of, limit=limit)
    rows = told["items"]
    say_missing(told)
    if output == "table":
        rows = [{**row, "when": _when(row["at"]), "more": _more(row["more"])} for row in rows]
    where = ("edge",) if any(row["edge"] for row in rows) else ()
    show(rows, ("when", *where, "who", "from", "action", "target", "outcome", "more"), output)


def _more(told: dict[str, str]) -> str:
    return "; ".join([f"{name}: {value}" for name, value in told.items()])


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
