"""A lease that is kept alive, and knows by its own clock when it must be taken for gone.

The store counts from when it *answered*; we count from when we *asked*. So here it ends first, whatever is slow.

Rule: between two answers nothing but the local monotonic clock counts. Knows no store: `renew` and `end` ask it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from broker.seams.clock import Clock

from .port import RAN_OUT, MetadataRefused, MetadataUnavailable

RENEWALS = 3
"""Per time to live: two may be lost."""
RETRIES = 20
"""Per time to live while the store does not answer."""


class KeptLease:
    """`port.Lease`. Runs a task from its making until it is lost."""

    def __init__(
        self,
        id: int,
        ttl_s: float,
        asked_at: float,
        clock: Clock,
        renew: Callable[[int], Awaitable[float]],
        end: Callable[[int], Awaitable[None]],
    ) -> None:
        """ttl_s   as granted, counted from `asked_at` (monotonic).    renew   the new time to live; 0: it is gone."""
        self.id = id
        self._ttl_s = ttl_s
        self._until = asked_at + ttl_s
        self._clock = clock
        self._renew = renew
        self._end = end
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep())

    @property
    def remaining(self) -> float:
        return 0.0 if self._lost.done() else self._until - self._clock.monotonic()

    async def lost(self) -> str:
        return await asyncio.shield(self._lost)

    async def revoke(self) -> None:
        self.stop("given back")
        await self._end(self.id)

    def stop(self, why: str) -> None:
        """Renews it no more and calls it lost. In the store it stays until it runs out."""
        self._lose(why)
        self._task.cancel()

    def _lose(self, why: str) -> None:
        if not self._lost.done():
            self._lost.set_result(why)

    async def _keep(self) -> None:
        try:
            self._lose(await self._kept())
        except Exception as error:
            self._lose(f"internal error: {error!r}")
            raise

    async def _kept(self) -> str:
        """Renews until it is lost; says why."""
        pause = self._ttl_s / RENEWALS
        while True:
            await asyncio.sleep(max(0.0, min(pause, self.remaining)))
            left = self.remaining
            if left <= 0:
                return RAN_OUT
            asked_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(left):
                    ttl_s = await self._renew(self.id)
            except (MetadataUnavailable, MetadataRefused, TimeoutError):
                pause = self._ttl_s / RETRIES
                continue
            if ttl_s <= 0:
                return "the metadata store has ended it"
            self._until = asked_at + ttl_s
            pause = ttl_s / RENEWALS
