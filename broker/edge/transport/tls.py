"""TLS: server contexts that follow their files.

Each handshake (handshakes.py) takes the newest context, so that a rotated certificate needs no restart; connections
that are open keep the one they began with.

Rule: a broken new certificate never replaces a working old one. Knows no STOMP and no sockets.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from asyncio import Task
from collections.abc import Callable

from broker.config.acceptor import AcceptorSettings
from broker.core.certificates import Issued, first_certificate, no_password, not_after
from broker.core.errors import ConfigError
from broker.seams.files import read_whole
from broker.seams.revocations import revoked
from broker.seams.watched_files import WatchedFiles

log = logging.getLogger("stampede.edge")

FILES = ("tls_cert_file", "tls_key_file", "tls_client_ca_file", "tls_crl_file")
"""Settings that name a file."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_AUTH = {"none": ssl.CERT_NONE, "want": ssl.CERT_OPTIONAL, "need": ssl.CERT_REQUIRED}


def server_context(acceptor: AcceptorSettings) -> ssl.SSLContext:
    """A context from the certificate files. Raises OSError or ssl.SSLError (an OSError too)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[acceptor.tls_min_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if acceptor.tls_ciphers:
        context.set_ciphers(acceptor.tls_ciphers.replace(",", ":"))
    context.load_cert_chain(acceptor.tls_cert_file, acceptor.tls_key_file, password=no_password)
    if acceptor.tls_client_ca_file:
        context.load_verify_locations(acceptor.tls_client_ca_file)
        # A CA alone means that certificates are needed.
        context.verify_mode = _AUTH["need" if acceptor.tls_client_auth == "none" else acceptor.tls_client_auth]
    if acceptor.tls_crl_file:
        context.load_verify_locations(acceptor.tls_crl_file)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.sslobject_class = NamedConnection
    context.sni_callback = _only(acceptor.tls_sni_host.lower())
    return context


class NamedConnection(ssl.SSLObject):
    """One that knows for which host its client has asked."""

    asked = ""

    def asks(self, name: str) -> None:
        """Its client wants this host."""
        self.asked = name


def asked_host(connection: object) -> str:
    """For which host the client of a connection has asked in its handshake; empty: for none."""
    return connection.asked if isinstance(connection, NamedConnection) else ""


def _only(wanted: str) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], int | None]:
    """Lets in clients that ask for this host; `*.x.org`: for any host of x.org, one word in front of it; empty: for
    any host."""

    def callback(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> int | None:
        asked = (name or "").lower()
        if isinstance(connection, NamedConnection):
            connection.asks(asked)
        if not wanted or asked == wanted or (wanted.startswith("*.") and asked.partition(".")[2] == wanted[2:]):
            return None
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    return callback


class CertificateWatcher:
    """The current context of an acceptor. `not_after`: epoch seconds at which its certificate ends."""

    def __init__(
        self, acceptor: AcceptorSettings, loop: asyncio.AbstractEventLoop, reload_s: float, where: str,
        taken_back: Callable[[frozenset[Issued]], None] = lambda revoked: None,
    ) -> None:  # fmt: skip
        """`where`: the table its settings stand in, for errors. taken_back: there may be other revoked certificates.
        Raises ConfigError when the files do not make a working context."""
        self._acceptor = acceptor
        self._loop = loop
        self._taken_back = taken_back
        self._reading: Task[None] | None = None
        self._where = where
        paths = [path for name in FILES if (path := getattr(acceptor, name))]
        try:
            self._files = WatchedFiles(paths, self._load, self._told)
        except (OSError, ValueError) as error:
            about = "CIPHER" in str(error).upper()
            names = [f"{where}.{name}" for name in (("tls_ciphers",) if about else FILES) if getattr(acceptor, name)]
            raise ConfigError(f"Cannot use the TLS files: {error}; check {', '.join(names)}.") from error
        self._files.follow(loop, reload_s)

    def check(self) -> None:
        """Looks at the files once, and takes them if they changed and are good."""
        self._files.look()

    def close(self) -> None:
        self._files.close()
        if self._reading is not None:
            self._reading.cancel()

    @property
    def context(self) -> ssl.SSLContext:
        return self._files.value[0]

    @property
    def not_after(self) -> int:
        return self._files.value[1]

    def _told(self, error: OSError | ValueError | None) -> None:
        if error is not None:
            log.error("the new TLS certificate of %s is not usable, the old one stays in use: %s", self._where, error)
        else:
            log.info("TLS certificate reloaded from %s", self._acceptor.tls_cert_file)
            if self._acceptor.tls_crl_file:
                self._reading = self._loop.create_task(self._read())

    async def _read(self) -> None:
        """Who is on the list of revoked certificates now, in a thread: it may be long."""
        try:
            found = await asyncio.to_thread(revoked, self._acceptor.tls_crl_file)
        except ImportError:
            log.warning(
                "%s.tls_crl_file has changed; connections that are open stay, as it cannot be read for them: "
                "pip install 'stampede-broker[identity]'", self._where,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            log.error("%s.tls_crl_file: %s; connections that are open stay", self._where, error)
        else:
            self._taken_back(found)

    def _load(self) -> tuple[ssl.SSLContext, int]:
        pem = read_whole(self._acceptor.tls_cert_file).decode("ascii", "replace")
        return server_context(self._acceptor), not_after(first_certificate(pem))
