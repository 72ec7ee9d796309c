"""What edges share by Redis, with a real one: client-ids, logins, rates; and what is left when it is away."""

from __future__ import annotations

import asyncio
import logging

from broker.cluster.redis import redis_ids
from broker.cluster.redis.redis_shared import RedisShared
from broker.config.settings import RedisSettings
from broker.core.errors import Code
from broker.seams.clock import SystemClock
from tests.harness.waiting import eventually

from .redis_world import Holder, claim, lease, unknown, until_not


async def test_a_login_known_to_one_edge_is_known_to_all(edges):
    first, second = await edges.start(), await edges.start()
    assert not await second.logins.known("proof")
    first.logins.remember("proof")
    await until_not(lambda: unknown(second, "proof"))
    assert not await second.logins.known("another")


async def test_without_redis_an_edge_goes_on_alone_says_so_once_and_comes_back(edges, server, caplog, monkeypatch):
    monkeypatch.setattr(redis_ids, "REFRESH_S", 0.05)
    monkeypatch.setattr("broker.cluster.redis.redis_link.RETRY_S", 0.1)
    caplog.set_level(logging.INFO, "stampede.redis")
    first, second = await edges.start("refuse"), await edges.start("refuse")
    first.client_ids._link._settings = edges.settings
    assert await claim(first, "before", Holder(1)) is None
    server.pause()
    try:
        began = asyncio.get_running_loop().time()
        assert await claim(first, "me", Holder(2)) is None
        assert await claim(first, "me", Holder(3)) is Code.CLIENT_ID_IN_USE
        assert await lease(first, 5) is None
        assert not await first.logins.known("proof")
        assert asyncio.get_running_loop().time() - began < 5
    finally:
        server.resume()
    await eventually(lambda: caplog.text.count("Redis is back") == caplog.text.count("does not answer") > 0)
    while await claim(second, "me", holder := Holder(4)) is None:  # until the refresh has told of it
        second.client_ids.release("me", holder)
        await asyncio.sleep(0.05)
    assert await lease(first, 5) == 5
    assert caplog.text.count("does not answer") <= 2  # one per edge


async def test_redis_that_is_not_there_at_the_start_does_no_harm(tmp_path):
    settings = RedisSettings(url="redis://127.0.0.1:1", timeout_s=0.2)
    shared = RedisShared(settings, "takeover", "edge0", SystemClock(), "edge0")
    await shared.start()
    assert await claim(shared, "me", Holder(1)) is None
    await shared.close()
