"""Mutual TLS between components: gRPC credentials that follow their files.

Rule: a broken new certificate never replaces a working old one, and a component port without TLS stays on loopback.
Knows no stream.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

import grpc

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.seams.files import fingerprint, read_whole

log = logging.getLogger("stampede.rpc")

FILES = ("cluster.ca_file", "cluster.cert_file", "cluster.key_file")
LOOPBACK = ("localhost", "::1", "[::1]")


def is_loopback(host: str) -> bool:
    """Whether a listening port on `host` can be reached from this machine only."""
    return host in LOOPBACK or host.startswith("127.")


class Credentials:
    """The newest good content of the three files. Falsy when none is set: plain text."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Raises ConfigError when only some files are named, or they do not fit together."""
        self._paths = (settings.ca_file, settings.cert_file, settings.key_file)
        if any(self._paths) and not all(self._paths):
            missing = ", ".join(name for name, path in zip(FILES, self._paths, strict=True) if not path)
            raise ConfigError(f"Mutual TLS between components needs all of {', '.join(FILES)}; set {missing} too.")
        self._seen: list[Any] = []
        self._ca = self._cert = self._key = b""
        if self:
            try:
                self._load()
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"Cannot use the TLS files of components: {error}; check {', '.join(FILES)}."
                ) from error

    def __bool__(self) -> bool:
        return bool(self._paths[0])

    def channel(self) -> grpc.ChannelCredentials:
        """For one dial."""
        self._refresh()
        return grpc.ssl_channel_credentials(self._ca, self._key, self._cert)

    def server(self) -> grpc.ServerCredentials:
        """For a listening port; every handshake looks for newer files. Clients must show a certificate."""
        return grpc.dynamic_ssl_server_credentials(self._configuration(), self._renewed, True)

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(self._key, self._cert)], self._ca)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC in a thread of its own, once per handshake; None: nothing new."""
        before = self._ca, self._cert, self._key
        self._refresh()
        return None if before == (self._ca, self._cert, self._key) else self._configuration()

    def _refresh(self) -> None:
        if [fingerprint(path) for path in self._paths] == self._seen:
            return
        try:
            self._load()
        except (OSError, ValueError) as error:
            log.error("the new TLS files of components are not usable, the old ones stay in use: %s", error)
        else:
            log.info("TLS files of components reloaded")

    def _load(self) -> None:
        """Raises OSError (ssl.SSLError is one) or ValueError, and then keeps what it had."""
        # Remembered before reading: should the files change meanwhile, the next look sees it.
        self._seen = [fingerprint(path) for path in self._paths]
        ca, cert, key = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # gRPC finds a bad pair only at the first handshake, and says so nowhere.
        context.load_cert_chain(cert, key, password=_no_password)
        context.load_verify_locations(ca)
        self._ca, self._cert, self._key = read_whole(ca), read_whole(cert), read_whole(key)


def _no_password() -> str:
    raise ssl.SSLError("the private key is encrypted; store it without a password")
