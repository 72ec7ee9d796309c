"""`stampede cluster …`: look at a cluster and change it, straight in etcd.

Rule: parse, ask cluster/operate.py, say. Passcodes come from a prompt or stdin; hashes are never printed.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from broker.core.errors import BrokerError

from ..process.shell_audit import changes
from .etcd.roles_cli import roles
from .options import Failure, Misuse, settings_of, source_options

if TYPE_CHECKING:
    from broker.cluster.keys import Keys
    from broker.cluster.operate import Picture
    from broker.config.settings import EngineSettings, Settings
    from broker.metadata.port import Metadata

Answer = TypeVar("Answer")

POLL_S = 0.2
"""How often a move that is waited for is looked at."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def connect(settings: Settings) -> Metadata:
    """The cluster's metadata store."""
    from broker.metadata.etcd import EtcdMetadata

    return EtcdMetadata(settings.etcd)


def with_cluster(options: dict[str, Any], work: Callable[[Metadata, Keys, Settings], Awaitable[Answer]]) -> Answer:
    """Runs `work` with a connection. Errors we raise on purpose become one line and exit status 1."""
    from broker.cluster.keys import Keys

    settings = settings_of(**options)

    async def run() -> Answer:
        metadata = connect(settings)
        try:
            return await work(metadata, Keys(settings.etcd.prefix), settings)
        finally:
            await metadata.close()

    try:
        return asyncio.run(run())
    except BrokerError as error:
        raise Failure(str(error)) from None


def _picture(options: dict[str, Any]) -> Picture:
    from broker.cluster.operate import look
    from broker.cluster.planning.view import Policy

    return with_cluster(
        options, lambda metadata, keys, settings: look(metadata, keys, Policy.of(settings.cluster), settings.engine)
    )


