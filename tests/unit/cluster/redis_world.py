"""Edges of one cluster that share a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.cluster.redis.redis_link import RedisLink
from broker.cluster.redis.redis_shared import RedisShared
from broker.config.settings import RedisSettings
from broker.core.errors import Code
from broker.seams.clock import SystemClock
from tests.harness.servers import Server


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
        shared = RedisShared(self.settings, policy, f"edge{len(self.all)}", SystemClock(), f"edge{len(self.all)}")
        await shared.start()
        self.all.append(shared)
        return shared

    async def keys(self) -> list[str]:
        link = RedisLink(self.settings, SystemClock())
        await link.start()
        keys = await link.ask(lambda client: client.keys(self.settings.prefix + "*"))
        await link.close()
        return sorted(keys)


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
