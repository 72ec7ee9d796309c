"""What the accounts of edge.quotas use on each edge, told to the other edges by Redis.

    quotas:<edge>   a hash: 0, 1, … → a JSON object of account → what it uses there (CHUNK accounts each), for KEEP_S

Each edge writes its own and reads those of the other edges every EVERY_S. So a limit may be exceeded by what other
edges let in within that time; what has gone is free as soon.

Rule: accounts are told in pieces, so that no session waits behind them. While Redis is away nothing is known of other
edges (heard(None)). Must not know what is counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import msgspec

from ..tasks import Tasks
from .redis_link import RedisAway, RedisLink

log = logging.getLogger("stampede.redis")

EVERY_S = 0.5
KEEP_S = 5.0
CHUNK = 1000

Counts = dict[str, list[int]]


class Counting(Protocol):
    """Whose accounts these are (edge/quotas/quotas.py)."""

    @property
    def active(self) -> bool:
        """Is anything counted."""
        ...

    def told(self) -> Mapping[str, Sequence[int]]: ...
    def heard(self, others: Mapping[str, Sequence[int]] | None) -> None: ...


class RedisCounts:
    """edge: this one's name.    others   names of the other edges that live."""

    def __init__(self, link: RedisLink, edge: str) -> None:
        self._link = link
        self._edge = edge
        self._tasks = Tasks()

    def start(self, counting: Counting, others: Callable[[], Collection[str]]) -> None:
        """Tells and hears from now on."""
        self._tasks.spawn(self._for_ever(counting, others), "counts of quotas")

    async def close(self) -> None:
        """What it uses is free at once."""
        await self._tasks.close()
        try:
            await self._link.ask(lambda client: client.delete(self._key(self._edge)))
        except RedisAway:
            pass  # it expires

    async def _for_ever(self, counting: Counting, others: Callable[[], Collection[str]]) -> None:
        while True:
            try:
                if counting.active:
                    await self._tell(counting.told())
                # Also where nothing is counted yet: limits that come later hold at once.
                counting.heard(await self._ask(others()))
            except RedisAway:
                counting.heard(None)
            except Exception:
                log.exception("telling what quotas count: internal error")
                counting.heard(None)
            await asyncio.sleep(EVERY_S)

    async def _tell(self, own: Mapping[str, Sequence[int]]) -> None:
        key, pieces, left = self._key(self._edge), dict[str, bytes](), iter(list(own.items()))
        while piece := dict(islice(left, CHUNK)):
            pieces[str(len(pieces))] = msgspec.json.encode(piece)
            await asyncio.sleep(0)

        async def write(client: Any) -> None:
            async with client.pipeline(transaction=True) as pipe:
                pipe.delete(key)
                if pieces:
                    pipe.hset(key, mapping=pieces)
                    pipe.pexpire(key, int(KEEP_S * 1000))
                await pipe.execute()

        await self._link.ask(write)

    async def _ask(self, edges: Collection[str]) -> Counts:
        found: Counts = {}
        for edge in edges:
            pieces = await self._link.ask(partial(_pieces, self._key(edge)))
            for piece in pieces:
                for who, counts in _read(piece).items():
                    known = found.get(who)
                    found[who] = counts if known is None else [a + b for a, b in zip(known, counts, strict=False)]
                await asyncio.sleep(0)
        return found

    def _key(self, edge: str) -> str:
        return f"{self._link.prefix}quotas:{edge}"


async def _pieces(key: str, client: Any) -> list[str]:
    found: list[str] = await client.hvals(key)
    return found


def _read(piece: str) -> Counts:
    try:
        return msgspec.json.decode(piece, type=Counts)
    except msgspec.DecodeError:
        return {}  # of another release
