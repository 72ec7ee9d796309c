"""The way to Redis: settings that cannot be used are named, and where it is away nobody waits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.cluster.redis.redis_link import RedisAway, RedisLink
from broker.cluster.redis.redis_shared import RedisShared
from broker.config.settings import RedisSettings
from broker.core.errors import ConfigError
from broker.seams.clock import SystemClock
from tests.harness.waiting import eventually


async def test_settings_that_cannot_be_used_are_named(tmp_path, monkeypatch):
    async def start(**settings):
        await RedisShared(RedisSettings(**settings), "allow", "edge0", SystemClock(), "edge0").start()

    with pytest.raises(ConfigError, match=r"redis\.url"):
        await start(url="http://x")
    with pytest.raises(ConfigError, match=r"redis\.password_file"):
        await start(url="redis://127.0.0.1:1", password_file=str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigError, match="stampede-broker\\[redis\\]"):
        await start(url="redis://127.0.0.1:1")


async def test_the_password_comes_from_its_file(tmp_path: Path):
    from tests.harness.servers import local_redis

    server = local_redis(tmp_path, "--requirepass", "hush")
    server.start()
    try:
        (tmp_path / "password").write_text("hush\n")
        for file, right in ((str(tmp_path / "password"), True), ("", False)):
            link = RedisLink(RedisSettings(url=f"redis://{server.address}", password_file=file), SystemClock())
            await link.start()
            if right:
                assert await link.ask(lambda client: client.ping())
            else:
                with pytest.raises(RedisAway):
                    await link.ask(lambda client: client.ping())
            await link.close()
    finally:
        server.stop()


async def test_over_tls_an_authority_without_a_key_usage_is_taken_and_another_one_is_not(tmp_path: Path):
    """As `openssl req -x509` makes it; Python 3.13 by itself refuses it (seams/client_tls.py)."""
    from tests.harness.secrets import self_signed
    from tests.harness.servers import local_redis

    certificate, key = self_signed(tmp_path / "tls")
    other, _ = self_signed(tmp_path / "other")
    server = local_redis(
        tmp_path, "--port", "0", "--tls-port", 0, "--tls-cert-file", certificate, "--tls-key-file", key,
        "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no",
    )  # fmt: skip
    server.line[server.line.index("--tls-port") + 1] = str(server.port)
    server.launch()
    await eventually(lambda: server.ready in server.log())
    try:
        for authority, right in ((certificate, True), (other, False)):
            link = RedisLink(RedisSettings(url=f"rediss://{server.address}?ssl_ca_certs={authority}"), SystemClock())
            await link.start()
            if right:
                assert await link.ask(lambda client: client.ping())
            else:
                with pytest.raises(RedisAway, match="certificate"):
                    await link.ask(lambda client: client.ping())
            await link.close()
    finally:
        server.stop()
