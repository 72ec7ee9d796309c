"""`stampede doctor`: looks at everything that stops or slows a broker, and says what to do.

Exit codes: 0 no fault (there may be warnings); 1 at least one fault; 2 wrong settings or usage.

Rule: collects what doctor.py and doctor_cluster.py find, and shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from broker.core.errors import BrokerError

from ..commands.admin_client import cell, dump
from ..commands.options import settings_of, source_options

if TYPE_CHECKING:
    from broker.cluster.operate import Picture
    from broker.config.settings import Settings

    from .doctor import Finding


@click.command()
@source_options
@click.option("--cluster", "of_cluster", is_flag=True, help="Also etcd, owners, edges, replicas and clocks.")
@click.option("--output", "-o", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--problems", is_flag=True, help="Only what is not in order.")
def doctor(of_cluster: bool, output: str, problems: bool, **options: Any) -> None:
    """Look for what stops or slows a broker; each finding says what to do.

    Run it on the broker's machine, as its user, with its settings (--config, --set, --data). It changes nothing.
    Exit status 1 when there is a fault, 0 when there are warnings only, 2 when a setting is wrong."""
    from .doctor import FAULT, FINE

    found = list(_findings(settings_of(**options), of_cluster))
    shown = [one for one in found if not problems or one.level != FINE]
    if output == "table":
        for one in shown:
            click.echo(f"{one.level:<8} {cell(one.check)}: {_line(one.found)}")
            if one.fix:
                click.echo(f"{'':<8} → {_line(one.fix)}")
        counts = {level: sum(one.level == level for one in found) for level in ("fault", "warning")}
        click.echo(f"{len(found)} checks: {counts['fault']} faults, {counts['warning']} warnings")
    else:
        dump([one._asdict() for one in shown], output)
    raise SystemExit(1 if any(one.level == FAULT for one in found) else 0)


def _line(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _findings(settings: Settings, of_cluster: bool) -> Iterator[Finding]:
    from broker.seams.files import open_file_limit
    from broker.seams.memory import available

    from .doctor import on_this_machine
    from .doctor_cluster import admin_address, of_broker, ready

    yield from on_this_machine(settings, open_file_limit(), available())
    address = admin_address(settings.admin)
    if address:
        yield of_broker(address, ready(address))
    if of_cluster:
        yield from _of_cluster(settings)


def _of_cluster(settings: Settings) -> Iterator[Finding]:
    from ..commands.etcd.etcd_cli import rows
    from . import doctor_cluster
    from .doctor import FAULT, Finding

    yield from doctor_cluster.of_etcd(rows(settings.etcd))
    try:
        picture = asyncio.run(_look(settings))
    except BrokerError as error:
        yield Finding("cluster", FAULT, str(error), "mend etcd, or etcd.endpoints and etcd.prefix")
        return
    yield from doctor_cluster.of_cluster(picture)
    for name, member in sorted({**picture.view.owners, **picture.edges}.items()):
        if member.admin:
            yield from doctor_cluster.of_member(name, member.admin, doctor_cluster.ready(member.admin))


async def _look(settings: Settings) -> Picture:
    from broker.cluster.keys import Keys
    from broker.cluster.operate import look
    from broker.cluster.planning.view import Policy

    from ..commands.cluster_cli import connect

    metadata = connect(settings)
    try:
        return await look(metadata, Keys(settings.etcd.prefix), Policy.of(settings.cluster), settings.engine)
    finally:
        await metadata.close()
