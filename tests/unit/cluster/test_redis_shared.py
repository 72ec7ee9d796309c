"""What edges share by Redis, with a real one: client-ids, logins, rates; and what is left when it is away."""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from broker.cluster.redis import redis_ids
from broker.cluster.redis.redis_link import RedisAway, RedisLink
from broker.cluster.redis.redis_shared import RedisShared
from broker.config.settings import RedisSettings
from broker.core.errors import Code, ConfigError
from broker.seams.clock import SystemClock
from tests.harness import scratch
from tests.harness.servers import Server, running
from tests.harness.waiting import eventually


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "redis") as folder, running("redis", folder, ours=True) as server:
        yield server


class Holder:
    def __init__(self, id: int) -> None:
        self.id = id
        self.lost = 0

    def taken_over(self) -> None:
        self.lost += 1


class Edges:
    """Edges of one cluster. The prefix is the test's own."""

    def __init__(self, server: Server, prefix: str) -> None:
        self.settings = RedisSettings(url=f"redis://{server.address}", prefix=prefix, timeout_s=0.3)
        self.all: list[RedisShared] = []

    async def start(self, policy: str = "allow") -> RedisShared:
        shared = RedisShared(self.settings, policy, f"edge{len(self.all)}", SystemClock())
        await shared.start()
        self.all.append(shared)
        return shared

    async def keys(self) -> list[str]:
        link = RedisLink(self.settings, SystemClock())
        await link.start()
        keys = await link.ask(lambda client: client.keys(self.settings.prefix + "*"))
        await link.close()
        return sorted(keys)


@pytest.fixture
async def edges(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    edges = Edges(server, f"{request.node.name}:")
    yield edges
    for shared in edges.all:
        await shared.close()


async def claim(shared: RedisShared, client_id: str, holder: Holder) -> Code | None:
    answer = asyncio.get_running_loop().create_future()
    assert shared.client_ids is not None
    shared.client_ids.claim(client_id, holder, answer.set_result)
    refused = await asyncio.wait_for(answer, 30)
    return None if refused is None else refused.code


async def lease(shared: RedisShared, want: int, rate: int = 100, name: str = "in:ada") -> int | None:
    answer = asyncio.get_running_loop().create_future()
    shared.tokens.lease(name, rate, rate // 2, want, answer.set_result)
    return await asyncio.wait_for(answer, 30)


async def unknown(shared: RedisShared, proof: str) -> bool:
    return not await shared.logins.known(proof)


async def until_not(question: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(30):
        while await question():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_client_id_of_another_edge_is_refused_until_it_is_released(edges):
    first, second = await edges.start("refuse"), await edges.start("refuse")
    holder = Holder(1)
    assert await claim(first, "me", holder) is None
    assert await claim(second, "me", Holder(1)) is Code.CLIENT_ID_IN_USE
    assert await claim(first, "me", Holder(2)) is Code.CLIENT_ID_IN_USE
    first.client_ids.release("me", holder)
    await until_not(lambda: claim(second, "me", Holder(3)))


async def test_a_client_id_is_taken_over_from_another_edge_at_once(edges):
    first, second = await edges.start("takeover"), await edges.start("takeover")
    old, new = Holder(1), Holder(1)
    assert await claim(first, "me", old) is None
    await asyncio.sleep(0.7)  # longer than timeout_s: the listener must live through silence
    assert await claim(second, "me", new) is None
    await eventually(lambda: old.lost)
    assert new.lost == 0
    third = Holder(2)
    assert await claim(second, "me", third) is None
    assert (old.lost, new.lost) == (1, 1)


async def test_a_notice_that_was_missed_is_seen_by_the_refresh(edges, monkeypatch):
    monkeypatch.setattr(redis_ids, "REFRESH_S", 0.05)
    monkeypatch.setattr(redis_ids.RedisClientIds, "_heard", lambda self, notice: None)
    first, second = await edges.start("takeover"), await edges.start("takeover")
    old, new = Holder(1), Holder(1)
    assert await claim(first, "me", old) is None and await claim(second, "me", new) is None
    await eventually(lambda: old.lost)
    assert new.lost == 0


async def test_ids_live_on_while_they_are_refreshed_and_not_after_their_edge(edges, monkeypatch):
    monkeypatch.setattr(redis_ids, "REFRESH_S", 0.05)
    monkeypatch.setattr(redis_ids, "KEEP_S", 1.0)
    first, second = await edges.start("refuse"), await edges.start("refuse")
    for number in range(3):
        assert await claim(first, f"c{number}", Holder(number)) is None
    await asyncio.sleep(1.3)
    assert await claim(second, "c1", Holder(9)) is Code.CLIENT_ID_IN_USE
    await first.client_ids._tasks.close()  # as if the process had died
    await asyncio.sleep(1.4)
    assert await claim(second, "c1", Holder(9)) is None


async def test_an_edge_closes_whatever_it_is_asking(edges, monkeypatch):
    """Also when an answer and the cancellation come at the same moment: the library then swallows the latter."""
    monkeypatch.setattr(redis_ids, "REFRESH_S", 0.0005)
    chance = random.Random(1)
    for _ in range(40):
        shared = await edges.start("refuse")
        assert await claim(shared, "me", Holder(1)) is None
        await asyncio.sleep(chance.uniform(0, 0.02))
        async with asyncio.timeout(30):
            await shared.close()


async def test_an_edge_that_closes_gives_its_ids_back(edges):
    first, second = await edges.start("refuse"), await edges.start("refuse")
    assert await claim(first, "me", Holder(1)) is None
    await first.client_ids.close()
    assert await claim(second, "me", Holder(1)) is None


async def test_with_allow_nobody_is_asked(edges):
    assert (await edges.start()).client_ids is None
    assert await edges.keys() == []


async def test_a_login_known_to_one_edge_is_known_to_all(edges):
    first, second = await edges.start(), await edges.start()
    assert not await second.logins.known("proof")
    first.logins.remember("proof")
    await until_not(lambda: unknown(second, "proof"))
    assert not await second.logins.known("another")


async def test_tokens_are_shared_by_all_edges(edges):
    """100 a second, half of that at once."""
    first, second = await edges.start(), await edges.start()
    began = time.monotonic()
    assert await lease(first, 40) == 40
    got = 40 + (await lease(second, 40) or 0)
    assert 50 <= got <= 52 + 100 * (time.monotonic() - began)
    await asyncio.sleep(0.2)
    got += await lease(first, 1000) or 0
    assert 65 <= got <= 52 + 100 * (time.monotonic() - began)
    assert await lease(first, 1000, name="in:bob") == 50


async def test_leases_asked_together_travel_together(edges):
    shared = await edges.start()
    asked = []
    ask = shared.tokens._link.ask

    async def counting(question):
        asked.append(question)
        return await ask(question)

    shared.tokens._link.ask = counting
    await asyncio.gather(*(lease(shared, 1, name=f"in:{n}") for n in range(50)))
    assert len(asked) == 1


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
    shared = RedisShared(settings, "takeover", "edge0", SystemClock())
    await shared.start()
    assert await claim(shared, "me", Holder(1)) is None
    await shared.close()


async def test_settings_that_cannot_be_used_are_named(tmp_path, monkeypatch):
    async def start(**settings):
        await RedisShared(RedisSettings(**settings), "allow", "edge0", SystemClock()).start()

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
