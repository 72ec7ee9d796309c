"""The day's work on the command line: queues, messages, dead letters, clients (docs/admin-api.md).

Exit codes: 0 done; 1 refused, or not all of it could be done; 2 wrong usage; 3 no connection; 4 no such thing.

Rule: arguments in, requests to the API out (admin_client.py); what destroys needs the name typed, or --yes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any
from urllib.parse import urlencode

import click

from .admin_client import REFUSED, AdminApi, api_options, cell, confirm, dump, list_options, part, say_missing, show

QUEUE_COLUMNS = ("name", "address", "routing", "messages", "waiting", "delivering", "scheduled", "consumers", "paused")
MESSAGE_COLUMNS = ("id", "length", "durable", "priority", "attempts", "body")
MOST_COPIED = 1_000_000
COPIED_S = 300
"""Of what has a rate; as the API has it."""
AT_ONCE = 20_000
"""Messages carried per request: so often there is progress to show."""


@click.command()
@api_options
@list_options
@click.option("-q", "part_of", metavar="TEXT", help="Only names that hold this text.")
@click.option("--address", help="Only of this address.")
@click.option("--filled", is_flag=True, help="Only with messages.")
@click.option("--unconsumed", is_flag=True, help="Only without consumers.")
def queues(
    url: str, login: str | None, output: str, limit: int, sort: str | None, part_of: str | None, address: str | None,
    filled: bool, unconsumed: bool,
) -> None:  # fmt: skip
    """List queues."""
    query = {"q": part_of, "address": address, "sort": sort, "filled": "true" if filled else None,
             "consumed": "false" if unconsumed else None}  # fmt: skip
    show(list(AdminApi(url, login).rows("/queues", limit, **query)), QUEUE_COLUMNS, output)


@click.command()
@api_options
@list_options
@click.option("-q", "part_of", metavar="TEXT", help="Only names that hold this text.")
def addresses(url: str, login: str | None, output: str, limit: int, sort: str | None, part_of: str | None) -> None:
    """List addresses."""
    rows = AdminApi(url, login).rows("/addresses", limit, q=part_of, sort=sort)
    show(list(rows), ("name", "routing", "queues", "messages", "consumers", "declared"), output)


@click.command()
@api_options
@list_options
@click.option("-q", "part_of", metavar="TEXT", help="Only where this text is part of the name.")
def subscriptions(url: str, login: str | None, output: str, limit: int, sort: str | None, part_of: str | None) -> None:
    """List durable subscriptions."""
    rows = AdminApi(url, login).rows("/subscriptions", limit, q=part_of, sort=sort)
    show(list(rows), ("name", "address", "messages", "consumers", "paused"), output)


@click.command()
@api_options
@list_options
@click.option("-q", "part_of", metavar="TEXT", help="Part of the peer, the user or the client-id.")
@click.option("--user", help="Only of this user.")
@click.option("--from", "peer", metavar="ADDRESS", help="Only from this address, with or without its port.")
@click.option("--blocked", is_flag=True, help="Only those that cannot send on, and what they wait for.")
def connections(
    url: str, login: str | None, output: str, limit: int, sort: str | None, part_of: str | None, user: str | None,
    peer: str | None, blocked: bool,
) -> None:  # fmt: skip
    """List who is connected; in a cluster to all edges."""
    rows = list(AdminApi(url, login).rows("/connections", limit, q=part_of, user=user, sort=sort, peer=peer,
                                          blocked="true" if blocked else None))  # fmt: skip
    columns = ["id", "peer", "user", "client_id", "version", "acceptor", "state", "subscriptions", "bytes_in"]
    if any(row["edge"] for row in rows):
        columns.insert(1, "edge")
    show(rows, [*columns, *(("blocked_bytes", "blocked_by") if blocked else ())], output)


@click.command()
@api_options
@click.argument("id", required=False)
@click.option("--edge", help="ID is one of this edge; else of the one that is asked.")
@click.option("--user", help="All connections of this user.")
@click.option("--from", "peer", metavar="ADDRESS", help="All connections from this address, with or without its port.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def disconnect(
    url: str, login: str | None, output: str, id: str | None, edge: str | None, user: str | None, peer: str | None,
    yes: bool,
) -> None:  # fmt: skip
    """End the connection ID, or all of a user or an address: they get an ERROR that says who did it."""
    api = AdminApi(url, login)
    if [id, user, peer].count(None) != 2:
        raise click.UsageError("name the ID of a connection, or --user, or --from.")
    if id is not None:
        confirm(id, "The connection will end.", yes)
        api.call("DELETE", f"/connections/{part(id)}" + (f"?edge={part(edge)}" if edge else ""))
        ended = 1
    else:
        whose = {name: value for name, value in (("user", user), ("peer", peer), ("edge", edge)) if value is not None}
        count = api.get("/connections", limit=1, **whose)["total"]
        confirm(user or peer or "", f"{count} connections will end.", yes)
        ended, more = 0, True
        while more:
            told = api.call("DELETE", f"/connections?{urlencode(whose)}")
            ended, more = ended + told["done"], told["more"] and told["done"]
        show([{"disconnected": ended}], ("disconnected",), output)
        if say_missing(told):
            raise SystemExit(REFUSED)  # connections of an edge that is away go on
        return
    show([{"disconnected": ended}], ("disconnected",), output)


@click.group()
def queue() -> None:
    """One queue: NAME, or ADDRESS::NAME where it is not called like its address."""


@queue.command("show")
@api_options
@click.argument("name")
def queue_show(url: str, login: str | None, output: str, name: str) -> None:
    """What is in it, and why nothing is delivered."""
    found = AdminApi(url, login).get(f"/queues/{part(name)}")
    say_missing(found)
    if output != "table":
        dump(found, output)
        return
    for each in found["parts"]:
        for field in (*QUEUE_COLUMNS, "durable", "selector", "slot"):
            click.echo(f"{field:<12} {cell(each[field])}")
        for reason in each["why"]:
            click.echo(f"{'why':<12} {reason}")


@queue.command("create")
@api_options
@click.argument("name")
@click.option("--multicast", is_flag=True, help="Every queue of the address gets each message.")
@click.option("--selector", help="Only matching messages enter it.")
def queue_create(url: str, login: str | None, output: str, name: str, multicast: bool, selector: str | None) -> None:
    """Make a queue that stays until it is deleted."""
    address, _, own = name.partition("::")
    body = {"address": address, "name": own or None, "routing": "MULTICAST" if multicast else "ANYCAST",
            "selector": selector}  # fmt: skip
    dumped(AdminApi(url, login).call("POST", "/queues", body), output)


@queue.command("delete")
@api_options
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if somebody consumes it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def queue_delete(url: str, login: str | None, output: str, name: str, force: bool, yes: bool) -> None:
    """Delete it with everything in it."""
    confirm(name, "The queue and its messages will be gone.", yes)
    path = f"/queues/{part(name)}" + ("?force=true" if force else "")
    dumped(AdminApi(url, login).call("DELETE", path), output)


@queue.command("pause")
@api_options
@click.argument("name")
def queue_pause(url: str, login: str | None, output: str, name: str) -> None:
    """It takes messages and hands out none."""
    dumped(AdminApi(url, login).call("POST", f"/queues/{part(name)}/pause"), output)


@queue.command("resume")
@api_options
@click.argument("name")
def queue_resume(url: str, login: str | None, output: str, name: str) -> None:
    """It hands out messages again."""
    dumped(AdminApi(url, login).call("POST", f"/queues/{part(name)}/resume"), output)


def chosen(command: Any) -> Any:
    """--selector, --id, --rate and --dry-run."""
    command = click.option("--dry-run", is_flag=True, help="Do nothing; say how many, and show the first.")(command)
    command = click.option("--rate", type=click.IntRange(1), help="Messages a second at most.")(command)
    command = click.option("--id", "ids", multiple=True, help="Only this message; repeatable.")(command)
    return click.option("--selector", help="Only messages that match (docs/selectors.md).")(command)


@queue.command("purge")
@api_options
@chosen
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def queue_purge(
    url: str, login: str | None, output: str, name: str, selector: str | None, ids: tuple[str, ...], rate: int | None,
    dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Empty it, or take out what matches."""
    confirm(name, "Messages will be gone.", yes or dry_run)
    body = {"selector": selector, "ids": list(ids) or None, "rate": rate}
    carried(AdminApi(url, login), name, "purge", body, output, dry_run)


