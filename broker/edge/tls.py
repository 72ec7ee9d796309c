"""TLS: server contexts that follow their files, and handshakes that are bounded and counted.

Sockets are accepted here and handed to `loop.connect_accepted_socket`, because the loop's own TLS server swallows
failed handshakes. Each handshake takes the newest context, so that a rotated certificate needs no restart;
connections that are open keep the one they began with.

Rule: a broken new certificate never replaces a working old one. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from broker.config.settings import EdgeSettings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric
from broker.core.reasons import Reason
from broker.seams.files import fingerprint, read_whole

from .certificates import first_certificate, not_after
from .tcp import LINGER_S, StreamChannel, peer_name

log = logging.getLogger("stampede.edge")

MAX_HANDSHAKES = 1000
"""Handshakes under way; more are refused at once. Each holds about 50 KiB of OpenSSL state."""
ACCEPTS = 64
"""Sockets accepted before the loop gets on with what else there is."""
RETRY_S = 1.0
"""Rest after accept() failed for want of file descriptors or memory."""


def server_context(settings: EdgeSettings) -> ssl.SSLContext:
    """A context from the certificate files. Raises OSError or ssl.SSLError (an OSError too)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    # A password callback that fails: OpenSSL would ask on the terminal else.
    context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file, password=_no_password)
    if settings.tls_client_ca_file:
        context.load_verify_locations(settings.tls_client_ca_file)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_password() -> str:
    raise ssl.SSLError("the private key is encrypted; store it without a password")


class CertificateWatcher:
    """The current context. `not_after`: epoch seconds at which its certificate ends."""

    def __init__(self, settings: EdgeSettings, loop: asyncio.AbstractEventLoop) -> None:
        """Raises ConfigError when the files do not make a working context."""
        self._settings = settings
        self._loop = loop
        self._seen = self._look()
        try:
            self.context, self.not_after = self._load()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"Cannot use the TLS files: {error}; check edge.tls_cert_file, edge.tls_key_file and "
                "edge.tls_client_ca_file."
            ) from error
        self._timer = loop.call_later(settings.tls_reload_s, self._again)

    def days_left(self, wall_ms: int) -> float:
        """Days until the certificate ends; negative once it has."""
        return (self.not_after - wall_ms / 1000) / 86_400

    def check(self) -> None:
        """Looks at the files once, and takes them if they changed and are good."""
        now = self._look()
        if now == self._seen:
            return
        # Remembered before loading: should the files change meanwhile, the next look sees it.
        self._seen = now
        try:
            self.context, self.not_after = self._load()
        except (OSError, ValueError) as error:
            log.error("the new TLS certificate is not usable, the old one stays in use: %s", error)
        else:
            log.info("TLS certificate reloaded from %s", self._settings.tls_cert_file)

    def close(self) -> None:
        self._timer.cancel()

    def metric(self) -> Metric:
        return Metric(
            "stomp_tls_certificate_expiry_seconds", "gauge", "When the TLS certificate in use ends, epoch seconds.",
            [({}, float(self.not_after))],
        )  # fmt: skip

    def _again(self) -> None:
        self.check()
        self._timer = self._loop.call_later(self._settings.tls_reload_s, self._again)

    def _look(self) -> list[tuple[int, int, int] | None]:
        settings = self._settings
        return [
            fingerprint(p) for p in (settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file) if p
        ]

    def _load(self) -> tuple[ssl.SSLContext, int]:
        pem = read_whole(self._settings.tls_cert_file).decode("ascii", "replace")
        return server_context(self._settings), not_after(first_certificate(pem))


class Handshakes:
    """TLS handshakes under way. Failures are counted and logged; the edge never hears of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, certificates: CertificateWatcher, timeout_s: float) -> None:
        self._loop = loop
        self._certificates = certificates
        self._timeout_s = timeout_s
        self._under_way: set[asyncio.Task[None]] = set()
        self.failed = 0

    def begin(self, sock: socket.socket, channel: StreamChannel) -> None:
        """Takes over an accepted socket; `channel` gets the decrypted bytes."""
        peer = _peer(sock)
        if len(self._under_way) >= MAX_HANDSHAKES:
            sock.close()
            self._fail(channel.id, peer, "too many handshakes are under way")
            return
        task = self._loop.create_task(self._shake(sock, channel, peer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _shake(self, sock: socket.socket, channel: StreamChannel, peer: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: channel, sock, ssl=self._certificates.context, ssl_handshake_timeout=self._timeout_s,
                ssl_shutdown_timeout=LINGER_S,
            )  # fmt: skip
        except OSError as error:  # SSLError, reset, timeout
            self._fail(channel.id, peer, _explain(error))

    def _fail(self, connection: int, peer: str, why: str) -> None:
        self.failed += 1
        log.info("%s #%d closed: %s (%s)", peer, connection, Reason.TLS_FAILED.value, why)

    def metric(self) -> Metric:
        return Metric(
            "stomp_tls_handshakes_failed_total", "counter", "Connections that ended before TLS was up.",
            [({"reason": Reason.TLS_FAILED.value}, float(self.failed))],
        )  # fmt: skip

    async def close(self) -> None:
        """Cancels what is under way."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


class TlsServer:
    """Accepts on one listening socket until close()."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        handshakes: Handshakes,
        make: Callable[[], StreamChannel],
    ) -> None:
        """`make` builds the channel of each connection."""
        self._loop = loop
        self._sock = sock
        self._handshakes = handshakes
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
                log.error("cannot accept TLS connections (%s); trying again in %g s", error.strerror, RETRY_S)
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(RETRY_S, self._loop.add_reader, self._sock, self._accept)
                return
            sock.setblocking(False)
            self._handshakes.begin(sock, self._make())


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
