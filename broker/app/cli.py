"""`stampede`: serve, settings, user …, journal …, the client commands, and those for operators.

Rule: parse, call, say; no logic of its own. Everything heavy is imported inside the command that needs it, so
that `stampede serve` listens well under a second after it was typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from broker import __version__

from .commands.options import Misuse, edges_option, read, serve_options, settings_of, source_of

if TYPE_CHECKING:
    from broker.config.settings import Settings

_LAZY = {
    "cluster": "commands.etcd.cluster_copies_cli",
    "doctor": "doctor.doctor_cli",
    "user": "commands.data_cli",
    "journal": "commands.salvage_cli",
    "docs": "commands.docs",
    "import": "commands.import_cli:import_",
    "config": "commands.config_cli:config",
    "token": "commands.token_cli:token",
    "rights": "commands.explain_cli:rights",
    "audit": "commands.explain_cli:audit",
    "backup": "commands.backup_cli",
    "restore": "commands.backup_cli:restore",
    **{
        name: f"commands.admin_cli:{name.replace('-', '_')}"
        for name in (
            "queues", "queue", "addresses", "subscriptions", "connections", "disconnect", "dlq", "messages", "export",
            "import-messages", "completion", "top",
        )
    },
}  # fmt: skip


class Commands(click.Group):
    """Commands of other modules, imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_LAZY, *_client_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in _LAZY:
            from importlib import import_module

            module, _, attribute = _LAZY[cmd_name].partition(":")
            found: click.Command = getattr(import_module(f"broker.app.{module}"), attribute or cmd_name)
            return found
        return _client_commands().get(cmd_name)


def _client_commands() -> dict[str, click.Command]:
    from .commands.client_cli import client_commands

    return {command.name or "": command for command in client_commands}


class ServeCommand(click.Command):
    """`serve --help` explains every setting. The text is long, so it is made only when asked for."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from broker.config.describe import help_text

        formatter.write(
            "\nEvery setting, by its name in the config file. As a flag: --set edge.port=61613. In the environment:\n"
            'STAMPEDE_EDGE__PORT=61613. In a TOML file: [edge] port = 61613. Sizes may be written "64MiB" or "10MB".\n'
            "Flags win over the environment, the environment over the file.\n\n" + help_text() + "\n"
        )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="stampede")
def main() -> None:
    """Stampede, a message broker that speaks STOMP 1.0, 1.1 and 1.2."""


@main.command(cls=ServeCommand)
@edges_option
@serve_options
def serve(**options: Any) -> None:
    """Run a broker in this process until SIGTERM or Ctrl-C.

    With --edges N clients are served by N more processes, so that more than one core is used. A message costs about
    twice the CPU then: on one or two cores it is slower (docs/benchmarks.md)."""
    source = source_of(**options)
    settings = read(source)
    from .standalone import run

    stop_logging = _logging(settings)
    try:
        status = run(settings, source)
    finally:
        stop_logging()
    raise SystemExit(status)


@main.command(cls=ServeCommand)
@serve_options
def owner(**options: Any) -> None:
    """Run an owner of a cluster: it keeps slots and their journal. Needs etcd (etcd.endpoints).

    Other components reach it at cluster.advertise (default: cluster.host and cluster.port)."""
    _run("owner", "OwnerProcess", options)


@main.command(cls=ServeCommand)
@serve_options
def edge(**options: Any) -> None:
    """Run an edge of a cluster: it speaks STOMP and keeps nothing. Needs etcd (etcd.endpoints)."""
    _run("edge", "EdgeProcess", options)


@main.command(cls=ServeCommand)
@serve_options
def scaler(**options: Any) -> None:
    """Run KEDA's external scaler for a cluster: consumers scale by what waits for them. Needs etcd and the owners'
    admin ports."""
    _run("scaler", "ScalerProcess", options)


def _logging(settings: Settings) -> Callable[[], None]:
    from broker.core.errors import ConfigError

    from .process.logs import set_up

    try:
        return set_up(settings.log)
    except ConfigError as error:
        raise Misuse(str(error)) from None


def _run(module: str, name: str, options: dict[str, Any]) -> None:
    settings = settings_of(**options)
    from importlib import import_module

    from .process.process import run

    stop_logging = _logging(settings)
    try:
        status = run(getattr(import_module(f"broker.app.{module}"), name), settings)
    finally:
        stop_logging()
    raise SystemExit(status)


@main.command()
@serve_options
def settings(**options: Any) -> None:
    """Print the settings `serve` would run with, as a config file.

    Settings hold no secrets: users and keys are in files of their own, of which only the path is shown."""
    from broker.config.describe import as_toml

    click.echo(as_toml(settings_of(**options)), nl=False)


if __name__ == "__main__":
    main(prog_name="stampede")
