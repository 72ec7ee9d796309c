"""The admin port with TLS: the same behind it, certificates that are renewed, what cannot be had refused by name."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, TCPConnector
from click.testing import CliRunner

from broker.admin.tls import AdminCertificate
from broker.app.cli import main
from broker.config.load import from_tree
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError
from tests.abuse.certificates import authority, issued
from tests.harness.api import running

CA = tuple[Path, Path]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ca(folder: Path) -> CA:
    return authority(folder, "ca")


def settings(pair: CA, **more: Any) -> dict[str, Any]:
    return {"tls_host": "127.0.0.1", "tls_port": 0, "tls_cert_file": str(pair[0]), "tls_key_file": str(pair[1]), **more}


async def test_the_same_with_tls_for_browsers_and_commands(tmp_path, folder, ca):
    pair = issued(folder, "admin", ca)
    async with running(tmp_path, admin=settings(pair)) as api:
        port = api.broker.admin.tls_port
        assert port not in (-1, api.broker.admin.port)
        trusting = ssl.create_default_context(cafile=str(ca[0]))
        async with ClientSession(f"https://127.0.0.1:{port}", connector=TCPConnector(ssl=trusting)) as http:
            for path in ("/api/v1/overview", "/console", "/healthz"):
                async with http.get(path) as answer:
                    assert answer.status == 200
            body = {"json": {"address": "orders"}, "headers": {"Origin": f"https://127.0.0.1:{port}"}}
            async with http.post("/api/v1/queues", **body) as answer:
                assert answer.status == 201
        async with ClientSession() as stranger:
            with pytest.raises(ClientError):
                await stranger.get(f"https://127.0.0.1:{port}/healthz")
        command = ["queues", "--url", f"https://127.0.0.1:{port}", "--ca", str(ca[0])]
        told = await asyncio.to_thread(CliRunner().invoke, main, command)
        assert told.exit_code == 0 and "orders" in told.stdout
        told = await asyncio.to_thread(CliRunner().invoke, main, command[:3])
        assert told.exit_code == 3 and "certificate verify failed" in told.stderr.lower()
        async with api.http.get("/metrics") as answer:
            assert "stomp_admin_certificate_not_after_seconds" in await answer.text()


def test_a_renewed_certificate_is_taken_and_a_broken_one_is_not(tmp_path, folder, ca, caplog):
    first, second = issued(folder, "first", ca), issued(folder, "second", ca, days=20)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for pair in (first,):
        shutil.copy(pair[0], cert)
        shutil.copy(pair[1], key)
    watched = AdminCertificate(AdminSettings(**settings((cert, key))))
    before, context = watched.not_after, watched.context
    cert.write_text("no certificate")
    watched.check()
    assert watched.not_after == before and "the old one stays in use" in caplog.text
    shutil.copy(second[0], cert)
    watched.check()
    assert watched.not_after == before, "its key is not there yet"
    shutil.copy(second[1], key)
    watched.check()
    assert watched.not_after > before and watched.context is context


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"tls_port": 61681}, "tls_cert_file"),
        ({"tls_cert_file": "a.pem", "tls_key_file": "a.key"}, "tls_port"),
        ({"tls_port": 61681, "tls_cert_file": "a.pem"}, "tls_key_file"),
        ({"tls_port": 61680, "tls_cert_file": "a.pem", "tls_key_file": "a.key"}, "are both 61680"),
        ({"port": -1, "tls_port": 1, "tls_cert_file": "a.pem", "tls_key_file": "a.key"}, "needs admin.port"),
    ],
)
def test_settings_that_cannot_go_together(table, named):
    with pytest.raises(ConfigError, match=named):
        from_tree({"admin": table}, "in a test")


async def test_files_that_are_no_certificate_end_the_start_by_name(tmp_path):
    (tmp_path / "x").write_text("x")
    with pytest.raises(ConfigError, match=r"check admin\.tls_cert_file"):
        async with running(tmp_path / "data", admin=settings((tmp_path / "x", tmp_path / "x"))):
            pass
