"""Listening sockets: one for each acceptor, the ports of [edge] among them.

Rule: binds, accepts and hands over; every connection is a Channel of the edge from then on. A port that cannot
be had is a ConfigError that names the setting to change. Acceptors are read at start only. Knows no sessions.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from broker.config.acceptor import AcceptorSettings
from broker.config.ports import OF_EDGE, all_acceptors, is_edge, named, networks
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric

from ..transport.channel import EdgeLike
from ..transport.handshakes import AcceptLoop, Handshakes, HandshakeSteps
from ..transport.sniff import BufferedEitherChannel, EitherChannel
from ..transport.tcp import BufferedTcpChannel, StreamChannel, TcpChannel, tune
from ..transport.tls import CertificateWatcher
from ..transport.websockets.websocket import BufferedWsChannel, WsChannel
from .auth import is_loopback

log = logging.getLogger("stampede.edge")

LABELS = {
    "tcp": "STOMP",
    "tls": "STOMP over TLS",
    "ws": "STOMP over WebSocket",
    "wss": "STOMP over WSS",
}
"""The ports of [edge] for people."""


def listen_host(settings: EdgeSettings, has_users: bool) -> str:
    """Where to listen: as set; else this machine only while there are no users, and everywhere ("") with users."""
    return settings.host or ("" if has_users else "127.0.0.1")


class Listeners:
    """All listening sockets of an edge. `ports` holds the real ports by acceptor once started."""

    def __init__(
        self,
        edge: EdgeLike,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        host: str,
        users: bool = False,
        given: Mapping[str, Sequence[socket.socket]] | None = None,
    ) -> None:
        """`host`: see listen_host(), of acceptors that name none; "" is every interface, IPv4 and IPv6.
        `users`: clients have passcodes. `given`: sockets that another process has bound for this one (reserve())."""
        self._users = users
        self._edge = edge
        self._settings = settings
        self._acceptors = {name: at for name, at in all_acceptors(settings).items() if at.port >= 0}
        self._loop = loop
        self._host = host
        self._given = given
        self._servers: list[asyncio.AbstractServer | AcceptLoop] = []
        self._sockets: list[socket.socket] = []
        """Bound, but not served yet."""
        self._handshakes = Handshakes(loop, settings.edge.max_connections_per_ip, edge.open_from)
        self.certificates: dict[str, CertificateWatcher] = {}
        """By acceptor, or "[edge]" for the ports of [edge]."""
        self.ports: dict[str, int] = {}

    async def start(self) -> None:
        """Binds everything that is turned on, or nothing. Raises ConfigError."""
        if self._given is None:
            self._note_urls()
        try:
            self._watch_all()
            bound = [(name, sock) for name in self._acceptors for sock in await self._bound(name)]
            if self._given is None:
                self._in_clear_text()
            # All of them at once: who can connect to one port can connect to all.
            for name, sock in bound:
                self._listen(name, sock)
            for name, sock in bound:
                self._servers.append(await self._serve(name, self._acceptors[name], sock))
                self._sockets.remove(sock)
        except BaseException:
            await self.close()
            raise
        if self._given is None:
            self._told()

    async def reserve(self, processes: int) -> list[dict[str, list[socket.socket]]]:
        """Binds everything that is turned on, once for each of so many processes, and serves none of it: by acceptor.
        The kernel shares connections out among those that listen; they stay ours, so that what comes while a process
        is started anew waits for it. Raises ConfigError."""
        self._note_urls()
        try:
            self._watch_all()
            for name in self._acceptors:
                for sock in await self._bound(name):
                    sock.close()  # nobody else has the port: sockets that share one would not notice
                self._sockets.clear()
            shared = [
                {name: await self._bound(name, self.ports[name]) for name in self._acceptors} for _ in range(processes)
            ]
            self._in_clear_text()
        except BaseException:
            await self.close()
            raise
        self._told()
        return shared

    def _note_urls(self) -> None:
        for name, table in self._settings.acceptors.items():
            for note in named(name, table).notes:
                log.warning("acceptors.%s.url: %s", name, note)

    def _watch_all(self) -> None:
        for name, acceptor in self._acceptors.items():
            if acceptor.tls and self._owner(name) not in self.certificates:
                self._watch(self._owner(name), acceptor)

    def _told(self) -> None:
        for name, port in self.ports.items():
            log.info("listening for %s on %s port %d", self._label(name), self._place(name), port)
        self._warn_of_proxies()

    def _in_clear_text(self) -> None:
        """Passcodes go over these ports, and others than this machine reach them. Raises ConfigError where they must
        not (edge.clear_text)."""
        bare = [name for name, at in self._acceptors.items() if not at.tls and self._far(at)]
        if not bare or not self._users:
            return
        text = (
            "passcodes and messages travel in clear text on "
            + ", ".join(f"{self._label(name)} ({self._place(name)} port {self.ports[name]})" for name in bare)
            + ": give clients a port with TLS and turn these off ("
            + ", ".join(f"{self._setting(name, 'port')} = -1" for name in bare)
            + "), or listen on this machine only ("
            + ", ".join(dict.fromkeys(f"{self._setting(name, 'host')} = 127.0.0.1" for name in bare))
            + ")"
        )
        if self._settings.edge.clear_text == "refuse":
            raise ConfigError(f"edge.clear_text is refuse, and {text}.")
        log.warning("%s", text)

    def _far(self, acceptor: AcceptorSettings) -> bool:
        """Do other machines reach it."""
        return not is_loopback(acceptor.host or self._host)

    def _warn_of_proxies(self) -> None:
        """Who reaches such a port says which address it comes from: for limits, penalties and the log."""
        for name, acceptor in self._acceptors.items():
            if acceptor.proxy_protocol and not acceptor.proxy_sources and self._far(acceptor):
                log.warning(
                    "%s believes PROXY headers of whoever connects: name your balancers in acceptors.%s.proxy_sources",
                    self._label(name), name,
                )  # fmt: skip

    def _watch(self, owner: str, acceptor: AcceptorSettings) -> None:
        where = "edge" if owner == "[edge]" else f"acceptors.{owner}"
        reload_s = self._settings.edge.tls_reload_s
        here = frozenset(name for name, at in self._acceptors.items() if at.tls and self._owner(name) == owner)
        self.certificates[owner] = CertificateWatcher(
            acceptor, self._loop, reload_s, where, lambda revoked: self._edge.revoked_at(here, revoked)
        )

    def _factory(self, name: str, acceptor: AcceptorSettings) -> Callable[[], StreamChannel]:
        # The stdlib loop wants buffered reads, uvloop (no BaseEventLoop) plain ones: see tcp.py.
        buffered = isinstance(self._loop, asyncio.BaseEventLoop)
        common = (self._edge, self._loop, name, acceptor)
        if acceptor.transport == "stomp":
            return partial(BufferedTcpChannel if buffered else TcpChannel, *common)
        if acceptor.transport == "websocket":
            return partial(BufferedWsChannel if buffered else WsChannel, *common, self._settings.edge)
        return partial(BufferedEitherChannel if buffered else EitherChannel, *common, self._settings.edge)

    async def _bound(self, name: str, shared: int = 0) -> list[socket.socket]:
        """Sockets with the acceptor's addresses that do not listen yet. shared: at this port, beside others of ours."""
        acceptor = self._acceptors[name]
        if self._given is not None:
            given = list(self._given[name])
            self._sockets += given
            self.ports[name] = given[0].getsockname()[1]
            return given
        found: list[socket.socket] = []
        port = shared or acceptor.port
        for family, address in await self._addresses(name, acceptor):
            sock = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(sock)
            found.append(sock)
            try:
                if shared:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                self._bind(sock, address, port, acceptor)
            except OSError as error:
                raise ConfigError(self._complaint(name, acceptor.port, error)) from error
            port = sock.getsockname()[1]
        self.ports[name] = port
        return found

    def _listen(self, name: str, sock: socket.socket) -> None:
        acceptor = self._acceptors[name]
        try:
            sock.listen(acceptor.backlog)
        except OSError as error:
            raise ConfigError(self._complaint(name, acceptor.port, error)) from error

    async def _serve(
        self, name: str, acceptor: AcceptorSettings, sock: socket.socket
    ) -> asyncio.AbstractServer | AcceptLoop:
        make = self._factory(name, acceptor)
        if acceptor.tls or acceptor.proxy_protocol:
            certificates = self.certificates[self._owner(name)] if acceptor.tls else None
            sources = networks(acceptor.proxy_sources)
            steps = HandshakeSteps(acceptor.proxy_protocol, certificates, acceptor.handshake_timeout_s, sources)
            return AcceptLoop(self._loop, sock, self._handshakes, steps, make)
        return await self._loop.create_server(make, sock=sock, backlog=acceptor.backlog)

    async def _addresses(self, name: str, acceptor: AcceptorSettings) -> list[tuple[socket.AddressFamily, str]]:
        host = acceptor.host or self._host
        if not host:
            return [(socket.AF_INET6, "")] if socket.has_dualstack_ipv6() else [(socket.AF_INET, "")]
        try:
            found = await self._loop.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except OSError as error:
            raise ConfigError(
                f"Cannot listen on host {host!r}: {error.strerror}; change {self._setting(name, 'host')}."
            ) from error
        return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))

    def _bind(self, sock: socket.socket, address: str, port: int, acceptor: AcceptorSettings) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, bool(address))
        sock.bind((address, port))
        tune(sock, acceptor)
        sock.setblocking(False)

    def _is_edge(self, name: str) -> bool:
        return is_edge(name, self._settings)

    def _label(self, name: str) -> str:
        return LABELS[name] if self._is_edge(name) else f"acceptor {name}"

    def _owner(self, name: str) -> str:
        """Whose certificate an acceptor uses: its own, or that of [edge]."""
        return "[edge]" if self._is_edge(name) else name

    def _setting(self, name: str, what: str) -> str:
        """`port` or `host` of an acceptor, as the settings call it."""
        if not self._is_edge(name):
            return f"acceptors.{name}.{what}"
        return f"edge.{OF_EDGE[name] if what == 'port' else what}"

    def _place(self, name: str) -> str:
        return self._acceptors[name].host or self._host or "all interfaces"

    def _complaint(self, name: str, port: int, error: OSError) -> str:
        setting, host = self._setting(name, "port"), self._setting(name, "host")
        where = f"port {port} on {self._place(name)}"
        if error.errno == errno.EADDRINUSE:
            return (
                f"Cannot listen on {where}: it is in use; stop the other program or change {setting} (0: a free one)."
            )
        if error.errno == errno.EADDRNOTAVAIL:
            return f"Cannot listen on {where}: this machine does not have that address; change {host}."
        if error.errno == errno.EACCES:
            return f"Cannot listen on {where}: not permitted (ports below 1024 need privileges); change {setting}."
        return f"Cannot listen on {where}: {error.strerror}; change {setting} or {host}."

    def rows(self) -> list[dict[str, Any]]:
        """As operators see them. `host`: "" is every interface.    `path`: of WebSocket; "" is any."""
        return [
            {
                "name": name, "label": self._label(name), "transport": at.transport, "host": at.host or self._host,
                "port": self.ports[name], "tls": at.tls,
                "path": self._settings.edge.ws_path if at.transport != "stomp" else "",
                "dialect": at.dialect, "virtual_host": at.virtual_host,
            }
            for name, at in self._acceptors.items()
            if name in self.ports
        ]  # fmt: skip

    def banner(self) -> list[str]:
        """Where it listens, for people."""
        return [f"  {self._label(name):<22} {self._place(name)} port {port}" for name, port in self.ports.items()]

    def stop_accepting(self) -> None:
        """No new connections; those that are open stay. Idempotent."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            sock.close()

    async def close(self) -> None:
        """Stops accepting, ends unfinished handshakes, stops watching certificates."""
        self.stop_accepting()
        await self._handshakes.close()
        for watcher in self.certificates.values():
            watcher.close()
        await asyncio.sleep(0)  # uvloop lets go of a listening socket one step after close()

    def metrics(self) -> Iterator[Metric]:
        """Families about what ended before there was a session, and about certificates."""
        proxy = any(acceptor.proxy_protocol for acceptor in self._acceptors.values())
        yield from self._handshakes.metrics(bool(self.certificates), proxy)
        if self.certificates:
            yield Metric(
                "stomp_tls_certificate_expiry_seconds", "gauge", "When the TLS certificate in use ends, epoch seconds.",
                [({"acceptor": name}, float(watcher.not_after)) for name, watcher in self.certificates.items()],
            )  # fmt: skip
