"""`stampede-pipeline`: check, archive, report, replay, rebuild, files, verify, retain, compact, delete.

Rule: parse, call, say; no logic of its own. Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import click

from broker import __version__

from .advice import advised, cause
from .errors import NotInstalledError, PipelineError
from .log.reads import LogReads
from .options import access
from .store.manifests import Archive, damaged, missing, total
from .store.stores import remote


class _Said(click.ClickException):
    exit_code = 1


class _NotHere(_Said):
    """The command cannot be used on this machine."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stampede-pipeline")
def main() -> None:
    """Archive, report and replay what goes through a Stampede broker (docs/pipeline.md)."""


@main.command()
@click.option("--broker", default="127.0.0.1:61690", show_default=True, help="host:port of the read API, or several.")
@click.option("--user", default="", help="Default: STAMPEDE_PIPELINE_USER; passcode: STAMPEDE_PIPELINE_PASSCODE.")
def check(broker: str, user: str) -> None:
    """Say whether Java, Spark and the broker's read API can be used."""

    def work() -> None:
        from .session import check_spark, java_home

        check_spark()
        click.echo(f"Java: {java_home()}")
        with LogReads(access({"broker": broker, "user": user, "patience": "5"})) as reads:
            broker_id, _, infos = reads.describe((), "messages")
        click.echo(f"broker {broker_id}: {sum(info.end - info.earliest for info in infos.values())} log items to read")

    _perform(work)


def _source(f: Any) -> Any:
    """Options that say where to read."""
    for option in reversed([
        click.option("--broker", default="127.0.0.1:61690", show_default=True, help="host:port of the read API."),
        click.option("--user", default="", help="Default: STAMPEDE_PIPELINE_USER."),
        click.option("--passcode-file", default="", help="Default: STAMPEDE_PIPELINE_PASSCODE holds the passcode."),
        click.option("--tls", is_flag=True), click.option("--ca-file", default=""),
    ]):  # fmt: skip
        f = option(f)
    return f


