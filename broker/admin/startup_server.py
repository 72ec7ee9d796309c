"""The admin port while the journal is read: alive, not ready, and how far it is.

A process that recovers for a minute must not be killed by a liveness probe. The real admin port comes later and takes
the socket over, so nobody is refused in between.

Rule: the standard library only, and three answers: alive, ready or not, and to anything else that it starts, which is
to be asked again. Must not know what is being waited for.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError

_PATIENCE_S = 5.0
_LAST_S = 0.5
"""So long those have who have connected and not been answered yet, before the real port is there."""
_LONGEST = 8192


STARTING: Final = {
    "type": "urn:stampede:problem:starting", "title": "It starts", "detail": "the process is starting",
    "fix": "ask again in a moment; /readyz says how far it is",
}  # fmt: skip
"""What is answered to requests for more (RFC 9457)."""


class EarlyServer:
    """`state`: as AdminServer's `ready`. Clients may be served some tenths of a second before the real port is there:
    then /readyz says so, and the API still that it starts."""

    def __init__(self, settings: AdminSettings, state: Callable[[], tuple[bool, dict[str, Any]]]) -> None:
        self._settings = settings
        self._state = state
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self.port = -1

    async def start(self) -> None:
        """Binds the port; does nothing when it is -1. Raises ConfigError."""
        if self._settings.port < 0:
            return
        host, port = self._settings.host, self._settings.port
        try:
            self._server = await asyncio.start_server(self._talk, host or None, port, backlog=64, limit=_LONGEST)
        except OSError as error:
            raise cannot_listen(self._settings, error) from None
        self._socket = socket.socket(fileno=os.dup(self._server.sockets[0].fileno()))
        self.port = self._socket.getsockname()[1]

    async def hand_over(self) -> socket.socket | None:
        """The listening socket, for the server that answers from now on. None: there is none, or one for each of
        several addresses."""
        several = self._server is not None and len(self._server.sockets) > 1
        await self._close(_LAST_S)
        taken, self._socket = self._socket, None
        if taken is not None and several:
            taken.close()
            return None
        return taken

    async def stop(self) -> None:
        """May be called twice, and after hand_over()."""
        await self._close()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _close(self, patience_s: float = 0.0) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            if self._talks and patience_s:
                await asyncio.wait(self._talks, timeout=patience_s)
            for talk in list(self._talks):
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)
            await server.wait_closed()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            with suppress(OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
                async with asyncio.timeout(_PATIENCE_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head.split(b" ", 2)[1:2]))
                    await writer.drain()
        finally:
            self._talks.discard(task)
            writer.close()

    def _answer(self, path: list[bytes]) -> bytes:
        ready, details = self._state()
        kind, later = b"application/json", b""
        status = b"200 OK" if ready else b"503 Service Unavailable"
        if path == [b"/healthz"]:
            status, body = b"200 OK", b"alive\n"
        elif path == [b"/readyz"]:
            body = json.dumps({"ready": ready, **details}, ensure_ascii=False).encode() + b"\n"
        else:
            status, kind, later = b"503 Service Unavailable", b"application/problem+json", b"Retry-After: 1\r\n"
            told = {**STARTING, "detail": "; ".join([STARTING["detail"], *(f"{k}: {v}" for k, v in details.items())])}
            body = json.dumps({**told, "status": 503}, ensure_ascii=False).encode() + b"\n"
        return (
            b"HTTP/1.1 %b\r\nContent-Type: %b\r\n%bCache-Control: no-store\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (status, kind, later, len(body), body)
        )


def cannot_listen(settings: AdminSettings, error: OSError) -> ConfigError:
    """What to say of an address that cannot be bound."""
    return ConfigError(
        f"The admin port cannot listen on {settings.host or '*'}:{settings.port}: {error.strerror or error}. "
        "Change admin.host or admin.port (-1 turns it off)."
    )
