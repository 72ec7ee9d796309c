"""Accepted sockets that are not connections yet: a PROXY header to be read, a TLS handshake to be done.

Sockets of such ports are accepted here and handed to `loop.connect_accepted_socket` when they are ready, because the
loop's own TLS server swallows failed handshakes, and knows nothing of PROXY headers.

Rule: bounded in time and number, counted, logged; the edge never hears of what ends here. Every acceptor has places of
its own, and a newcomer gets that of the longest waiting of the address that holds the most (fair_places.py): a client
that connects and says nothing closes the port to nobody. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import NamedTuple

from broker.core.metrics import Metric
from broker.core.reasons import Reason

from .fair_places import FairPlaces, network
from .proxy import BadHeader, read_header
from .tcp import LINGER_S, StreamChannel, peer_host, peer_name
from .tls import CertificateWatcher

log = logging.getLogger("stampede.edge")

MAX_ARRIVALS = 1000
"""Under way at once on one port; then one goes for each that comes. A handshake holds about 50 KiB of OpenSSL state."""
ACCEPTS = 64
"""Sockets accepted before the loop gets on with what else there is."""
RETRY_S = 1.0
"""Rest after accept() failed for want of file descriptors or memory."""
PATIENCE_S = 60.0
"""For TLS and PROXY where the acceptor sets no limit."""


class HandshakeSteps(NamedTuple):
    """What a socket goes through before it is a connection. `certificates`: None = no TLS. `sources`: whose PROXY
    headers are believed; none: anybody's."""

    proxy: bool
    certificates: CertificateWatcher | None
    timeout_s: float
    sources: tuple[IPv4Network | IPv6Network, ...] = ()

    @property
    def last(self) -> Reason:
        """Why it fails that fails at the last of them."""
        return Reason.TLS_FAILED if self.certificates is not None else Reason.PROXY_FAILED


Waiting = FairPlaces[asyncio.Task[None]]
"""Places on one port, by address."""


