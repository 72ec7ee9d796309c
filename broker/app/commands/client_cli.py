"""`stampede send | receive | browse | bench`: the public client on the command line.

Exit codes: 0 done; 1 the server refused or the connection broke; 2 wrong usage; 3 no connection; 4 fewer
messages than asked for came in time.

Rule: arguments in, bytes out; everything STOMP is broker.client's affair, imported when a command runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click

from broker.seams.client_tls import client_context

if TYPE_CHECKING:
    from broker.client import Client, Message, Subscription

REFUSED, NO_CONNECTION, TOO_FEW = 1, 3, 4
STDIN_PIECE = 256 * 1024
MAX_PREFETCH = 100

Command = TypeVar("Command", bound=Callable[..., Any])


class Pair(click.ParamType[tuple[str, str]]):
    """A header as K:V."""

    name = "K:V"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, colon, text = str(value).partition(":")
        if not colon or not name:
            self.fail(f"'{value}' is not NAME:VALUE", param, ctx)
        return name, text


def connection_options(command: Command) -> Command:
    """--url and what goes with it."""
    for option in reversed(
        (
            click.option("--url", default="stomp://127.0.0.1:61613", envvar="STAMPEDE_URL", show_default=True,
                         help="stomp://, stomp+ssl://, ws:// or wss://; also from $STAMPEDE_URL."),
            click.option(
                "--login", envvar="STAMPEDE_LOGIN",
                help="User; also from $STAMPEDE_LOGIN. The passcode comes from $STAMPEDE_PASSCODE or a prompt.",
            ),
            click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="PEM file of the CA to trust."),
            click.option("--client-id", help="Owner of durable subscriptions."),
            click.option("--stomp-version", type=click.Choice(["1.0", "1.1", "1.2"]), default="1.2", show_default=True),
            click.option("--connect-timeout", type=float, default=10, show_default=True, metavar="SECONDS"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def headers_option(command: Command) -> Command:
    return click.option("-H", "--header", "headers", type=Pair(), multiple=True, help="Another header; repeatable.")(
        command
    )


def opener(
    url: str, login: str | None, ca: str | None, client_id: str | None, stomp_version: str, connect_timeout: float
) -> Callable[[], Any]:
    """A function that makes one connection, by the options of connection_options."""
    from broker.client import ClientError, connect

    if login is not None:
        scheme, mark, rest = url.partition("://")
        passcode = os.environ.get("STAMPEDE_PASSCODE") or click.prompt("Passcode", hide_input=True, err=True)
        url = f"{scheme}{mark}{quote(login, safe='')}:{quote(passcode, safe='')}@{rest}"
    tls = client_context(ca) if ca else None

    def open_client() -> Any:
        return connect(url, client_id=client_id, version=stomp_version, timeout=connect_timeout, tls=tls)

    try:
        open_client()  # opens nothing before it is awaited, but says what is wrong with the arguments
    except ClientError as error:
        raise click.UsageError(str(error)) from error
    return open_client


def run(work: Coroutine[Any, Any, int]) -> None:
    """Runs a command; errors become a line for people and an exit code."""
    from broker.client import ClientError, ConnectFailed

    status = REFUSED
    try:
        status = asyncio.run(work)
    except ConnectFailed as error:
        click.echo(f"stampede: {error}", err=True)
        if "refused" in str(error):
            click.echo("Start one with `stampede serve`, or name another with --url.", err=True)
        status = NO_CONNECTION
    except ClientError as error:
        click.echo(f"stampede: {error}", err=True)
    except OSError as error:
        click.echo(f"stampede: {error.filename or ''} {error.strerror or error}".replace("  ", " "), err=True)
    except KeyboardInterrupt:
        status = 130
    raise SystemExit(status)


# ---------------------------------------------------------------------- send


@click.command()
@click.argument("destination")
@click.argument("body", required=False)
@click.option("--file", "path", type=click.Path(exists=True, dir_okay=False), help="Send the content of this file.")
@headers_option
@click.option("--persistent", is_flag=True, help="Header persistent:true: the message survives a restart.")
@click.option("--receipt/--no-receipt", default=True, show_default=True, help="Wait until the server has confirmed.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Send it so many times.")
@connection_options
def send(
    destination: str,
    body: str | None,
    path: str | None,
    headers: tuple[tuple[str, str], ...],
    persistent: bool,
    receipt: bool,
    count: int,
    **connection: Any,
) -> None:
    """Send BODY, a file, or standard input to DESTINATION (/queue/NAME, /topic/NAME)."""
    if body is not None and path is not None:
        raise click.UsageError("give BODY or --file, not both")
    lines = dict(headers)
    if persistent:
        lines["persistent"] = "true"
    run(_send(opener(**connection), destination, body, path, lines, receipt, count))


async def _send(
    open_client: Callable[[], Any],
    destination: str,
    body: str | None,
    path: str | None,
    headers: dict[str, str],
    receipt: bool,
    count: int,
) -> int:
    stdin = sys.stdin.buffer
    first = body.encode() if body is not None else b"" if path else await asyncio.to_thread(_fill, stdin)
    long = body is None and path is None and len(first) == STDIN_PIECE
    if long and count > 1:
        raise click.UsageError("--count with a long standard input: put it into a file and use --file")
    async with open_client() as client:
        if long:
            await client.send_file(destination, _rest_of(stdin, first), headers=headers, receipt=receipt)
        elif path:
            for _ in range(count):
                await client.send_file(destination, path, headers=headers, receipt=receipt)
        else:
            await _send_many(client, destination, first, headers, receipt, count)
    return 0


async def _send_many(
    client: Client, destination: str, body: bytes, headers: dict[str, str], receipt: bool, count: int
) -> None:
    if not receipt:
        for _ in range(count):
            await client.send(destination, body, headers)
        return
    async with client.pipeline() as pipeline:
        for _ in range(count):
            await pipeline.send(destination, body, headers)


def _fill(stream: IO[bytes]) -> bytes:
    return stream.read(STDIN_PIECE)


async def _rest_of(stream: IO[bytes], first: bytes) -> AsyncIterator[bytes]:
    while first:
        yield first
        first = await asyncio.to_thread(_fill, stream)


# ---------------------------------------------------------------------- receive, browse


def output_options(command: Command) -> Command:
    command = click.option("--output", type=click.File("wb", lazy=False), help="File instead of stdout.")(command)
    return click.option(
        "--format", "style", type=click.Choice(["body", "json", "frame"]), default="body", show_default=True,
        help="body: bodies, a line end behind each (none in a file). json: one object per line. frame: with headers.",
    )(command)  # fmt: skip


@click.command()
@click.argument("destination")
@click.option(
    "--count", type=click.IntRange(0), default=1, show_default=True, help="So many messages; 0: until Ctrl-C."
)
@click.option("--timeout", type=float, metavar="SECONDS", help="Give up when no message came for so long.")
@click.option("--ack", type=click.Choice(["auto", "client", "client-individual"]), default="client-individual",
              show_default=True, help="Client modes acknowledge a message once it has been written.")  # fmt: skip
@output_options
@headers_option
@connection_options
def receive(
    destination: str,
    count: int,
    timeout: float | None,
    ack: Any,
    output: IO[bytes] | None,
    style: str,
    headers: tuple[tuple[str, str], ...],
    **connection: Any,
) -> None:
    """Take messages from DESTINATION and print them."""

    window = min(count or MAX_PREFETCH, MAX_PREFETCH)

    async def work() -> int:
        async with (
            opener(**connection)() as client,
            client.subscribe(
                destination, ack, prefetch=None if ack == "auto" else window, headers=dict(headers)
            ) as subscription,
        ):
            settle = None if ack == "auto" else Settling(count - window if count else None)
            return await _receive(subscription, count, timeout, Printer(output, style), settle)

    run(work())


@click.command()
@click.argument("destination")
@output_options
@headers_option
@connection_options
def browse(
    destination: str, output: IO[bytes] | None, style: str, headers: tuple[tuple[str, str], ...], **connection: Any
) -> None:
    """Print the messages that wait in a queue; they stay there."""

    async def work() -> int:
        async with (
            opener(**connection)() as client,
            client.subscribe(destination, browse=True, headers=dict(headers)) as subscription,
        ):
            return await _receive(subscription, 0, None, Printer(output, style), None)

    run(work())


class Settling:
    """Acknowledges what was printed, but never so early that the server hands out more than will be taken: a message
    that is handed out and returned counts as redelivered.

    spare: messages that may be acknowledged at once; None: all. All further ones are acknowledged by finish()."""

    def __init__(self, spare: int | None) -> None:
        self._spare = spare
        self._later: list[Message] = []

    async def printed(self, message: Message) -> None:
        if self._spare is not None and self._spare <= 0:
            self._later.append(message)
            return
        if self._spare is not None:
            self._spare -= 1
        await message.ack()

    async def finish(self) -> None:
        """The last one asks for a receipt: when it is there, all have been counted."""
        for message in self._later[:-1]:
            await message.ack()
        for message in self._later[-1:]:
            await message.ack(receipt=True)


async def _receive(
    subscription: Subscription, count: int, timeout: float | None, printer: Printer, settling: Settling | None
) -> int:
    taken = 0
    try:
        while not count or taken < count:
            message = await subscription.get(timeout)
            if message is None:
                return TOO_FEW if count or timeout is not None else 0
            await printer.put(message)
            if settling is not None:
                await settling.printed(message)
            taken += 1
        return 0
    finally:
        if settling is not None:
            await settling.finish()


class Printer:
    """Writes messages to a binary stream in one of three styles."""

    def __init__(self, file: IO[bytes] | None, style: str) -> None:
        self._stream: IO[bytes] = sys.stdout.buffer if file is None else file
        self._style = style
        self._end = b"\n" if file is None or style != "body" else b""

    async def put(self, message: Message) -> None:
        """Writes and flushes one message. Large bodies go through piece by piece, except as json."""
        if self._style == "json":
            self._stream.write(as_json(message.headers, await message.read()))
        else:
            if self._style == "frame":
                lines = "".join(f"{name}:{value}\n" for name, value in message.headers.items())
                self._stream.write(f"MESSAGE\n{lines}\n".encode())
            async for piece in message.stream():
                await asyncio.to_thread(self._stream.write, piece)
        self._stream.write(self._end)
        self._stream.flush()


def as_json(headers: dict[str, str], body: bytes) -> bytes:
    """{"headers": …, "body": text} or, when the body is not UTF-8, "body_base64"."""
    import base64
    import json

    record: dict[str, Any] = {"headers": headers}
    try:
        record["body"] = body.decode()
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(body).decode()
    return json.dumps(record, ensure_ascii=False).encode()


# ---------------------------------------------------------------------- bench


@click.command()
@click.option("--destination", default="/queue/stampede-bench", show_default=True)
@click.option("--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True)
@click.option("--body", "body_bytes", type=click.IntRange(20), default=100, show_default=True, metavar="BYTES")
@click.option("--rate", type=click.FloatRange(0), default=0.0, help="Messages per second; 0: as fast as possible.")
@click.option("--lag", type=click.IntRange(1), default=1000, show_default=True, help="Most messages under way.")
@headers_option
@connection_options
def bench(
    destination: str,
    seconds: float,
    body_bytes: int,
    rate: float,
    lag: int,
    headers: tuple[tuple[str, str], ...],
    **connection: Any,
) -> None:
    """One producer, one consumer: throughput and latency as JSON.

    The generator is Python as well: the figures measure client and server together. For the server alone use
    bench/ in the source tree."""
    from .client_bench import measure

    run(measure(opener(**connection), destination, seconds, body_bytes, rate, lag, dict(headers)))


client_commands: list[click.Command] = [send, receive, browse, bench]
