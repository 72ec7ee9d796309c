"""Listening sockets: STOMP over TCP and WebSocket, each with or without TLS.

Rule: binds, accepts and hands over; every connection is a Channel of the edge from then on. A port that cannot
be had is a ConfigError that names the setting to change. Knows no sessions.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial

from broker.config.settings import EdgeSettings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric

from .channel import EdgeLike
from .tcp import BufferedTcpChannel, StreamChannel, TcpChannel, tune
from .tls import CertificateWatcher, Handshakes, TlsServer
from .websocket import BufferedWsChannel, WsChannel

log = logging.getLogger("stampede.edge")

BACKLOG = 1024
"""Connections the kernel holds until we accept them: 5,000 a second leave 0.2 s for a busy loop."""


def listen_host(settings: EdgeSettings, has_users: bool) -> str:
    """Where to listen: as set; else this machine only while there are no users, and everywhere ("") with users."""
    return settings.host or ("" if has_users else "127.0.0.1")


class Listeners:
    """All listening sockets of an edge. `ports` holds the real ports by transport name once started."""

    def __init__(self, edge: EdgeLike, settings: EdgeSettings, loop: asyncio.AbstractEventLoop, host: str) -> None:
        """`host`: see listen_host(); "" is every interface, IPv4 and IPv6."""
        self._edge = edge
        self._settings = settings
        self._loop = loop
        self._host = host
        self._servers: list[asyncio.AbstractServer | TlsServer] = []
        self._handshakes: Handshakes | None = None
        self.certificates: CertificateWatcher | None = None
        self.ports: dict[str, int] = {}

    async def start(self) -> None:
        """Binds everything that is turned on, or nothing. Raises ConfigError."""
        settings = self._settings
        plain = ("tcp", settings.port), ("ws", settings.ws_port)
        secure = ("tls", settings.tls_port), ("wss", settings.wss_port)
        try:
            if any(port >= 0 for _, port in secure):
                self.certificates = CertificateWatcher(settings, self._loop)
                self._handshakes = Handshakes(self._loop, self.certificates, settings.login_timeout_s)
            for name, port in (*plain, *secure):
                if port >= 0:
                    await self._listen(name, port)
        except BaseException:
            await self.close()
            raise
        for name, port in self.ports.items():
            log.info("listening for %s on %s port %d", name, self._host or "all interfaces", port)

    def _factory(self, name: str) -> Callable[[], StreamChannel]:
        # The stdlib loop wants buffered reads, uvloop (no BaseEventLoop) plain ones: see tcp.py.
        buffered = isinstance(self._loop, asyncio.BaseEventLoop)
        if name in ("tcp", "tls"):
            return partial(BufferedTcpChannel if buffered else TcpChannel, self._edge, self._loop, name)
        return partial(BufferedWsChannel if buffered else WsChannel, self._edge, self._loop, name, self._settings)

    async def _listen(self, name: str, port: int) -> None:
        bound = port
        for family, address in await self._addresses():
            try:
                sock = self._bind(family, address, bound)
            except OSError as error:
                raise ConfigError(self._complaint(name, port, error)) from error
            bound = sock.getsockname()[1]
            self._servers.append(await self._serve(name, sock))
        self.ports[name] = bound

    async def _serve(self, name: str, sock: socket.socket) -> asyncio.AbstractServer | TlsServer:
        make = self._factory(name)
        if name in ("tls", "wss"):
            assert self._handshakes is not None  # start() made it, for this name
            return TlsServer(self._loop, sock, self._handshakes, make)
        return await self._loop.create_server(make, sock=sock, backlog=BACKLOG)

    async def _addresses(self) -> list[tuple[socket.AddressFamily, str]]:
        if not self._host:
            return [(socket.AF_INET6, "")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "")]
        try:
            found = await self._loop.getaddrinfo(self._host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise ConfigError(f"Cannot listen on host {self._host!r}: {error.strerror}; change edge.host.") from error
        return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))

    def _bind(self, family: socket.AddressFamily, address: str, port: int) -> socket.socket:
        both = family is socket.AF_INET6 and not address
        sock = socket.create_server((address, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
        tune(sock)
        sock.setblocking(False)
        return sock

    def _complaint(self, name: str, port: int, error: OSError) -> str:
        setting = {"tcp": "edge.port", "tls": "edge.tls_port", "ws": "edge.ws_port", "wss": "edge.wss_port"}[name]
        where = f"port {port} on {self._host or 'all interfaces'}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"Cannot listen on {where}: it is in use; stop the other program or change {setting} (0: a free one)."
            )
        if error.errno == errno.EADDRNOTAVAIL:
            return f"Cannot listen on {where}: this machine does not have that address; change edge.host."
        if error.errno == errno.EACCES:
            return f"Cannot listen on {where}: not permitted (ports below 1024 need privileges); change {setting}."
        return f"Cannot listen on {where}: {error.strerror}; change {setting} or edge.host."

    def stop_accepting(self) -> None:
        """No new connections; those that are open stay. Idempotent."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()

    async def close(self) -> None:
        """Stops accepting, ends unfinished handshakes, stops watching certificates."""
        self.stop_accepting()
        if self._handshakes is not None:
            await self._handshakes.close()
        if self.certificates is not None:
            self.certificates.close()
        await asyncio.sleep(0)  # uvloop lets go of a listening socket one step after close()

    def metrics(self) -> Iterator[Metric]:
        """Families about what ended before there was a session, and about certificates."""
        if self._handshakes is not None:
            yield self._handshakes.metric()
        if self.certificates is not None:
            yield self.certificates.metric()