def _conf(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    for each in given:
        key, sign, value = each.partition("=")
        if not sign or not key.startswith("spark."):
            raise click.BadParameter(f"{each!r} is not spark.KEY=VALUE")
        context.meta.setdefault(__name__, {})[key] = value


def _session(master: str, memory: str) -> Any:
    from .session import session

    # Spark's own bars, for who looks at them.
    shown = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    return session(master, memory, **(shown | click.get_current_context().meta.get(__name__, {})))


def _background(_: click.Context, __: click.Parameter, given: bool) -> None:
    if given:
        from .session import give_way

        _perform(give_way)


def _spark(f: Any) -> Any:
    f = click.option("--master", default="local[*]", show_default=True, help="Spark master.")(f)
    f = click.option(
        "--conf", multiple=True, metavar="KEY=VALUE", expose_value=False, callback=_conf,
        help="Of Spark, as for spark-submit: spark.jars.packages=…, spark.hadoop.fs.s3a.endpoint=…",
    )(f)  # fmt: skip
    f = click.option(
        "--background", is_flag=True, expose_value=False, callback=_background,
        help="Processor and disk only while nobody else wants them: beside a broker on the same machine.",
    )(f)  # fmt: skip
    return click.option("--memory", default="1g", show_default=True, help="Of the driver.")(f)


def _options(broker: str, user: str, passcode_file: str, tls: bool, ca_file: str) -> dict[str, str]:
    given = {"broker": broker, "user": user, "passcodeFile": passcode_file, "tls": str(tls).lower(), "caFile": ca_file}
    return {name: value for name, value in given.items() if value}


def _perform(what: Callable[[], object]) -> None:
    try:
        what()
    except NotInstalledError as error:
        raise _NotHere(str(error)) from None
    except PipelineError as error:
        raise _Said(str(error)) from None
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRA:
            raise
        raise _NotHere(str(NotInstalledError(name))) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _Said(advised(f"{where}{error.strerror or error}")) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise _Said(cause(str(error))) from None


_EXTRA: Final = ("pyspark", "pyarrow", "pandas", "numpy", "py4j")
"""What the extra `pipeline` brings."""


@main.command()
@click.argument("folder")
@click.option(
    "--addresses", default="", help="Names or patterns, separated by commas. Default: all. Cannot change later."
)
@click.option("--name", default="archive", show_default=True, help="Of the watermark at the broker.")
@click.option("--once/--continuous", default=True, help="What there is now, or until SIGTERM.")
@click.option("--every", default=10.0, show_default=True, help="Seconds between two rounds of --continuous.")
@_source
@_spark
def archive(
    folder: str, addresses: str, name: str, once: bool, every: float, master: str, memory: str, **source: Any
) -> None:
    """Write what went through the broker to FOLDER as Parquet, each message once."""

    def work() -> None:
        from .jobs.archive import Job, run_on

        job = Job(folder, _options(**source) | {"addresses": addresses}, name)
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        run_on(lambda: _session(master, memory), job, lambda: once or ended.wait(every), click.echo)

    _perform(work)


@main.command()
@click.argument("folder")
@click.option("--id", required=True, help="Of this replay: whoever uses it again sends nothing twice.")
@click.option("--into", required=True, metavar="DESTINATION", help="Such as /queue/again.")
@click.option("--addresses", required=True, help="Names, separated by commas.")
@click.option("--from", "since", default="", metavar="TIME", help='Such as "2026-11-24 13:00" (UTC).')
@click.option("--to", "before", default="", metavar="TIME", help="The first moment that is not replayed.")
@click.option("--where", default="", metavar="SQL", help="Of the columns of docs/pipeline.md.")
@click.option("--rate", default=0.0, help="Messages per second; 0: as fast as it goes.")
@click.option("--url", default="stomp://127.0.0.1:61613", show_default=True, help="Where to send.")
@click.option("--dry-run/--send", default=True, show_default=True)
@_source
@_spark
def replay(
    folder: str, id: str, into: str, addresses: str, since: str, before: str, where: str, rate: float, url: str,
    dry_run: bool, master: str, memory: str, **source: Any,
) -> None:  # fmt: skip
    """Send messages again that are in the archive FOLDER or still in the broker's log."""

    def work() -> None:
        from .jobs.replay import Plan, count
        from .jobs.replay import replay as send

        names = tuple(part.strip() for part in addresses.split(",") if part.strip())
        plan = Plan(id, into, names, since, before, where)
        spark = _session(master, memory)
        try:
            if dry_run:
                for row in count(spark, folder, _options(**source), plan, click.echo):
                    click.echo("{address}: {messages} messages, {bytes} bytes, {first} to {last}".format(**row))
                click.echo("nothing was sent; --send does")
            else:
                click.echo(f"{send(spark, folder, _options(**source), url, plan, rate, click.echo)} messages sent")
        finally:
            spark.stop()

    _perform(work)


@main.command()
@click.argument("folder")
@click.option("--id", required=True, help="Of this rebuild: whoever uses it again sends nothing twice.")
@click.option(
    "--at", default="", metavar="TIME", help='Such as "2026-11-24 13:00" (UTC). Default: the end of the archive.'
)
@click.option("--rate", default=0.0, help="Messages per second; 0: as fast as it goes.")
@click.option("--url", default="stomp://127.0.0.1:61613", show_default=True, help="Of the new broker.")
@click.option("--dry-run/--send", default=True, show_default=True)
@_spark
def rebuild(folder: str, id: str, at: str, rate: float, url: str, dry_run: bool, master: str, memory: str) -> None:
    """Put into a new broker what the queues held, from the archive FOLDER alone."""

    def work() -> None:
        from .jobs.rebuild import count
        from .jobs.rebuild import rebuild as send

        spark = _session(master, memory)
        try:
            if dry_run:
                for row in count(spark, folder, at, click.echo):
                    click.echo("{destination}: {messages} messages, {bytes} bytes".format(**row))
                click.echo("nothing was sent; --send does")
            else:
                click.echo(f"{send(spark, folder, url, id, at, rate, click.echo)} messages sent")
        finally:
            spark.stop()

    _perform(work)


@main.command()
@click.argument("folder")
@click.option("--out", default="report", show_default=True, metavar="NAME", help="Of NAME.html, .json and .parquet/.")
@_spark
def report(folder: str, out: str, master: str, memory: str) -> None:
    """Say what the archive FOLDER tells of throughput, sizes, latencies and dead letters."""

    def work() -> None:
        from .jobs.report import report as gather

        spark = _session(master, memory)
        try:
            found = gather(spark, folder, click.echo)
        finally:
            spark.stop()
        stem = os.path.abspath(out)
        found.write(stem)
        click.echo(f"{stem}.html")

    _perform(work)


@contextlib.contextmanager
def _reaching(folder: str, master: str, memory: str) -> Iterator[Any]:
    """A session where the archive is behind Spark's file systems, else None: a folder needs no Java."""
    if not remote(folder):
        yield None
        return
    spark = _session(master, memory)
    try:
        yield spark
    finally:
        spark.stop()


@main.command()
@click.argument("folder")
@click.option("--view", default="messages", show_default=True, type=click.Choice(["messages", "events"]))
@_spark
def files(folder: str, view: str, master: str, memory: str) -> None:
    """List the files that make up an archive, for DuckDB, pandas and others."""

    def work() -> None:
        with _reaching(folder, master, memory) as spark:
            archive = Archive(folder, spark)
            for path in archive.live(view, archive.existing()):
                click.echo(path)

    _perform(work)


@main.command()
@click.argument("folder")
@_spark
def verify(folder: str, master: str, memory: str) -> None:
    """Say how much an archive holds, and whether all of it is there."""

    def work() -> None:
        with _reaching(folder, master, memory) as spark:
            held = Archive(folder, spark)
            state = held.existing()
            if gone := missing(held, state):
                raise PipelineError(
                    f"{len(gone)} files are missing, {held.path(gone[0])} first: restore them from a backup"
                )
            if broken := damaged(held, state, spark, click.echo):
                raise PipelineError(
                    f"{len(broken)} files are damaged; restore them from a backup: " + ", ".join(broken)
                )
        rows, nbytes = total(state.files.values())
        click.echo(f"{state.number} manifests, {len(state.files)} files, {rows} rows, {nbytes} bytes")

    _perform(work)


@main.command()
@click.argument("folder")
@click.option("--before", required=True, metavar="YYYY-MM-DD", help="The first day that stays.")
@_spark
def retain(folder: str, before: str, master: str, memory: str) -> None:
    """Remove whole days from an archive."""
    from .jobs.upkeep import retain as remove

    if not re.fullmatch(r"\d{4}-\d\d-\d\d", before):
        raise _Said("--before is a day, such as 2026-11-24")

    def work() -> None:
        with _reaching(folder, master, memory) as spark:
            click.echo(f"{remove(folder, before, spark)} rows removed")

    _perform(work)


@main.command()
@click.argument("folder")
@_spark
def compact(folder: str, master: str, memory: str) -> None:
    """Make few large sorted files of many small ones."""

    def work() -> None:
        from .jobs.upkeep import compact as merge

        spark = _session(master, memory)
        try:
            click.echo(f"{merge(spark, folder, click.echo)} hours compacted")
        finally:
            spark.stop()

    _perform(work)


@main.command()
@click.argument("folder")
@click.argument("ids", nargs=-1, required=True)
@_spark
def delete(folder: str, ids: tuple[str, ...], master: str, memory: str) -> None:
    """Take messages out of an archive by their message ids, with events and large bodies."""

    def work() -> None:
        from .jobs.upkeep import delete as take_out

        spark = _session(master, memory)
        try:
            found = take_out(spark, folder, ids, click.echo)
            click.echo(f"{found.rows} rows deleted")
            if found.absent:
                raise PipelineError(
                    "the archive has nothing of "
                    + ", ".join(found.absent)
                    + ": check the spelling (column message_id); "
                    "or it was deleted before, or is not archived yet, in which case run `archive` and then this again"
                )
        finally:
            spark.stop()

    _perform(work)


if __name__ == "__main__":
    main()
