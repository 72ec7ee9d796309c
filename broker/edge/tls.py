"""TLS: server contexts that follow their files, and handshakes that are bounded and counted.

A listener accepts plain sockets; the handshake is done here with `loop.start_tls`, because the loop's own TLS
server swallows failed handshakes. Each handshake takes the newest context, so that a rotated certificate needs
no restart; connections that are open keep the one they began with.

Rule: a broken new certificate never replaces a working old one. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, cast

from broker.config.settings import EdgeSettings
from broker.core.errors import ConfigError
from broker.core.metrics import Metric
from broker.core.reasons import Reason
from broker.seams.files import fingerprint, read_whole

from .tcp import LINGER_S, StreamChannel, peer_name

log = logging.getLogger(__name__)

MAX_HANDSHAKES = 1000
"""Handshakes under way; more are refused at once. Each holds about 50 KiB of OpenSSL state."""


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

    def factory(self, make: Callable[[], StreamChannel]) -> Callable[[], asyncio.Protocol]:
        """What a listener calls per accepted socket; `make` builds the channel that gets the decrypted bytes."""
        return lambda: _Accepted(self, make)

    def begin(self, transport: asyncio.Transport, channel: StreamChannel) -> None:
        if len(self._under_way) >= MAX_HANDSHAKES:
            self._fail(transport, channel, "too many handshakes are under way")
            return
        task = self._loop.create_task(self._shake(transport, channel))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _shake(self, transport: asyncio.Transport, channel: StreamChannel) -> None:
        try:
            secure = await self._loop.start_tls(
                transport, cast("asyncio.Protocol", channel), self._certificates.context, server_side=True,
                ssl_handshake_timeout=self._timeout_s, ssl_shutdown_timeout=LINGER_S,
            )  # fmt: skip
        except OSError as error:  # SSLError, reset, timeout
            self._fail(transport, channel, _explain(error))
            return
        if secure is None or channel.closing:
            self._fail(transport, channel, "the client went at once")
            return
        channel.tls_subject = subject(secure.get_extra_info("peercert"))
        channel.connection_made(secure)

    def _fail(self, transport: asyncio.Transport, channel: StreamChannel, why: str) -> None:
        self.failed += 1
        log.info("connection %d from %s: %s: %s", channel.id, peer_name(transport), Reason.TLS_FAILED.value, why)
        transport.abort()

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


class _Accepted(asyncio.Protocol):
    """A plain socket for the blink before start_tls takes it over. start_tls runs in the loop's next step, before
    any read, so data here would mean that the loop changed: fail closed."""

    __slots__ = ("_handshakes", "_make", "_transport")

    def __init__(self, handshakes: Handshakes, make: Callable[[], StreamChannel]) -> None:
        self._handshakes = handshakes
        self._make = make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._handshakes.begin(self._transport, self._make())

    def data_received(self, data: bytes) -> None:
        self._transport.abort()


def _explain(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return f"the client does not speak TLS ({reason})"
    return str(reason or error or type(error).__name__)


def subject(certificate: dict[str, Any] | None) -> str | None:
    """The subject of a verified certificate as RFC 4514 writes it, most specific part first; None without one.

    Escaped, so that nobody can smuggle a second CN into one value."""
    if not certificate or not certificate.get("subject"):
        return None
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escape(value)}" for name, value in rdn)
        for rdn in reversed(certificate["subject"])
    )


_SHORT = {
    "commonName": "CN", "organizationName": "O", "organizationalUnitName": "OU", "countryName": "C",
    "stateOrProvinceName": "ST", "localityName": "L", "domainComponent": "DC", "userId": "UID",
}  # fmt: skip


def _escape(value: str) -> str:
    text = "".join("\\" + c if c in ',+"\\<>;=' else c for c in value)
    if text[:1] in (" ", "#"):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text


def first_certificate(pem: str) -> bytes:
    """DER of the first certificate of a PEM file (the server's own). Raises ValueError."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    if start < 0 or stop < 0:
        raise ValueError("the certificate file holds no PEM certificate")
    return ssl.PEM_cert_to_DER_cert(pem[start : stop + len(end)])


def not_after(der: bytes) -> int:
    """Epoch seconds of the end of validity (RFC 5280 §4.1: Certificate → tbsCertificate → validity → notAfter).

    The ssl module tells it only of a peer's certificate. Raises ValueError."""
    try:
        at, _ = _element(der, 0)  # Certificate
        at, _ = _element(der, at)  # tbsCertificate
        if der[at] == 0xA0:  # [0] version
            at = sum(_element(der, at))
        for _skipped in ("serialNumber", "signature", "issuer"):
            at = sum(_element(der, at))
        at, _ = _element(der, at)  # validity
        at = sum(_element(der, at))  # notBefore
        body, length = _element(der, at)
        text = der[body : body + length].decode("ascii")
        if der[at] == 0x17:  # UTCTime: two digits of the year, 50 … 49 is 1950 … 2049
            text = ("19" if text[:2] >= "50" else "20") + text
        parts = (
            f"{_MONTHS[int(text[4:6]) - 1]} {int(text[6:8]):2d} {text[8:10]}:{text[10:12]}:{text[12:14]} {text[:4]} GMT"
        )
        return ssl.cert_time_to_seconds(parts)
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("the certificate cannot be read") from error


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _element(der: bytes, at: int) -> tuple[int, int]:
    """(start of the contents, their length) of the DER element at `at`."""
    length = der[at + 1]
    if length < 0x80:
        return at + 2, length
    count = length & 0x7F
    return at + 2 + count, int.from_bytes(der[at + 2 : at + 2 + count], "big")
