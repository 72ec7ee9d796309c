"""`stampede import FILE`: Artemis' broker.xml as a config file of ours.

Rule: reads one file, writes one; what it means is config/artemis/importing.py's.
"""

from __future__ import annotations

import os

import click

from .options import Failure, Misuse


@click.command("import")
@click.argument("file", metavar="BROKER.XML")
@click.option("--output", metavar="FILE", help="Where to write the config file. Default: print it.")
def import_(file: str, output: str | None) -> None:
    """Print the settings that do what an Artemis broker.xml does, and what could not be carried over.

    Look the result over with `stampede settings --config FILE`."""
    from broker.config.artemis.import_text import as_toml
    from broker.config.artemis.importing import convert
    from broker.core.errors import ConfigError
    from broker.seams.files import read_whole

    try:
        found = convert(read_whole(file))
    except OSError as error:
        raise Misuse(f"Cannot read {file}: {error.strerror}.") from None
    except ConfigError as error:
        raise Misuse(f"{file}: {error}") from None
    text = as_toml(found, os.path.basename(file))
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        with click.open_file(output, "w", encoding="utf-8") as target:
            target.write(text)
    except OSError as error:
        raise Failure(f"Cannot write {output}: {error.strerror}.") from None
    click.echo(f"{output}: {len(found.notes)} notes about what was not carried over", err=True)
