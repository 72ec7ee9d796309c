"""`stampede cluster backup` and `stampede cluster restore`: what etcd knows of a cluster, before and beside its owners.

Rule: as commands/cluster_cli.py. A backup that was not completed is never restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from broker.core.errors import JournalError
from broker.seams.clock import SystemClock

from ...process.shell_audit import changes
from ..backup_cli import report_option, reported
from ..cluster_cli import cluster, with_cluster
from ..data_cli import told
from ..options import Misuse, source_options
from .cluster_users_cli import users

if TYPE_CHECKING:
    from broker.app.copies.places import CopyPlace
    from broker.cluster.keys import Keys
    from broker.config.settings import Settings
    from broker.metadata.port import Metadata

__all__ = ["cluster"]

cluster.add_command(users)


@cluster.command()
@click.argument("folder")
@click.option("--complete", "done", is_flag=True, help="All owners are copied: check that, and say so in the folder.")
@click.option("--keep", metavar="N", type=click.IntRange(1), help="With --complete: take older backups beside it away.")
@click.option(
    "--drop-incomplete", "drop", is_flag=True,
    help="Take away what backups before it in the folder beside it left that did not become complete.",
)  # fmt: skip
@report_option
@source_options
@changes("cluster.backup", "folder")
def backup(folder: str, done: bool, keep: int | None, drop: bool, report: str | None, **options: Any) -> None:
    """Begin a backup of the whole cluster in FOLDER (a path, or s3://bucket/folder): what etcd knows of it.

    Then `stampede backup FOLDER/OWNER.tar` where each owner runs, then this once more with --complete. What had a
    receipt before it began, and was not acknowledged by then, is in it once. FOLDER is named by the time, as
    s3://backups/stomp/2026-11-27T02-00-00Z: --keep goes by the names. It holds hashes of passcodes: keep it like etcd.
    """
    from broker.app.copies.metadata import snapshot
    from broker.app.copies.places import put
    from broker.app.copies.series import METADATA, complete, drop_incomplete, prune

    if keep is not None and not done:
        raise Misuse("--keep goes with --complete.")
    if drop and done:
        raise Misuse("--drop-incomplete goes with the beginning of a backup, not with --complete.")
    with reported(report) as found, told():
        place = _place(folder)
        if done:
            stated = complete(place)
            gone = prune(_place(_parent(folder)), keep) if keep is not None else []
            found |= {"owners": len(stated.owners), "bytes": stated.nbytes, "takenMs": stated.taken_ms, "gone": gone}
            click.echo(f"complete: {len(stated.owners)} owners, {stated.nbytes / 1e6:.1f} MB")
            for run in gone:
                click.echo(f"taken away: {run}")
            return
        if drop:
            drop_incomplete(_place(_parent(folder)), _parent(folder, last=True))
        taken_ms = SystemClock().wall_ms()

        async def work(metadata: Metadata, keys: Keys, _: Settings) -> bytes:
            return await snapshot(metadata, keys, taken_ms)

        text = with_cluster(options, work)
        try:
            put(place, METADATA, text)
        except FileExistsError:
            raise JournalError(f"there is a backup in {folder} already; name another folder") from None
        found |= {"takenMs": taken_ms, "bytes": len(text), **_counted(msgspec.json.decode(text)["owners"])}
    click.echo(f"{folder}: {len(text) / 1e6:.1f} MB of metadata; now the owners")


@cluster.command()
@click.argument("folder")
@click.option("--owners", metavar="NAMES", required=True, help="Comma list: who the owners are now, in their order.")
@click.option("--latest", is_flag=True, help="FOLDER holds several backups: the newest complete one.")
@report_option
@source_options
@changes("cluster.restore", "folder")
def restore(folder: str, owners: str, latest: bool, report: str | None, **options: Any) -> None:
    """Begin a new cluster from the backup in FOLDER: what etcd knows, written below etcd.prefix, where nothing may be.

    Then `stampede restore FOLDER/OLD.tar --whole-cluster` into the data folder of each owner, then start them."""
    from broker.app.copies.metadata import renaming, restore
    from broker.app.copies.series import METADATA, completed, read_json, runs

    with reported(report) as found, told():
        run = _parent(folder, last=True)
        if latest:
            there = runs(_place(folder))
            if not there:
                raise JournalError(f"there is no complete backup in {folder}")
            run, folder = there[-1], f"{folder.rstrip('/')}/{there[-1]}"
        place = _place(folder)
        stated, copy = completed(place), read_json(place, METADATA)
        names = renaming(list(stated.owners), [name.strip() for name in owners.split(",") if name.strip()])

        async def work(metadata: Metadata, keys: Keys, _: Settings) -> int:
            return await restore(metadata, keys, copy, names, run)

        count = with_cluster(options, work)
        found |= {"run": run, "takenMs": stated.taken_ms, "bytes": stated.nbytes, **_counted(list(stated.owners))}
    click.echo(f"{count} keys from {folder}; now the owners:")
    for old, new in names.items():
        click.echo(f"{new}: stampede restore {folder}/{old}.tar --whole-cluster")


def _counted(owners: list[str]) -> dict[str, Any]:
    """How many, and what they are called but for their numbers: a report has no room for a hundred names."""
    return {"owners": len(owners), "head": owners[0].rpartition("-")[0]}


def _parent(folder: str, last: bool = False) -> str:
    from broker.app.copies.places import split

    return split(folder)[last]


def _place(text: str) -> CopyPlace:
    from broker.app.copies.places import place_of

    return place_of(text)
