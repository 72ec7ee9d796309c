"""Whom a client trusts: authorities it was told of, laid out as they are, and no others."""

from __future__ import annotations

import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from broker.seams.client_tls import client_context

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("broker", "deploy", "helm", "operator", "pipeline")


def openssl(*line: str) -> None:
    subprocess.run(["openssl", *line], check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority as `openssl req -x509` makes it, without a key usage, and a server's certificate of it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: no certificate for this test")
    folder = tmp_path_factory.mktemp("tls")
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req", "-x509", *key, "-days", "2", "-subj", "/CN=ca", "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem"
    )
    openssl("req", *key, "-subj", "/CN=server", "-keyout", f"{folder}/server.key", "-out", f"{folder}/server.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", f"{folder}/server.csr", "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", f"{folder}/names", "-out", f"{folder}/server.pem")  # fmt: skip
    return folder


def shaken(folder: Path, context: ssl.SSLContext, name: str) -> None:
    """A handshake in memory. Raises ssl.SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [context.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].getpeercert()


def test_an_authority_without_a_key_usage_is_taken(folder: Path):
    """With Python 3.13 the operator had not reached an API server whose authority has none."""
    shaken(folder, client_context(str(folder / "ca.pem")), "localhost")
    shaken(folder, client_context(cadata=(folder / "ca.pem").read_text()), "localhost")


def test_another_name_or_another_authority_is_not(folder: Path):
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shaken(folder, client_context(str(folder / "ca.pem")), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(folder, client_context(), "localhost")


def test_nobody_makes_a_default_context_of_his_own():
    """Else one Python takes what another one does not."""
    found = [
        str(path.relative_to(ROOT))
        for place in PLACES
        for path in sorted((ROOT / place).rglob("*.py"))
        if re.search(r"create_default_context\(", path.read_text())
    ]
    assert found == ["broker/seams/client_tls.py"]
