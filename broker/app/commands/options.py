"""Flags shared by the commands, and the way from flags to Settings.

Rule: a flag is only another spelling of a setting (`--port` is `--set edge.port=`). Imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..process.shell_audit import LOG

if TYPE_CHECKING:
    from broker.config.load import SettingsSource
    from broker.config.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])


_FLAGS = (
    ("--host", "edge.host", "ADDRESS", "Where to listen. Default: 127.0.0.1 without users, everywhere with users."),
    ("--port", "edge.port", "PORT", "STOMP port. Default 61613; 0 picks a free one, -1 turns it off."),
    ("--ws-port", "edge.ws_port", "PORT", "STOMP over WebSocket. Default 61614."),
    ("--tls-port", "edge.tls_port", "PORT", "STOMP over TLS. Off by default; needs --tls-cert and --tls-key."),
    ("--wss-port", "edge.wss_port", "PORT", "STOMP over WebSocket over TLS. Off by default."),
    ("--tls-cert", "edge.tls_cert_file", "FILE", "PEM certificate chain; re-read when it changes."),
    ("--tls-key", "edge.tls_key_file", "FILE", "PEM private key."),
    ("--admin-port", "admin.port", "PORT", "Metrics and health. Default 61680 on 127.0.0.1; -1 turns it off."),
    ("--log-level", "log.level", "LEVEL", "DEBUG, INFO, WARNING or ERROR. Default INFO."),
)
_DATA = ("--data", "data", "FOLDER", "Journal, large bodies and users. Default ./stampede-data.")


def _option(flag: str, setting: str, metavar: str, text: str) -> Callable[[Command], Command]:
    return click.option(flag, setting.replace(".", "__"), metavar=metavar, help=text)


def edges_option(command: Command) -> Command:
    """Of `serve` alone."""
    text = "Edge processes that share the ports, where there are four cores or more: a number, or auto. Default 0."
    return _option("--edges", "edge.processes", "N|auto", text)(command)


def source_options(command: Command) -> Command:
    """--config, --set and --data: enough to find the data folder of a broker."""
    command = click.option(
        "--set", "sets", multiple=True, metavar="NAME=VALUE", help="Any setting, e.g. --set edge.max_connections=100."
    )(command)
    command = _option(*_DATA)(command)
    return click.option(
        "--config", "config_file", envvar="STAMPEDE_CONFIG", metavar="FILE",
        help="TOML or YAML file. Also from STAMPEDE_CONFIG.",
    )(command)  # fmt: skip


def serve_options(command: Command) -> Command:
    """The common settings as flags of their own."""
    for flag in reversed(_FLAGS):
        command = _option(*flag)(command)
    return source_options(command)


def settings_of(config_file: str | None, sets: tuple[str, ...], **flags: str | None) -> Settings:
    """What `serve` would run with. Raises click.ClickException (exit status 2) with ConfigError's text."""
    return read(source_of(config_file, sets, **flags))


def read(source: SettingsSource) -> Settings:
    """The same of a source that is kept: a file of 100,000 permissions takes seconds to read."""
    from broker.core.errors import ConfigError

    from ..process.garbage import uncollected

    try:
        with uncollected():
            settings = source.read()
    except ConfigError as error:
        raise Misuse(str(error)) from None
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[LOG] = settings.log
    return settings


def source_of(config_file: str | None, sets: tuple[str, ...], **flags: str | None) -> SettingsSource:
    """Where its settings come from. Raises click.ClickException."""
    from broker.config.load import SettingsSource

    overrides: dict[str, str] = {}
    for text in sets:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set needs NAME=VALUE, not {text!r}.")
        overrides[name.strip()] = value.strip()
    overrides.update({name.replace("__", "."): value for name, value in flags.items() if value is not None})
    return SettingsSource(config_file, os.environ, overrides)


class Failure(click.ClickException):
    """It did not work: `stampede: text` on stderr, exit status 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"stampede: {self.message}", err=True, file=file)


class Misuse(Failure):
    """It was asked for wrongly (settings, arguments): exit status 2."""

    exit_code = 2
