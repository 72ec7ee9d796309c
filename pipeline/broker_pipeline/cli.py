"""`stampede-pipeline`: check, and what else there is of it.

Rule: parse, call, say; no logic of its own. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import click

from broker import __version__

from .errors import PipelineError
from .options import access
from .reads import LogReads


class _Said(click.ClickException):
    exit_code = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stampede-pipeline")
def main() -> None:
    """Archive, report and replay what goes through a Stampede broker (docs/pipeline.md)."""


@main.command()
@click.option("--broker", default="127.0.0.1:61690", show_default=True, help="host:port of the read API, or several.")
@click.option("--user", default="", help="Default: STAMPEDE_PIPELINE_USER; passcode: STAMPEDE_PIPELINE_PASSCODE.")
def check(broker: str, user: str) -> None:
    """Say whether Java, Spark and the broker's read API can be used."""
    from .session import check_spark, java_home

    try:
        check_spark()
        click.echo(f"Java: {java_home()}")
        with LogReads(access({"broker": broker, "user": user, "patience": "5"})) as reads:
            broker_id, _, infos = reads.describe((), "messages")
        click.echo(f"broker {broker_id}: {sum(info.end - info.earliest for info in infos.values())} log items to read")
    except PipelineError as error:
        raise _Said(str(error)) from None


if __name__ == "__main__":
    main()