@queue.command("expire")
@api_options
@chosen
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def queue_expire(
    url: str, login: str | None, output: str, name: str, selector: str | None, ids: tuple[str, ...], rate: int | None,
    dry_run: bool, yes: bool,
) -> None:  # fmt: skip
    """Messages count as expired now: to the expiry address, or gone where there is none."""
    confirm(name, "Messages will leave it as expired.", yes or dry_run)
    body = {"selector": selector, "ids": list(ids) or None, "rate": rate}
    carried(AdminApi(url, login), name, "expire", body, output, dry_run)


@queue.command("move")
@api_options
@chosen
@click.argument("name")
@click.argument("to")
@click.option("--copy", is_flag=True, help="They stay here as well.")
def queue_move(
    url: str, login: str | None, output: str, name: str, to: str, selector: str | None, ids: tuple[str, ...],
    rate: int | None, dry_run: bool, copy: bool,
) -> None:  # fmt: skip
    """Messages to another ADDRESS, or ADDRESS::QUEUE, in order."""
    body = {"to": to, "selector": selector, "ids": list(ids) or None, "rate": rate}
    if copy and not dry_run:
        most = min(MOST_COPIED, rate * COPIED_S) if rate else MOST_COPIED
        body["limit"] = most
    carried(AdminApi(url, login), name, "copy" if copy else "move", body, output, dry_run)


