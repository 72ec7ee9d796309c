"""TLS of the admin port: a context that follows its files.

Rule: a broken new certificate never replaces a working old one; handshakes from then on have the new one, connections
that are open keep theirs.
"""

from __future__ import annotations

import asyncio
import logging
import ssl

from broker.config.settings import AdminSettings
from broker.core.certificates import first_certificate, no_password, not_after
from broker.core.errors import ConfigError
from broker.core.metrics import Metric
from broker.seams.files import read_whole
from broker.seams.watched_files import WatchedFiles

_log = logging.getLogger("stampede.admin")

LOOK_S = 10.0
"""How often the files are looked at."""


class AdminCertificate:
    """`context`: for the port. `not_after`: epoch seconds at which the certificate ends."""

    def __init__(self, settings: AdminSettings) -> None:
        """Raises ConfigError when the files do not make a working context."""
        self._cert, self._key = settings.tls_cert_file, settings.tls_key_file
        try:
            self.context = _context(self._cert, self._key)
            self._files = WatchedFiles([self._cert, self._key], self._load, self._told)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"Cannot use the TLS files of the admin port: {error}; check admin.tls_cert_file and "
                "admin.tls_key_file."
            ) from error

    def check(self) -> None:
        """Looks at the files once, and takes them if they changed and are good."""
        self._files.look()

    def close(self) -> None:
        self._files.close()

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on, until close()."""
        self._files.follow(loop, LOOK_S)

    @property
    def not_after(self) -> int:
        return self._files.value

    def metrics(self) -> list[Metric]:
        return [
            Metric(
                "stomp_admin_certificate_not_after_seconds", "gauge",
                "When the certificate of the admin port ends, in seconds since 1970.", [({}, float(self.not_after))],
            )
        ]  # fmt: skip

    def _load(self) -> int:
        """Do certificate and key fit: tried in a context of their own first, so that the one in use stays whole."""
        _context(self._cert, self._key)
        ends = not_after(first_certificate(read_whole(self._cert).decode("ascii", "replace")))
        self.context.load_cert_chain(self._cert, self._key, password=no_password)
        return ends

    def _told(self, error: OSError | ValueError | None) -> None:
        if error is not None:
            _log.error("the new TLS certificate of the admin port is not usable, the old one stays in use: %s", error)
        else:
            _log.info("TLS certificate of the admin port reloaded from %s", self._cert)


def _context(cert: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(cert, key, password=no_password)
    return context
