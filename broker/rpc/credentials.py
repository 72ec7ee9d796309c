"""Mutual TLS between components: gRPC credentials that follow their files.

Rule: a broken new certificate never replaces a working old one, and a component port without TLS stays on loopback.
Knows no stream.
"""

from __future__ import annotations

import logging
import ssl

import grpc

from broker.config.settings import ClusterSettings
from broker.core.certificates import no_password
from broker.core.errors import ConfigError
from broker.seams.files import read_whole
from broker.seams.following import Followed

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
        self._files: Followed[tuple[bytes, bytes, bytes]] | None = None
        if self:
            try:
                self._files = Followed(self._paths, self._load, _told)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"Cannot use the TLS files of components: {error}; check {', '.join(FILES)}."
                ) from error

    def __bool__(self) -> bool:
        return bool(self._paths[0])

    def channel(self) -> grpc.ChannelCredentials:
        """For one dial."""
        ca, cert, key = self._newest()
        return grpc.ssl_channel_credentials(ca, key, cert)

    def server(self) -> grpc.ServerCredentials:
        """For a listening port; every handshake looks for newer files. Clients must show a certificate."""
        return grpc.dynamic_ssl_server_credentials(_configuration(*self._newest()), self._renewed, True)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC in a thread of its own, once per handshake; None: nothing new."""
        assert self._files is not None
        before = self._files.value
        now = self._newest()
        return None if before == now else _configuration(*now)

    def _newest(self) -> tuple[bytes, bytes, bytes]:
        assert self._files is not None, "asked only where files are set"
        self._files.look()
        return self._files.value

    def _load(self) -> tuple[bytes, bytes, bytes]:
        ca, cert, key = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # gRPC finds a bad pair only at the first handshake, and says so nowhere.
        context.load_cert_chain(cert, key, password=no_password)
        context.load_verify_locations(ca)
        return read_whole(ca), read_whole(cert), read_whole(key)


def _configuration(ca: bytes, cert: bytes, key: bytes) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(key, cert)], ca)


def _told(error: OSError | ValueError | None) -> None:
    if error is not None:
        log.error("the new TLS files of components are not usable, the old ones stay in use: %s", error)
    else:
        log.info("TLS files of components reloaded")