@queue.command("retry")
@api_options
@chosen
@click.argument("name")
@click.option("--address", help="Only what comes from this address.")
@click.option("--queue", "origin", help="Only what comes from this queue of its address.")
@click.option("--reason", help="Only what left for this reason.")
def queue_retry(
    url: str, login: str | None, output: str, name: str, selector: str | None, ids: tuple[str, ...], rate: int | None,
    dry_run: bool, address: str | None, origin: str | None, reason: str | None,
) -> None:  # fmt: skip
    """Dead letters go back to the queues they come from, in order."""
    body = {"selector": selector, "ids": list(ids) or None, "address": address, "queue": origin, "reason": reason,
            "rate": rate}  # fmt: skip
    carried(AdminApi(url, login), name, "retry", body, output, dry_run)


@click.command()
@api_options
@click.argument("name", required=False)
def dlq(url: str, login: str | None, output: str, name: str | None) -> None:
    """Dead letters of a queue, or of all that have some, by where they come from and why."""
    if name is None:
        told = AdminApi(url, login).get("/dead-letters")
        say_missing(told)
        rows = [
            {"in": f"{row['address']}::{row['name']}", **group} for row in told["queues"] for group in row["groups"]
        ]
        if not (told["complete"] and all(row["complete"] for row in told["queues"])):
            click.echo("stampede: there are more; name one queue", err=True)
        show(rows, ("in", "address", "queue", "reason", "count"), output)
        return
    found = AdminApi(url, login).get(f"/queues/{part(name)}/dead-letters")
    say_missing(found)
    if not found["complete"]:
        click.echo(f"stampede: counted are the first {found['counted']}", err=True)
    show(found["groups"], ("address", "queue", "reason", "count"), output)


@click.command()
@api_options
@click.argument("name")
@click.option("--selector", help="Only messages that match (docs/selectors.md).")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.option("--preview", type=click.IntRange(0, 65536), default=80, show_default=True, help="Bytes of each body.")
def messages(
    url: str, login: str | None, output: str, name: str, selector: str | None, limit: int, preview: int
) -> None:
    """What waits in a queue; takes nothing."""
    rows = AdminApi(url, login).rows(f"/queues/{part(name)}/messages", limit, selector=selector, preview=preview)
    show(list(rows), MESSAGE_COLUMNS, output)


@click.command()
@api_options
@click.argument("name")
@click.argument("file", type=click.File("w", encoding="utf-8"), default="-")
@click.option("--selector", help="Only messages that match (docs/selectors.md).")
def export(url: str, login: str | None, output: str, name: str, file: IO[str], selector: str | None) -> None:
    """What waits in a queue as JSON lines, to be sent again by import-messages; takes nothing."""
    count, api = 0, AdminApi(url, login)
    rows = api.rows(f"/queues/{part(name)}/messages", sys.maxsize, selector=selector, preview=0, raw="true")
    with progress("export", _waiting(api, name)) as bar:
        for row in rows:
            if row["raw"] is None:
                click.echo(f"stampede: message {row['id']} is large: move it instead of exporting it.", err=True)
                raise SystemExit(REFUSED)
            kept = {
                field: row[field] for field in ("id", "raw", "flags", "priority", "durable", "expires", "timestamp")
            }
            file.write(json.dumps(kept) + "\n")
            count += 1
            bar.update(1)
    click.echo(f"{count} messages", err=True)
    if api.missing:
        raise SystemExit(REFUSED)  # a part of the queue may be where nobody could be asked


