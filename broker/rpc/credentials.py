"""Mutual TLS between components: gRPC credentials that follow their files, and who may call with which certificate.

Rule: a broken new certificate (or list of revoked ones) never replaces a working old one, and a component port without
TLS stays on loopback. Knows no stream.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import grpc

from broker.config.settings import ClusterSettings
from broker.core.certificates import Issued, no_password
from broker.core.errors import ConfigError
from broker.seams.files import read_whole
from broker.seams.revocations import issued, revoked
from broker.seams.watched_files import WatchedFiles

from .roles import Roles

log = logging.getLogger("stampede.rpc")

FILES = ("cluster.ca_file", "cluster.cert_file", "cluster.key_file")
LOOPBACK = ("localhost", "::1", "[::1]")
LOOK_S = 1.0
"""So often the list of revoked certificates is looked at."""


def is_loopback(host: str) -> bool:
    """Whether a listening port on `host` can be reached from this machine only."""
    return host in LOOPBACK or host.startswith("127.")


class _Files(NamedTuple):
    """What is in the three files.    looks   what a handshake is made with that is about the certificate alone."""

    ca: bytes
    cert: bytes
    key: bytes
    looks: ssl.SSLContext


class Credentials:
    """The newest good content of the three files. Falsy when none is set: plain text."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Raises ConfigError when only some files are named, or they do not fit together."""
        self._paths = (settings.ca_file, settings.cert_file, settings.key_file)
        if any(self._paths) and not all(self._paths):
            missing = ", ".join(name for name, path in zip(FILES, self._paths, strict=True) if not path)
            raise ConfigError(f"Mutual TLS between components needs all of {', '.join(FILES)}; set {missing} too.")
        self.roles = Roles(settings.role_domain)
        self.revoked = self._revoked(settings.crl_file)
        if not self and (self.roles or self.revoked is not None):
            raise ConfigError(f"cluster.role_domain and cluster.crl_file need TLS: set {', '.join(FILES)} too.")
        self._given: _Files | None = None
        """What a listening port shows."""
        self._files: WatchedFiles[_Files] | None = None
        self.own_revoked = False
        """Is the certificate that we show on the list, as both were looked at last."""
        if self:
            try:
                self._files = WatchedFiles(self._paths, self._load, _told)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f"Cannot use the TLS files of components: {error}; check {', '.join(FILES)}."
                ) from error
            self._look()

    def __bool__(self) -> bool:
        return bool(self._paths[0])

    def _revoked(self, path: str) -> WatchedFiles[frozenset[Issued]] | None:
        if not path:
            return None
        try:
            return WatchedFiles([path], lambda: revoked(path), _told_of_list)
        except ImportError:
            raise ConfigError("cluster.crl_file needs cryptography: pip install 'stampede-broker[identity]'.") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"Cannot use cluster.crl_file: {error}.") from None

    def refusal(self, service: str, auth: Mapping[str, Sequence[bytes]]) -> str:
        """Why who shows that certificate may not call the service; "": it may. auth: as gRPC has verified it."""
        if why := self.roles.refusal(service, names_of(auth)):
            return why
        return "its certificate is revoked (cluster.crl_file)" if self.is_revoked(auth) else ""

    def is_revoked(self, auth: Mapping[str, Sequence[bytes]]) -> bool:
        """Is that certificate on the list as it was last looked at."""
        return any(self.lists(pem) for pem in auth.get("x509_pem_cert", ()))

    def lists(self, pem: bytes) -> bool:
        """The same of one that was seen otherwise."""
        return self.revoked is not None and issued(pem) in self.revoked.value

    async def follow_list(self, changed: Callable[[], None]) -> None:
        """Looks at the list, and whether our own certificate is on it, again and again, as long as there is one;
        changed: it is another one."""
        while (files := self.revoked) is not None:
            await asyncio.sleep(LOOK_S)
            before = files.value
            await asyncio.to_thread(self._look)  # it may be long, and three files are read for a new certificate
            if files.value is not before:
                changed()

    def _look(self) -> None:
        """A list that nobody can read any more is no reason to go: it is one file for all, and with it would go the
        cluster. The one before counts, and the log says so."""
        if self.revoked is not None:
            self.revoked.look()
            with suppress(ValueError):  # one that nobody can read is on no list
                self.own_revoked = self.lists(self._newest().cert)

    def channel(self, only: bytes = b"") -> grpc.ChannelCredentials:
        """For one dial. only: that certificate (PEM) is trusted, and no other one of our authority."""
        ca, cert, key, _ = self._newest()
        return grpc.ssl_channel_credentials(only or ca, key, cert)

    def looking(self) -> ssl.SSLContext:
        """For a handshake that shows which certificate the other end has (peer_certificate.py)."""
        return self._newest().looks

    def server(self) -> grpc.ServerCredentials:
        """For a listening port; every handshake looks for newer files. Clients must show a certificate."""
        self._given = given = self._newest()
        return grpc.dynamic_ssl_server_credentials(_configuration(given), self._renewed, True)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC in a thread of its own, once per handshake; None: nothing new."""
        # Against what the port was given, not what was seen last: others look at the files meanwhile.
        now = self._newest()
        if now is self._given:
            return None
        self._given = now
        return _configuration(now)

    def _newest(self) -> _Files:
        assert self._files is not None, "asked only where files are set"
        self._files.look()
        return self._files.value

    def _load(self) -> _Files:
        ca, cert, key = self._paths
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the call that follows is asked for its name
        context.set_alpn_protocols(["h2"])  # or gRPC does not answer
        # gRPC finds a bad pair only at the first handshake, and says so nowhere.
        context.load_cert_chain(cert, key, password=no_password)
        context.load_verify_locations(ca)
        return _Files(read_whole(ca), read_whole(cert), read_whole(key), context)


_DNS: Final = re.compile(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")


def names_of(auth: Mapping[str, Sequence[bytes]]) -> list[str]:
    """DNS names in a verified certificate. gRPC gives e-mail addresses, URIs and others in one list with them, and
    a process that may have `spiffe://…/x.owner.DOMAIN` is no owner for that."""
    names = [name.decode(errors="replace") for name in auth.get("x509_subject_alternative_name", ())]
    return [name for name in names if _DNS.fullmatch(name)]


def _told_of_list(error: OSError | ValueError | None) -> None:
    if error is not None:
        log.error("the new cluster.crl_file is not usable, the old one stays in use: %s", error)
    else:
        log.info("list of revoked certificates of components reloaded")


def _configuration(files: _Files) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(files.key, files.cert)], files.ca)


def _told(error: OSError | ValueError | None) -> None:
    if error is not None:
        log.error("the new TLS files of components are not usable, the old ones stay in use: %s", error)
    else:
        log.info("TLS files of components reloaded")
