"""Byte pipes to a server: TCP, TLS and WebSocket behind one face.

Rule: bytes in, bytes out, back-pressure both ways; knows nothing of STOMP but the names of the WebSocket
sub-protocols. OSErrors of a connection that broke come out of read() and send() as they are.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Protocol

from broker.seams.client_tls import client_context

from .errors import ClientError, ConnectFailed
from .target import Target

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

CLOSE_TIMEOUT_S = 2.0
"""How long a peer may take to accept the last bytes and the end."""
READ_BYTES = 256 * 1024
"""Asked for per read: enough to make a batch, little enough to keep memory small."""
WEBSOCKET_PIECE = 256 * 1024
"""Largest WebSocket message sent; servers commonly limit them to 1 MiB."""
WEBSOCKET_MAX = 64 * 1024 * 1024
"""Largest WebSocket message taken: servers may send a whole STOMP frame as one message."""


class Transport(Protocol):
    """A connected byte pipe. One task reads, one task sends."""

    async def read(self) -> bytes:
        """Some bytes, or b"" when the peer has ended the connection."""
        ...

    async def send(self, data: bytes) -> None:
        """Hands `data` to the socket; returns when the socket's buffer has room again."""
        ...

    async def close(self) -> None:
        """Flushes and ends the connection. Never raises."""
        ...

    def abort(self) -> None:
        """Ends the connection at once; what was not sent is lost."""
        ...


class StreamTransport:
    """TCP or TLS."""

    __slots__ = ("_reader", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._writer.wait_closed()
        except OSError:
            # TimeoutError is one of them: the peer does not read what is left to flush.
            self._writer.transport.abort()

    def abort(self) -> None:
        self._writer.transport.abort()


class WebSocketTransport:
    """WebSocket by the `websockets` package; sends binary messages, takes text and binary."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def read(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed:
            return b""

    async def send(self, data: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for start in range(0, len(data), WEBSOCKET_PIECE):
                await self._connection.send(data[start : start + WEBSOCKET_PIECE])
        except ConnectionClosed as closed:
            raise ConnectionResetError(str(closed)) from closed

    async def close(self) -> None:
        await self._connection.close()

    def abort(self) -> None:
        self._connection.transport.abort()


async def open_transport(target: Target, tls: ssl.SSLContext | None, versions: tuple[str, ...]) -> Transport:
    """Connects. `tls`: context for secure schemes; None: the system's certificate authorities.

    Raises ConnectFailed."""
    if tls is not None and not target.secure:
        raise ClientError(f"tls was given, but {target.scheme}:// is not encrypted; write stomp+ssl:// or wss://")
    context = (tls or client_context()) if target.secure else None
    try:
        if target.websocket:
            return await _open_websocket(target, context, versions)
        reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context, limit=READ_BYTES)
        return StreamTransport(reader, writer)
    except ssl.SSLCertVerificationError as error:
        raise ConnectFailed(
            f"{target}: the server's certificate is not trusted ({error.verify_message}); pass its CA"
        ) from error
    except ssl.SSLError as error:
        raise ConnectFailed(f"{target}: TLS failed ({error.reason}); is this a TLS port?") from error
    except ConnectionResetError as error:
        raise ConnectFailed(f"{target}: closed by the other side; is it a port for {target.scheme}://?") from error
    except ConnectionRefusedError as error:
        raise ConnectFailed(f"{target}: connection refused; is a broker running there?") from error
    except OSError as error:
        raise ConnectFailed(f"{target}: {error.strerror or error}") from error


async def _open_websocket(target: Target, tls: ssl.SSLContext | None, versions: tuple[str, ...]) -> Transport:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidHandshake
        from websockets.typing import Subprotocol
    except ImportError as error:
        raise ClientError("ws:// and wss:// need the package `websockets`: pip install websockets") from error
    offered = [Subprotocol(f"v{version.replace('.', '')}.stomp") for version in versions]
    try:
        connection = await connect(
            str(target),
            ssl=tls,
            subprotocols=offered,
            max_size=WEBSOCKET_MAX,
            open_timeout=None,
            close_timeout=CLOSE_TIMEOUT_S,
        )
    except InvalidHandshake as error:
        raise ConnectFailed(f"{target}: no WebSocket there ({error})") from error
    return WebSocketTransport(connection)