@click.command("import-messages")
@api_options
@click.argument("address")
@click.argument("file", type=click.File("r", encoding="utf-8"), default="-")
@click.option("--queue", help="Only to this queue of the address.")
def import_messages(url: str, login: str | None, output: str, address: str, file: IO[str], queue: str | None) -> None:
    """Send what export has written, byte for byte."""
    api, size, sent = AdminApi(url, login), 0, 0
    batch: list[dict[str, Any]] = []

    def send() -> int:
        body = {"exported": batch, "queue": queue}
        return int(api.call("POST", f"/addresses/{part(address)}/messages", body)["sent"]) if batch else 0

    with progress("import", _size(file)) as bar:
        for number, line in enumerate(file, 1):
            try:
                message = json.loads(line)
            except ValueError:
                raise click.UsageError(f"line {number} is no JSON; {sent} messages before it were sent.") from None
            if size + len(line) > 500_000:
                sent += send()
                bar.update(size)
                batch, size = [], 0
            batch.append({name: message.get(name) for name in ("raw", "flags", "priority", "durable", "expires")})
            size += len(line)
        sent += send()
        bar.update(size)
    show([{"sent": sent}], ("sent",), output)


def previewed(told: dict[str, Any], what: str, output: str) -> None:
    """What it would be; nothing was done."""
    seen = told["preview"]
    if output != "table":
        dump(told, output)
    else:
        click.echo(f"{seen['count']} messages{'' if seen['complete'] else ' or more'}: {what} not done (--dry-run)")
        if seen["first"]:
            show(seen["first"], MESSAGE_COLUMNS, output)
    for left in told["left"]:
        click.echo(f"stampede: {left['count']} would stay: {left['why']}", err=True)


def carried(api: AdminApi, name: str, what: str, body: dict[str, Any], output: str, dry_run: bool) -> None:
    """Goes on until nothing is left, with progress on a terminal."""
    done = 0
    path = f"/queues/{part(name)}/{what}"
    if dry_run:
        previewed(api.call("POST", path, {**body, "dry_run": True}), what, output)
        return
    # What is not of messages (a purge of all) is one step, and a copy that is asked for again copies again.
    if what == "copy" or (what == "purge" and all(value is None for value in body.values())):
        told = api.call("POST", path, body)
        done = told["done"]
    else:
        with progress(what, _waiting(api, name)) as bar:
            while True:
                told = api.call("POST", path, {**body, "limit": AT_ONCE})
                done += told["done"]
                bar.update(told["done"])
                if not told["more"] or not told["done"]:
                    break
    if output != "table":
        dump({**told, "done": done}, output)
    else:
        click.echo(f"{done} messages: {what} done")
    for left in told["left"]:
        click.echo(f"stampede: {left['count']} stay: {left['why']}", err=True)
    if told["more"]:
        click.echo("stampede: there is more; name what is left with --selector", err=True)
    if told["left"] or told["more"]:
        raise SystemExit(REFUSED)


def progress(what: str, length: int) -> Any:
    """A bar, on a terminal."""
    return click.progressbar(
        length=length, label=what, file=sys.stderr, show_pos=True, hidden=not (length and sys.stderr.isatty())
    )


def _size(file: IO[str]) -> int:
    """Bytes of a file; 0: it is none that says so."""
    try:
        return os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return 0


def _waiting(api: AdminApi, name: str) -> int:
    """The most that there can be to do."""
    return sum([row["waiting"] for row in api.get(f"/queues/{part(name)}")["parts"]])


def dumped(told: dict[str, Any], output: str) -> None:
    """The answer to a change."""
    show([told], tuple(told), output) if output == "table" else dump(told, output)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes the shell complete `stampede`: eval "$(stampede completion bash)"."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    whole = click.get_current_context().find_root().command
    click.echo(found(whole, {}, "stampede", "_STAMPEDE_COMPLETE").source())


@click.command()
@api_options
@click.option("--every", type=click.FloatRange(0.5), default=2.0, show_default=True, help="Seconds between two looks.")
@click.option("--sort", default="-messages", show_default=True)
@click.option("--count", type=click.IntRange(0), default=0, help="So many looks; 0: until Ctrl-C.")
@click.option("--rows", type=click.IntRange(1, 200), default=20, show_default=True)
def top(url: str, login: str | None, output: str, every: float, sort: str, count: int, rows: int) -> None:
    """The busiest queues, again and again."""
    from .watching import watch

    watch(AdminApi(url, login), every, sort, count, rows, QUEUE_COLUMNS, output)
