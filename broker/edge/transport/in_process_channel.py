"""A connection from inside the process: a bridge is a client of its own broker, without a socket and a passcode.

InProcessChannel is the end of the session, its `pipe` that of the client: bytes to read and to send.

Rule: as much back-pressure as a socket has, both ways, and no more than PIECE is received in one turn of the loop, so
that a fast bridge holds up nobody. Who it is was decided by who made it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from broker.config.acceptor import AcceptorSettings
from broker.config.ports import edge_acceptors
from broker.config.settings import Settings
from broker.core.certificates import PeerCertificate
from broker.core.reasons import Reason

from .channel import EdgeLike, SessionLike, next_connection_id

INSIDE = "$bridge"
"""The acceptor that nobody listens on. No acceptor of the settings is called that (config/checks.py): its settings
would be those of bridges, whatever it locks its clients into."""
PIECE = 8 * 1024
HIGH = 128 * 1024
"""Bytes that the client has not read, above which its subscriptions get no more."""


def inside(settings: Settings) -> AcceptorSettings:
    """As a port of [edge] in the broker's own dialect; it is never silent, as there is no network that could be."""
    return replace(
        edge_acceptors(settings.edge)["tcp"], port=-1, dialect="artemis", connection_ttl_ms=-1,
        default_heartbeat="0,0", server_header=True, server_name="", default_user="",
        client_ids="*",  # a bridge goes by its own name, whatever its user
        large_body_bytes=settings.wire.large_body_bytes,
    )  # fmt: skip


class InProcessPipe:
    """What a client writes to and reads from (client.transport.Transport)."""

    def __init__(self, channel: InProcessChannel) -> None:
        self._channel = channel

    async def read(self) -> bytes:
        return await self._channel.drain()

    async def send(self, data: bytes) -> None:
        await self._channel.receive(data)

    async def close(self) -> None:
        self._channel.abort()

    def abort(self) -> None:
        self._channel.abort()


class InProcessChannel:
    """See the head of this file. user   whose rights it has; it must be there once there are users."""

    framed = False
    texts = False
    tls_subject: str | None = None
    certificate: PeerCertificate | None = None
    tls_name = ""
    transport_name = INSIDE

    def __init__(self, edge: EdgeLike, name: str, user: str) -> None:
        self.id = next_connection_id()
        self.peer = f"bridge.{name}:0"
        self.user = user
        self.reason: Reason | None = None
        self._out: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._over = False
        self._something = asyncio.Event()
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._session: SessionLike | None = None
        self.pipe = InProcessPipe(self)
        self._session = edge.open(self)

    # ── what the session calls ─────────────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        if self._over or not data:
            return
        self._out.append(data)
        self._unread += len(data)
        self._something.set()
        if self._unread > HIGH and not self._paused and self._session is not None:
            self._paused = True
            self._session.pause_writing()

    def write_frames(self, frames: list[bytes]) -> None:
        self.write(b"".join(frames))

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        self.write(data)

    def take_authorization(self) -> str | None:
        """See channel.Channel."""
        return None

    def buffered(self) -> int:
        return self._unread

    def held(self) -> int:
        return self._unread

    def pause_reading(self) -> None:
        self._may_send.clear()

    def resume_reading(self) -> None:
        self._may_send.set()

    def close(self, reason: Reason) -> None:
        """The client reads what has been written, then the end."""
        self._end()

    def abort(self) -> None:
        self._out.clear()
        self._unread = 0
        self._end()

    # ── what the pipe calls ────────────────────────────────────────────────────────────────────────

    async def drain(self) -> bytes:
        """What has been written since; b"" at the end."""
        while not self._out:
            if self._over:
                return b""
            self._something.clear()
            await self._something.wait()
        data = b"".join(self._out)
        self._out.clear()
        self._unread = 0
        if self._paused:
            self._paused = False
            if self._session is not None:
                self._session.resume_writing()
        return data

    async def receive(self, data: bytes) -> None:
        """Returns when the broker has taken it. Raises ConnectionResetError."""
        for start in range(0, len(data), PIECE):
            await self._may_send.wait()
            if self._over or self._session is None:
                raise ConnectionResetError("the broker has ended the connection")
            self._session.receive(data[start : start + PIECE])
            await asyncio.sleep(0)

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        self._something.set()
        self._may_send.set()
        asyncio.get_running_loop().call_soon(self._lost)

    def _lost(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.lost()
