"""Rates over all edges: token buckets in Redis, filled by Redis' own clock.

Leases that are asked for while an answer is under way go together in the next pipeline, so an edge asks Redis as often
as it answers and never per message.

Rule: a lease is always answered; None when Redis is away. A bucket nobody asks is forgotten after IDLE_MS (full again).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..tasks import Tasks
from .redis_link import RedisAway, RedisLink

IDLE_MS = 60_000

# KEYS: bucket. ARGV: rate per second, most it holds, wanted, milliseconds to keep it. Returns the tokens given.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rate, most, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = most
if bucket[1] then
    left = math.min(most, tonumber(bucket[1]) + math.max(now - tonumber(bucket[2]), 0) * rate / 1000)
end
local given = math.max(math.min(math.floor(left), wanted), 0)
redis.call('HSET', KEYS[1], 'left', tostring(left - given), 'at', string.format('%d', now))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return given
"""

Granted = Callable[[int | None], None]
Lease = tuple[str, int, int, int, Granted]
"""Name, rate, most, wanted, whom to tell."""


class RedisTokens:
    """See edge.rates.Tokens."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._tasks = Tasks()
        self._wanted: list[Lease] = []
        self._asking = False

    def lease(self, name: str, rate: int, most: int, want: int, granted: Granted) -> None:
        self._wanted.append((name, rate, most, want, granted))
        if not self._asking:
            self._asking = True
            self._tasks.spawn(self._ask(), "leases of rate tokens")

    async def _ask(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                given: list[int | None]
                try:
                    given = await self._link.ask(partial(self._acquire, wanted))
                except RedisAway:
                    given = [None] * len(wanted)
                for (*_, granted), count in zip(wanted, given, strict=True):
                    granted(count)
        finally:
            self._asking = False

    async def _acquire(self, wanted: list[Lease], client: Any) -> list[int | None]:
        async with client.pipeline(transaction=False) as pipe:
            for name, rate, most, want, _ in wanted:
                pipe.eval(_TAKE, 1, f"{self._link.prefix}rate:{name}", rate, most, want, IDLE_MS)
            answers: list[int | None] = await pipe.execute()
        return answers

    async def close(self) -> None:
        await self._tasks.close()
