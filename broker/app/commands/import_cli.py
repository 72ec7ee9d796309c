"""`stampede import FILE`: the file of another broker as a config file of ours.

Rule: reads one file, writes one; which broker's it is, and what it means, is config/foreign/foreign_files.py's.
"""

from __future__ import annotations

import os

import click

from .options import Failure, Misuse


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option("--output", metavar="FILE", help="Where to write the config file. Default: print it.")
def import_(file: str, output: str | None) -> None:
    """Print the settings that do what another broker's file does, and what could not be carried over.

    Artemis' broker.xml, ActiveMQ Classic's activemq.xml, hornetq-configuration.xml, and RabbitMQ's definitions
    (`rabbitmqctl export_definitions FILE`).

    Look the result over with `stampede settings --config FILE`."""
    from broker.config.artemis.import_text import as_toml
    from broker.config.foreign.foreign_files import read
    from broker.core.errors import ConfigError
    from broker.seams.files import read_whole

    try:
        found = read(read_whole(file))
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
