"""`stampede journal salvage` and `load`: from a folder, damaged or not, to a new one.

Rule: the old folder is kept. What was lost is printed, and is an exit status of its own: 3.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from broker.core.errors import JournalError
from broker.seams.files import OsFiles

from ..process.shell_audit import changes
from .data_cli import LOST, folder_of, journal, told
from .options import Misuse, settings_of, source_options


@journal.command("salvage")
@click.argument("source", required=False)
@click.argument("target", required=False)
@source_options
@changes("journal.salvage", "source", "target")
def salvage(source: str | None, target: str | None, **options: Any) -> None:
    """Keep everything that can be read of a damaged journal.

    SOURCE and TARGET are journal folders, TARGET does not exist yet. Without them the journal of the settings is
    replaced, and the damaged one is kept as `journal.damaged`. Lists what is kept and what is lost, by queue; exit
    status 3 when something is lost."""
    from broker.journal.tools.salvage import salvage

    if (source is None) != (target is None):
        raise Misuse("Name both folders, SOURCE and TARGET, or none of them.")
    settings = settings_of(**options).journal
    if source is not None and not os.path.isdir(source):
        raise Misuse(f"There is no folder {source}.")
    here = source or folder_of(options)
    new = target or _free(f"{here}.salvaged")
    with told():
        report = salvage(OsFiles(), here, new, settings)
        if target is None:
            aside = _free(f"{here}.damaged")
            os.rename(here, aside)
            os.rename(new, here)
            report.notes.append(f"the damaged journal is {aside} now, yours to delete")
            new = here
    for line in report.lines():
        click.echo(line)
    click.echo(f"salvaged into {new}")
    raise SystemExit(LOST if report.lost else 0)


def _free(path: str) -> str:
    """The path, with a number when there is such a thing already."""
    return next(p for i in range(1 << 20) if not os.path.lexists(p := f"{path}.{i}" if i else path))


@journal.command("load")
@click.argument("dump", type=click.File("r", encoding="utf-8"))
@click.argument("target")
@source_options
@changes("journal.load", "target")
def load(dump: Iterable[str], target: str, **options: Any) -> None:
    """Make the journal folder TARGET (which does not exist yet) from what `dump --live` has printed; `-`: stdin."""
    from broker.journal.tools.builder import Builder
    from broker.journal.tools.transcript import load

    with told():
        count = load(_rows(dump), Builder(OsFiles(), target, settings_of(**options).journal))
    click.echo(f"{count} messages loaded into {target}")


def _rows(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError:
            raise JournalError(f"line {number} is no JSON") from None