class Handshakes:
    """All of an edge that are under way."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        most_of_address: int = 1 << 31,
        open_from: Callable[[str], int] = lambda ip: 0,
    ) -> None:
        """most_of_address   edge.max_connections_per_ip; `open_from`: how many connections of an address are open."""
        self._loop = loop
        self._most_of_address = most_of_address
        self._open_from = open_from
        self._under_way: set[asyncio.Task[None]] = set()
        self._from: dict[str, int] = {}
        """Under way by address, where that counts: behind a PROXY header clients have others."""
        self._evicted: set[asyncio.Task[None]] = set()
        self._fresh: set[socket.socket] = set()
        """Of tasks that have not begun: nobody else closes these."""
        self.failed = {Reason.TLS_FAILED: 0, Reason.PROXY_FAILED: 0}

    def begin(self, sock: socket.socket, channel: StreamChannel, steps: HandshakeSteps, places: Waiting) -> None:
        """Takes over an accepted socket; `channel` gets the bytes of the client once all steps are done."""
        peer = _peer(sock)
        ip = "" if steps.proxy else _ip(peer)
        if ip and self._open_from(ip) + self._from.get(ip, 0) >= self._most_of_address:
            sock.close()
            self._fail(channel.id, peer, steps.last, "max_connections_per_ip are open or in their handshake")
            return
        if steps.sources and not _within(peer_host(peer), steps.sources):
            sock.close()
            self._fail(channel.id, peer, Reason.PROXY_FAILED, "not a source whose PROXY headers count (proxy_sources)")
            return
        task = self._loop.create_task(self._arrive(sock, channel, peer, steps))
        self._under_way.add(task)
        self._fresh.add(sock)
        if ip:
            self._from[ip] = self._from.get(ip, 0) + 1
        victim = places.admit(network(peer_host(peer)), task)
        if victim is not None:
            self._evicted.add(victim)
            victim.cancel()
        task.add_done_callback(partial(self._ended, sock, channel, peer, ip, steps, places))

    def _ended(
        self,
        sock: socket.socket,
        channel: StreamChannel,
        peer: str,
        ip: str,
        steps: HandshakeSteps,
        places: Waiting,
        task: asyncio.Task[None],
    ) -> None:
        self._under_way.discard(task)
        places.leave(task)
        if ip:
            self._from[ip] -= 1
            if not self._from[ip]:
                del self._from[ip]
        if sock in self._fresh:
            self._fresh.discard(sock)
            sock.close()
        if task in self._evicted:
            self._evicted.discard(task)
            if task.cancelled():
                self._fail(channel.id, peer, steps.last, "gave way to a newer connection: it was silent for longest")

    async def _arrive(self, sock: socket.socket, channel: StreamChannel, peer: str, steps: HandshakeSteps) -> None:
        self._fresh.discard(sock)
        if steps.proxy:
            try:
                async with asyncio.timeout(steps.timeout_s or PATIENCE_S):
                    client = await read_header(self._loop, sock)
            except (BadHeader, OSError) as error:  # reset and timeout are OSErrors
                sock.close()
                self._fail(channel.id, peer, Reason.PROXY_FAILED, str(error) or "no PROXY header in time")
                return
            except BaseException:
                sock.close()
                raise
            if client is None:
                sock.close()
                log.debug("%s #%d closed before its PROXY header: a health check", peer, channel.id)
                return
            channel.comes_from(client)
        await self._connect(sock, channel, channel.peer or peer, steps)

    async def _connect(self, sock: socket.socket, channel: StreamChannel, peer: str, steps: HandshakeSteps) -> None:
        try:
            if steps.certificates is None:
                await self._loop.connect_accepted_socket(lambda: channel, sock)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: channel, sock, ssl=steps.certificates.context,
                    ssl_handshake_timeout=steps.timeout_s or PATIENCE_S, ssl_shutdown_timeout=LINGER_S,
                )  # fmt: skip
        except OSError as error:  # SSLError, reset, timeout
            self._fail(channel.id, peer, steps.last, _explain(error))

    def _fail(self, connection: int, peer: str, reason: Reason, why: str) -> None:
        self.failed[reason] += 1
        log.info("%s #%d closed: %s (%s)", peer, connection, reason.value, why)

    def metrics(self, tls: bool, proxy: bool) -> Iterator[Metric]:
        """Of the kinds of ports there are."""
        if tls:
            yield Metric(
                "stomp_tls_handshakes_failed_total", "counter", "Connections that ended before TLS was up.",
                [({"reason": Reason.TLS_FAILED.value}, float(self.failed[Reason.TLS_FAILED]))],
            )  # fmt: skip
        if proxy:
            yield Metric(
                "stomp_proxy_headers_failed_total", "counter", "Connections that ended without a good PROXY header.",
                [({"reason": Reason.PROXY_FAILED.value}, float(self.failed[Reason.PROXY_FAILED]))],
            )  # fmt: skip

    async def close(self) -> None:
        """Cancels what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


class AcceptLoop:
    """Accepts on one listening socket until close()."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        handshakes: Handshakes,
        steps: HandshakeSteps,
        make: Callable[[], StreamChannel],
    ) -> None:
        """`make` builds the channel of each connection."""
        self._places: Waiting = FairPlaces(MAX_ARRIVALS)
        self._loop = loop
        self._sock = sock
        self._handshakes = handshakes
        self._steps = steps
        self._make = make
        self._retry: asyncio.TimerHandle | None = None
        loop.add_reader(sock, self._accept)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot accept connections (%s); trying again in %g s", error.strerror, RETRY_S)
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(RETRY_S, self._loop.add_reader, self._sock, self._accept)
                return
            sock.setblocking(False)
            self._handshakes.begin(sock, self._make(), self._steps, self._places)


def _ip(peer: str) -> str:
    """As the edge counts by (Edge.open_from)."""
    return peer.rpartition(":")[0]


def _peer(sock: socket.socket) -> str:
    try:
        return peer_name(sock.getpeername())
    except OSError:  # it has gone already
        return "unknown"


def _within(host: str, sources: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return any(address in network for network in sources)


def _explain(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL"):
        return f"the client does not speak TLS ({reason}): plain STOMP and ws:// belong to a port without TLS"
    return str(reason or error or type(error).__name__)
