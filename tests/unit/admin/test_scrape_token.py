"""Numbers of the admin port beyond this machine: for whoever shows the token; probes and this machine need none."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import ClientSession

from broker.admin import server as module
from broker.admin.depths import ClusterDepths, NoNumber
from broker.admin.scrape_token import ScrapeToken, bearer
from broker.admin.server import AdminServer
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError
from broker.core.slots import Member

TOKEN = "a-token-of-the-scraper"
ELSEWHERE = "10.0.0.7:1"
NUMBERS = ("/metrics", "/api/depth?match=a", "/api/busy", "/api/check?slot=1", "/api/slots")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


async def _nothing(_slot: int) -> None:
    return None


async def served(file: Path | str) -> AdminServer:
    server = AdminServer(
        AdminSettings(port=0, token_file=str(file)), [], lambda: (True, {}), lambda _: iter(()), (), _nothing, dict,
        lambda: iter(()),
    )  # fmt: skip
    await server.start()
    return server


async def statuses(server: AdminServer, headers: Mapping[str, str]) -> set[int]:
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http:
        found = set()
        for path in NUMBERS:
            async with http.get(path, headers=dict(headers)) as answer:
                found.add(answer.status)
                assert TOKEN not in await answer.text()
        return found


async def test_from_elsewhere_numbers_are_for_who_shows_the_token(file: Path, monkeypatch: pytest.MonkeyPatch):
    server = await served(file)
    assert 401 not in await statuses(server, {}), "this machine needs none"
    monkeypatch.setattr(module, "peer_of", lambda _: ELSEWHERE)
    wrong = (
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer ü"},
    )
    for headers in wrong:
        assert await statuses(server, headers) == {401}
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n")
    assert b" 401 " in await reader.readline(), "what is no UTF-8 is no token, and no fault of ours"
    writer.close()
    assert 401 not in await statuses(server, bearer(str(file)))
    async with ClientSession(f"http://127.0.0.1:{server.port}") as http:
        for path in ("/healthz", "/readyz", "/"):
            async with http.get(path) as answer:
                assert answer.status == 200, "probes have no token"
        async with http.get("/metrics") as answer:
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    await server.stop()


async def test_without_a_file_whoever_reaches_the_port_reads(monkeypatch: pytest.MonkeyPatch):
    server = await served("")
    monkeypatch.setattr(module, "peer_of", lambda _: ELSEWHERE)
    assert 401 not in await statuses(server, {})
    await server.stop()


async def test_sums_of_the_cluster_are_asked_with_the_token(file: Path, monkeypatch: pytest.MonkeyPatch):
    server = await served(file)
    monkeypatch.setattr(module, "peer_of", lambda _: ELSEWHERE)
    owners = {"o": Member("o", "owner", "127.0.0.1:1", "boot", admin=f"127.0.0.1:{server.port}")}
    for token_file, works in ((str(file), True), ("", False)):
        depths = ClusterDepths(owners, 30.0, token_file)
        if works:
            assert await depths.queues("a") == []
        else:
            with pytest.raises(NoNumber, match="401"):
                await depths.queues("a")
        await depths.close()
    await server.stop()


def test_a_changed_token_counts_and_a_broken_one_leaves_the_old(file: Path, caplog: pytest.LogCaptureFixture):
    token = ScrapeToken(str(file))
    for at, (text, right) in enumerate(
        [("another-token-of-it", "another-token-of-it"), ("short", "another-token-of-it")]
    ):
        file.write_text(text)
        os.utime(file, (at, at))
        assert token._file is not None
        token._file.look()
        assert token.admits(ELSEWHERE, f"Bearer {right}") and not token.admits(ELSEWHERE, f"Bearer {TOKEN}")
    assert "cannot be used" in caplog.text and "another" not in caplog.text


def test_what_is_no_token_is_refused_at_the_start(tmp_path: Path):
    for text in ("", "short", "two words in this file"):
        (tmp_path / "token").write_text(text)
        with pytest.raises(ConfigError, match=r"admin\.token_file"):
            ScrapeToken(str(tmp_path / "token"))
    with pytest.raises(ConfigError, match=r"admin\.token_file"):
        bearer(str(tmp_path / "missing"))
