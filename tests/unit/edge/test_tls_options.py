"""What an acceptor may ask of TLS: client certificates, revoked ones, host names, versions, ciphers."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.edge.transport.tls import CertificateWatcher, server_context
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run

CONFIG = """[ca]
default_ca = test
[test]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
default_days = 2
default_crl_days = 2
policy = any
[any]
commonName = supplied
"""


class Authority:
    """A CA in a folder: server.pem for localhost; good.pem and bad.pem for clients, the latter revoked in crl.pem."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ca.cnf").write_text(CONFIG)
        (folder / "index.txt").touch()
        (folder / "serial").write_text("01\n")
        issuer = "authorityKeyIdentifier=keyid\n"  # RFC 5280, 4.2.1.1; demanded as well
        (folder / "server.ext").write_text(f"{issuer}subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        (folder / "client.ext").write_text(issuer)
        usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]  # default contexts want it since Python 3.13
        self.run("req", "-x509", *self.key("ca"), "-out", "ca.pem", "-days", "2", "-subj", "/CN=ca", *usage)
        for name in ("server", "good", "bad"):
            self.run("req", *self.key(name), "-out", f"{name}.csr", "-subj", f"/CN={name}")
            extra = ["-extfile", "server.ext" if name == "server" else "client.ext"]
            self.run("ca", "-batch", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-in",
                     f"{name}.csr", "-out", f"{name}.pem", "-notext", *extra)  # fmt: skip
        self.run("ca", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-gencrl", "-out", "none.pem")
        self.run("ca", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-revoke", "bad.pem")
        self.run("ca", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-gencrl", "-out", "crl.pem")

    @staticmethod
    def key(name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]

    def run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def acceptor(self, **more: Any) -> dict[str, Any]:
        return {
            "port": 0, "tls": True, "tls_cert_file": self.path("server.pem"), "tls_key_file": self.path("server.key"),
            **{name: self.path(value) if name.endswith("_file") else value for name, value in more.items()},
        }  # fmt: skip

    def client(self, name: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if name:
            context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificates for this test")
    return Authority(tmp_path_factory.mktemp("authority"))


async def spoken(port: int, context: ssl.SSLContext, name: str | None = "localhost") -> bool:
    """Does a byte come back. A refused client certificate shows with the first read only."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    except OSError:  # SSLError, reset
        return False
    try:
        writer.write(b"x")
        return await reader.read(1) == b"x"
    except OSError:
        return False
    finally:
        await closed(writer)


CA = {"tls_client_ca_file": "ca.pem"}


@both_loops
@pytest.mark.parametrize(
    ("options", "nobody", "good", "bad"),
    [
        ({}, True, True, True),
        (CA, False, True, True),
        ({**CA, "tls_client_auth": "need"}, False, True, True),
        ({**CA, "tls_client_auth": "want"}, True, True, True),
        ({**CA, "tls_crl_file": "crl.pem"}, False, True, False),
        ({**CA, "tls_crl_file": "crl.pem", "tls_client_auth": "want"}, True, True, False),
    ],
)
def test_who_may_come_in(
    kind: str, authority: Authority, options: dict[str, Any], nobody: bool, good: bool, bad: bool
) -> None:
    async def main() -> None:
        edge = Edge()
        settings = Settings(edge=OFF, acceptors={"safe": authority.acceptor(**options)})
        async with listening(edge, settings) as listeners:
            port = listeners.ports["safe"]
            found = [await spoken(port, authority.client(name)) for name in ("", "good", "bad")]
            assert found == [nobody, good, bad]
        subjects = [session.channel.tls_subject for session in edge.opened if session.received]
        assert subjects == ([None] * nobody + ["CN=good"] * good + ["CN=bad"] * bad if options else [None] * 3)

    run(kind, main())


@both_loops
@pytest.mark.parametrize(
    ("wanted", "asked", "served"),
    [
        ("localhost", "localhost", True), ("LocalHost", "LOCALHOST", True), ("localhost", "other", False),
        ("localhost", None, False), ("*.x.org", "a.x.org", True), ("*.x.org", "x.org", False),
        ("*.x.org", "a.b.x.org", False), ("", "Shop.x.org", True), ("", None, True),
    ],
)  # fmt: skip
def test_only_clients_that_ask_for_the_host(
    kind: str, authority: Authority, wanted: str, asked: str | None, served: bool
) -> None:
    async def main() -> None:
        context = authority.client()
        context.check_hostname = False
        settings = Settings(edge=OFF, acceptors={"named": authority.acceptor(tls_sni_host=wanted)})
        async with listening(edge := Edge(), settings) as listeners:
            assert await spoken(listeners.ports["named"], context, asked or "") is served
        assert {session.channel.tls_name for session in edge.opened} == ({(asked or "").lower()} if served else set())

    run(kind, main())


def context(authority: Authority, **options: Any) -> ssl.SSLContext:
    return server_context(AcceptorSettings(**authority.acceptor(**options)))


def test_versions_and_ciphers(authority: Authority) -> None:
    assert context(authority).minimum_version is ssl.TLSVersion.TLSv1_2
    assert context(authority, tls_min_version="TLSv1.3").minimum_version is ssl.TLSVersion.TLSv1_3
    chosen = "ECDHE-ECDSA-AES256-GCM-SHA384,ECDHE-ECDSA-AES128-GCM-SHA256"
    names = [cipher["name"] for cipher in context(authority, tls_ciphers=chosen).get_ciphers()]
    assert [name for name in names if not name.startswith("TLS_")] == chosen.split(",")


class Loop:
    def call_later(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tls_ciphers": "NO-SUCH-CIPHER"}, r"acceptors\.a\.tls_ciphers"),
        ({**CA, "tls_crl_file": "missing.pem"}, r"acceptors\.a\.tls_crl_file"),
        ({"tls_client_ca_file": "server.key"}, r"acceptors\.a\.tls_client_ca_file"),
    ],
)
def test_what_cannot_be_used_is_named(authority: Authority, options: dict[str, Any], said: str) -> None:
    loop: Any = Loop()
    with pytest.raises(ConfigError, match=said):
        CertificateWatcher(AcceptorSettings(**authority.acceptor(**options)), loop, 1.0, "acceptors.a")


def test_a_new_list_of_revoked_certificates_is_taken(authority: Authority, tmp_path: Path) -> None:
    live = tmp_path / "live.pem"
    shutil.copy(authority.path("none.pem"), live)
    options = authority.acceptor(**CA)
    loop: Any = Loop()
    loop.create_task = lambda work: work.close()
    watcher = CertificateWatcher(AcceptorSettings(**options, tls_crl_file=str(live)), loop, 1.0, "acceptors.a")
    before = watcher.context
    watcher.check()
    assert watcher.context is before
    live.unlink()
    shutil.copy(authority.path("crl.pem"), live)
    watcher.check()
    assert watcher.context is not before
