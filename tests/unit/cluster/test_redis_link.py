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