def _say(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


@click.group()
def cluster() -> None:
    """Look at a cluster and change it."""


@cluster.command()
@json_option
@source_options
def status(as_json: bool, **options: Any) -> None:
    """Who is there, who leads what, what owners say they serve, and what is left to move. Exit status 1 when a slot is
    offline."""
    from broker.admin.scrape_token import bearer
    from broker.cluster.planning.placement import left_to_move
    from broker.cluster.planning.view import health

    from .serving_cli import lines, serving

    picture = _picture(options)
    served = serving(picture, bearer(settings_of(**options).admin.token_file))
    owners = _owner_rows(picture, served.serves)
    now = health(picture.view)
    left = {kind.value: count for kind, count in left_to_move(picture.view).items()}
    if as_json:
        _say({
            "controller": picture.controller, "slots": now._asdict(), "left_to_move": left,
            "shelved": _shelved(picture), "owners": owners, "edges": _edge_rows(picture),
            "not_served": [one._asdict() for one in served.unserved], "unreadable": picture.bad,
            "unreached": picture.view.unreached(),
        })  # fmt: skip
    else:
        click.echo(_table(owners) or "No owners.")
        click.echo("\n" + (_table(_edge_rows(picture)) or "No edges."))
        click.echo(f"\nController: {picture.controller or 'none'}")
        click.echo(
            f"Slots: {now.slots}, online {now.online}, offline {now.offline}, stalled {now.stalled}, "
            f"under-replicated {now.under_replicated}"
        )
        for text in lines(served.unserved):
            click.echo(text)
        for owner, edges in picture.view.unreached().items():
            rest = "; its slots go to others" if owner in picture.view.cut_off() else ""
            click.echo(
                f"{owner} is not reached by {len(edges)} of {len(picture.edges)} edges: {', '.join(edges)}{rest}"
            )
        for slot, why in _shelved(picture).items():
            click.echo(f"Slot {slot} is shelved: {why}; `stampede cluster unshelve {slot}` has it tried again")
        for key, why in picture.bad.items():
            click.echo(f"{key} cannot be read: {why}")
        click.echo(f"Moving: {now.seeding} replicas being seeded, {now.transfers} leaders handing over")
        ahead = ", ".join(f"{count} × {kind}" for kind, count in sorted(left.items()))
        click.echo(f"Left to do: {ahead or 'nothing'}")
    raise SystemExit(1 if now.offline else 0)


def _shelved(picture: Picture) -> dict[int, str]:
    return {slot: record.shelved for slot, record in sorted(picture.view.records.items()) if record.shelved}


def _owner_rows(picture: Picture, serves: Mapping[str, int | None]) -> list[dict[str, Any]]:
    view = picture.view
    records = view.records.values()
    leads = Counter(record.leader for record in records)
    replicas = Counter(one for record in records for one in record.replicas)
    in_sync = Counter(one for record in records for one in record.isr)
    rows = []
    for name in sorted({*view.owners, *replicas, *view.cordoned}):
        member = view.owners.get(name)
        state = "dead" if member is None else "leaving" if member.leaving else "up"
        if name in view.cordoned:
            state += ", drained" if not replicas[name] else ", draining"
        rows.append({
            "owner": name, "state": state, "leads": leads[name], "serves": serves.get(name),
            "replicas": replicas[name], "in sync": in_sync[name],
            "zone": member.zone if member else "", "address": member.address if member else "",
            "applied": picture.applied.get(name, 0),
        })  # fmt: skip
    return rows


def _edge_rows(picture: Picture) -> list[dict[str, Any]]:
    return [
        {
            "edge": name, "state": "leaving" if member.leaving else "up", "zone": member.zone,
            "address": member.address, "applied": picture.applied.get(name, 0),
        }
        for name, member in sorted(picture.edges.items())
    ]  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> str:
    """Columns as wide as they must be; numbers to the right, "?" where nobody knows one."""
    if not rows:
        return ""
    cells = [list(rows[0]), *(["?" if value is None else str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [value is None or isinstance(value, int) for value in rows[0].values()]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in cells
    )


@cluster.command()
@json_option
@source_options
def plan(as_json: bool, **options: Any) -> None:
    """What the controller would do from here on, one line per step. Changes nothing."""
    from broker.cluster.planning.placement import foretold

    steps = foretold(_picture(options).view)
    if as_json:
        _say([{"kind": step.kind.value, "slot": step.new.slot, "owner": step.owner} for step in steps])
        return
    for step in steps:
        click.echo(step.text())
    click.echo(f"{len(steps)} steps." if steps else "Nothing to do.", err=True)


@cluster.command()
@click.argument("slots", type=click.IntRange(0, 255), nargs=-1, metavar="[SLOT]…")
@json_option
@source_options
def check(slots: tuple[int, ...], as_json: bool, **options: Any) -> None:
    """Compare what the replicas of each slot have: their logs, and the memory they would lead with.

    Asks the owners' admin ports, one slot after the other. Exit status 1 when something differs or could not be looked
    at."""
    from broker.admin.scrape_token import bearer

    from .check_cli import verdicts

    headers, pause = bearer(settings_of(**options).admin.token_file), lambda: asyncio.run(asyncio.sleep(1))
    good, messages, bad = 0, 0, 0
    for one in verdicts(lambda: _picture(options), slots or range(256), pause, headers):
        good += not (one.differences or one.problem)
        bad += len(one.differences)
        messages += one.messages
        if as_json:
            _say(one._asdict())
            continue
        for text in one.differences:
            click.echo(f"slot {one.slot}, {text}")
        if one.problem:
            click.echo(f"slot {one.slot} not checked: {one.problem}")
    count = len(slots or range(256))
    if not as_json:
        click.echo(f"{good} of {count} slots are the same everywhere, {messages:,} messages; {bad} differences.")
    raise SystemExit(0 if good == count else 1)


@cluster.command()
@click.argument("slot", type=int)
@click.argument("owner")
@click.option(
    "--wait", "wait_s", type=float, default=60.0, show_default=True, help="Seconds to wait for it; 0: do not."
)
@source_options
@changes("cluster.move", "slot", "owner")
def move(slot: int, owner: str, wait_s: float, **options: Any) -> None:
    """Make OWNER the leader of SLOT; it is seeded first if it has no replica. No message is lost.

    The controller keeps loads even, so it may move another slot the other way."""
    from broker.cluster.operate import ask_to_lead

    async def work(metadata: Metadata, keys: Keys, _: Settings) -> str:
        waited, last = 0.0, ""
        while (state := await ask_to_lead(metadata, keys, slot, owner)) != "done" and waited < wait_s:
            if state != last:
                click.echo(f"slot {slot}: {state}", err=True)
            last = state
            await asyncio.sleep(POLL_S)
            waited += POLL_S
        return state

    state = with_cluster(options, work)
    if state == "done":
        click.echo(f"{owner} leads slot {slot}.")
    elif wait_s:
        raise Failure(f"slot {slot} is still {state} after {wait_s:g} s; it goes on, see `stampede cluster status`")


@cluster.command()
@click.argument("owner")
@source_options
@changes("cluster.drain", "owner")
def drain(owner: str, **options: Any) -> None:
    """Move everything away from OWNER, for good. `status` shows how far it is; restarts need no drain."""
    from broker.cluster.operate import set_cordon

    changed = with_cluster(options, lambda metadata, keys, _: set_cordon(metadata, keys, owner, True))
    click.echo(f"{owner} is being drained." if changed else f"{owner} already is being drained.")


@cluster.command()
@click.argument("owner")
@source_options
@changes("cluster.undrain", "owner")
def undrain(owner: str, **options: Any) -> None:
    """Let OWNER have slots again."""
    from broker.cluster.operate import set_cordon

    changed = with_cluster(options, lambda metadata, keys, _: set_cordon(metadata, keys, owner, False))
    click.echo(f"{owner} may have slots again." if changed else f"{owner} was not drained.")


@cluster.command()
@click.argument("slot", type=int)
@source_options
@changes("cluster.unshelve", "slot")
def unshelve(slot: int, **options: Any) -> None:
    """Have SLOT led again, which was taken out of service because its leaders stopped one after the other.

    Their logs say why. What they have is kept; if it happens again, the slot is shelved again."""
    from broker.cluster.operate import unshelve as unshelve_slot

    with_cluster(options, lambda metadata, keys, _: unshelve_slot(metadata, keys, slot))
    click.echo(f"Slot {slot} is tried again.")


@cluster.command()
@click.argument("slot", type=int)
@click.argument("owner")
@click.option("--accept-data-loss", is_flag=True, help="Yes, what only the lost replicas had may be gone.")
@source_options
@changes("cluster.force", "slot", "owner")
def force(slot: int, owner: str, accept_data_loss: bool, **options: Any) -> None:
    """Make OWNER the leader of SLOT although no in-sync replica lives: confirmed messages may be lost."""
    if not accept_data_loss:
        raise Misuse(
            f"Messages of slot {slot} that were confirmed may be lost. If a dead in-sync replica can be brought back, "
            "do that instead; else say --accept-data-loss."
        )
    from broker.cluster.operate import force as force_leader

    record = with_cluster(options, lambda metadata, keys, _: force_leader(metadata, keys, slot, owner))
    click.echo(f"{owner} leads slot {slot} in epoch {record.epoch}.")


@cluster.command()
@source_options
def dump(**options: Any) -> None:
    """Print every key of the cluster as one line of JSON. Hashes of passcodes are left out."""

    async def work(metadata: Metadata, keys: Keys, _: Settings) -> None:
        items, _revision = await metadata.range(keys.root)
        for item in items:
            text = item.value.decode(errors="replace")
            try:
                value: Any = json.loads(text)
            except ValueError:
                value = text
            if item.key.startswith((keys.config_users, keys.config_tokens)):
                hidden = {"hash": "…", "previous": ["…"]}
                value = {**value, **{name: hidden[name] for name in hidden if name in value}} if (
                    isinstance(value, dict)
                ) else "…"  # fmt: skip
            _say({"key": item.key, "value": value, "revision": item.revision, "lease": item.lease})

    with_cluster(options, work)


@cluster.command()
@json_option
@source_options
def etcd(as_json: bool, **options: Any) -> None:
    """How etcd itself is, endpoint by endpoint. Exit status 1 when one is not well."""
    from .etcd.etcd_cli import rows

    found = rows(settings_of(**options).etcd)
    if as_json:
        _say(found)
    else:
        click.echo(_table(found))
    raise SystemExit(0 if all(row["state"] == "up" for row in found) else 1)


class _Table(NamedTuple):
    """A table of settings in the store: `stampede cluster <plural> get|set|delete`."""

    plural: str
    argument: str
    about: str
    prefix: Callable[[Keys], str]
    key: Callable[[Keys, str], str]
    checked: Callable[[EngineSettings, str, dict[str, Any]], dict[str, Any]]


def _entry_settings(table: str) -> Callable[[EngineSettings, str, dict[str, Any]], dict[str, Any]]:
    def checked(engine: EngineSettings, name: str, given: dict[str, Any]) -> dict[str, Any]:
        from broker.config.load import checked_entry

        return checked_entry(table, name, given, "on the command line", engine.wildcard_delimiter, engine.address)

    return checked


_TABLES = (
    _Table(
        "settings", "match", "Settings of addresses: of one, or of all that a pattern like orders.# stands for.",
        lambda keys: keys.config_settings, lambda keys, name: keys.setting(name),
        _entry_settings("engine.addresses"),
    ),
    _Table(
        "addresses", "name", "Settings of exactly one address, such as partitions.",
        lambda keys: keys.config_addresses, lambda keys, name: keys.address(name),
        _entry_settings("engine.addresses"),
    ),
    _Table(
        "queues", "name", "Queues that exist from the start, and their settings.",
        lambda keys: keys.config_queues, lambda keys, name: keys.queue(name), _entry_settings("engine.queues"),
    ),
    _Table(
        "diverts", "name", "Copies or detours of the messages of an address.",
        lambda keys: keys.config_diverts, lambda keys, name: keys.divert(name), _entry_settings("engine.diverts"),
    ),
    _Table(
        "permissions", "match",
        "Who may do what: the groups of users per operation, at one address or all that a pattern stands for.\n\n"
        "Without any entry everybody may do everything. With one, what no entry matches is for nobody: begin with "
        "the entry # for what all may do.",
        lambda keys: keys.config_permissions, lambda keys, name: keys.permission(name),
        _entry_settings("edge.permissions"),
    ),
    _Table(
        "quotas", "who",
        "What one user, virtual host or address of clients may use: user:NAME, host:NAME, ip:ADDRESS or a network; "
        "user:*, host:*, ip:* for each that has no entry of its own.",
        lambda keys: keys.config_quotas, lambda keys, name: keys.quota(name), _entry_settings("edge.quotas"),
    ),
    _Table(
        "bridges", "name", "What is moved to other brokers, or fetched from there; one edge at a time runs each.",
        lambda keys: keys.config_bridges, lambda keys, name: keys.bridge(name), _entry_settings("bridges"),
    ),
)  # fmt: skip


def _commands(table: _Table) -> click.Group:
    """get, set and delete of one table."""
    metavar = table.argument.upper()

    @click.group(table.plural, help=f"{table.about}\n\nAll edges and owners apply changes at once, without a restart.")
    def group() -> None:
        pass

    @group.command("get", help=f"Print the entry {metavar}, or all of them, as JSON.")
    @click.argument("name", default="", metavar=f"[{metavar}]")
    @source_options
    def get(name: str, **options: Any) -> None:
        _say(with_cluster(options, lambda metadata, keys, _: tables(metadata, table.prefix(keys), name)))

    @group.command("set", help=f"Change settings of {metavar}; NAME= without a value takes one back.")
    @click.argument("name", metavar=metavar)
    @click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE…")
    @source_options
    @changes(f"cluster.{table.plural}.set", "name", "values")
    def set_(name: str, values: tuple[str, ...], **options: Any) -> None:
        _say(_change(options, table, name, values))

    @group.command("delete", help=f"Remove the entry {metavar}. Messages are not touched.")
    @click.argument("name", metavar=metavar)
    @source_options
    @changes(f"cluster.{table.plural}.delete", "name")
    def delete(name: str, **options: Any) -> None:
        from broker.cluster.operate import only_grow

        async def work(metadata: Metadata, keys: Keys, settings: Settings) -> bool:
            only_grow(name, await tables(metadata, table.prefix(keys), name), {})
            await _warn_of_last(metadata, table, keys, settings, name)
            return await metadata.delete(table.key(keys, name))

        if not with_cluster(options, work):
            raise Failure(f"There is no entry {name} among the {table.plural} of the cluster.")
        click.echo(f"Removed {name}.")

    return group


cluster.add_command(roles)
for _table_of_settings in _TABLES:
    cluster.add_command(_commands(_table_of_settings))


async def tables(metadata: Metadata, prefix: str, name: str) -> dict[str, Any]:
    """What stands below a prefix, by name; or what stands at one name."""
    from broker.cluster.keys import last_part
    from broker.cluster.operate import table_of

    items, _ = await metadata.range(prefix)
    tables = {last_part(item.key): table_of(item) for item in items}
    return tables.get(name, {}) if name else tables


async def _warn_of_last(metadata: Metadata, table: _Table, keys: Keys, settings: Settings, name: str) -> None:
    """Says what it means where the entry that is to go may be the last permission there is. It cannot be refused:
    edges may have others in their config files."""
    if table.plural != "permissions" or settings.edge.permissions:
        return
    if list(await tables(metadata, table.prefix(keys), "")) == [name]:
        click.echo(
            f"{name} is the last entry: edges without others in their config file are closed to all now, and open to "
            "all when they start again, unless edge.permissions_required is set. Set an entry `#`: to a group of "
            "administrators, or to `*` for every user.",
            err=True,
        )


def _change(options: dict[str, Any], table: _Table, name: str, values: tuple[str, ...]) -> dict[str, Any]:
    """Checks NAME=VALUE… together with what is there already, as a config file would be, and writes them."""
    from broker.cluster.operate import edit_table, only_grow

    changes: dict[str, Any] = {}
    for text in values:
        setting, equals, value = text.partition("=")
        if not equals:
            raise Misuse(f"{text!r} must be NAME=VALUE.")
        changes[setting.strip()] = value.strip() or None

    async def work(metadata: Metadata, keys: Keys, settings: Settings) -> dict[str, Any]:
        before = await tables(metadata, table.prefix(keys), name)
        whole = {setting: value for setting, value in {**before, **changes}.items() if value is not None}
        checked = table.checked(settings.engine, name, whole)
        only_grow(name, before, checked)
        if not checked:
            await _warn_of_last(metadata, table, keys, settings, name)
        return await edit_table(metadata, table.key(keys, name), {**changes, **checked})

    return with_cluster(options, work)
