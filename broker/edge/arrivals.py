"""Accepted sockets that are not connections yet: a PROXY header to be read, a TLS handshake to be done.

Sockets of such ports are accepted here and handed to `loop.connect_accepted_socket` when they are ready, because the
loop's own TLS server swallows failed handshakes, and knows nothing of PROXY headers.

Rule: bounded in time and number, counted, logged; the edge never hears of what ends here. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.core.metrics import Metric
from broker.core.reasons import Reason

from .proxy import BadHeader, read_header
from .tcp import LINGER_S, StreamChannel, peer_name
from .tls import CertificateWatcher

log = logging.getLogger("stampede.edge")

MAX_ARRIVALS = 1000
"""Under way at once; more are refused. A handshake holds about 50 KiB of OpenSSL state."""
ACCEPTS = 64
"""Sockets accepted before the loop gets on with what else there is."""
RETRY_S = 1.0
"""Rest after accept() failed for want of file descriptors or memory."""
PATIENCE_S = 60.0
"""For TLS and PROXY where the acceptor sets no limit."""


class Steps(NamedTuple):
    """What a socket goes through before it is a connection. `certificates`: None = no TLS."""

    proxy: bool
    certificates: CertificateWatcher | None
    timeout_s: float

    @property
    def last(self) -> Reason:
        """Why it fails that fails at the last of them."""
        return Reason.TLS_FAILED if self.certificates is not None else Reason.PROXY_FAILED


class Arrivals:
    """All of an edge that are under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._under_way: set[asyncio.Task[None]] = set()
        self.failed = {Reason.TLS_FAILED: 0, Reason.PROXY_FAILED: 0}

    def begin(self, sock: socket.socket, channel: StreamChannel, steps: Steps) -> None:
        """Takes over an accepted socket; `channel` gets the bytes of the client once all steps are done."""
        peer = _peer(sock)
        if len(self._under_way) >= MAX_ARRIVALS:
            sock.close()
            self._fail(channel.id, peer, steps.last, "too many handshakes are under way")
            return
        task = self._loop.create_task(self._arrive(sock, channel, peer, steps))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _arrive(self, sock: socket.socket, channel: StreamChannel, peer: str, steps: Steps) -> None:
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
            channel.peer = client
        await self._connect(sock, channel, channel.peer or peer, steps)

    async def _connect(self, sock: socket.socket, channel: StreamChannel, peer: str, steps: Steps) -> None:
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
        arrivals: Arrivals,
        steps: Steps,
        make: Callable[[], StreamChannel],
    ) -> None:
        """`make` builds the channel of each connection."""
        self._loop = loop
        self._sock = sock
        self._arrivals = arrivals
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
            self._arrivals.begin(sock, self._make(), self._steps)


def _peer(sock: socket.socket) -> str:
    try:
        return peer_name(sock.getpeername())
    except OSError:  # it has gone already
        return "unknown"


def _explain(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL"):
        return f"the client does not speak TLS ({reason})"
    return str(reason or error or type(error).__name__)
