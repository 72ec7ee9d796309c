"""connect(): from a URL to a Client that is logged in.

Rule: everything that can be wrong with arguments is refused before a socket is opened.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Generator, Mapping
from types import TracebackType

from broker.wire.versions import Version

from .connection import Client
from .errors import ClientError, ConnectFailed, ConnectionLost
from .target import Target, parse
from .transport import open_transport

VERSIONS = ("1.2", "1.1", "1.0")


class _Connecting:
    """Both `await connect(...)` and `async with connect(...) as c`."""

    __slots__ = ("_client", "_options")

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._client: Client | None = None

    def __await__(self) -> Generator[None, None, Client]:
        return self._options.open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._options.open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.__aexit__(kind, error, trace)


class _Options:
    __slots__ = ("buffer_bytes", "headers", "heartbeat", "large_body_bytes", "receipt_timeout", "target", "timeout",
                 "tls", "version")  # fmt: skip

    def __init__(
        self, target: Target, tls: ssl.SSLContext | None, headers: list[tuple[str, str]], heartbeat: tuple[int, int],
        version: str, timeout: float, receipt_timeout: float, buffer_bytes: int, large_body_bytes: int,
    ) -> None:  # fmt: skip
        self.target = target
        self.tls = tls
        self.headers = headers
        self.heartbeat = heartbeat
        self.version = version
        self.timeout = timeout
        self.receipt_timeout = receipt_timeout
        self.buffer_bytes = buffer_bytes
        self.large_body_bytes = large_body_bytes

    async def open(self) -> Client:
        try:
            async with asyncio.timeout(self.timeout):
                return await self._open()
        except TimeoutError:
            raise ConnectFailed(
                f"{self.target}: no STOMP CONNECTED within {self.timeout:g} s; is it a STOMP port of this kind?"
            ) from None

    async def _open(self) -> Client:
        transport = await open_transport(self.target, self.tls, (self.version,))
        client = Client(
            transport,
            receipt_timeout=self.receipt_timeout,
            buffer_bytes=self.buffer_bytes,
            large_body_bytes=self.large_body_bytes,
        )
        try:
            await client.login(self.headers, self.heartbeat)
        except BaseException as error:
            await client.kill()
            if isinstance(error, ConnectionLost):
                raise ConnectFailed(f"{self.target}: {error}") from error
            raise
        return client


def connect(
    url: str,
    *,
    heartbeat: tuple[int, int] = (10_000, 10_000),
    tls: ssl.SSLContext | None = None,
    client_id: str | None = None,
    version: str = "1.2",
    vhost: str | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
    receipt_timeout: float = 30.0,
    buffer_bytes: int = 4 * 1024 * 1024,
    large_body_bytes: int = 1024 * 1024,
) -> _Connecting:
    """`async with connect("stomp://user:pass@host:61613") as c:` or `c = await connect(...)`, then `await c.close()`.

    url        stomp://, stomp+ssl://, ws:// or wss:// (default ports 61613, 61612, 80, 443); a path names the virtual
               host for stomp:// and the resource for ws://. Percent-encode special characters of the passcode.
    heartbeat  (can send every, want every) milliseconds; 0 = not.
    tls        SSL context for the secure schemes; None trusts the system's certificate authorities.
    client_id  owner of durable subscriptions.    version   the one version that is offered.
    vhost      `host` header; None: from the URL.    headers   more headers for CONNECT.
    timeout, receipt_timeout   seconds until CONNECTED, and that any call waits for its answer.
    buffer_bytes      of unread messages that are kept; above it the socket is not read.
    large_body_bytes  bodies from this size on are streamed: m.stream(), m.save().

    Raises ConnectFailed, ServerError (login refused), ClientError (bad arguments)."""
    target = parse(url)
    if version not in VERSIONS:
        raise ClientError(f"version {version!r} is none of {', '.join(VERSIONS)}")
    if min(heartbeat) < 0:
        raise ClientError("heartbeat: milliseconds cannot be negative")
    lines = [("accept-version", version), ("host", vhost if vhost is not None else target.vhost)]
    if version != Version.V10.value:
        lines.append(("heart-beat", f"{heartbeat[0]},{heartbeat[1]}"))
    if target.login is not None:
        lines.append(("login", target.login))
    if target.passcode is not None:
        lines.append(("passcode", target.passcode))
    if client_id is not None:
        lines.append(("client-id", client_id))
    lines.extend((headers or {}).items())
    if any(c in text for pair in lines for text in pair for c in "\r\n\0"):
        raise ClientError("CONNECT headers cannot hold line breaks")
    return _Connecting(
        _Options(
            target, tls, lines, heartbeat if version != "1.0" else (0, 0), version,
            timeout, receipt_timeout, buffer_bytes, large_body_bytes,
        )
    )  # fmt: skip
