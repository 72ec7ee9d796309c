"""Rates over all edges, with a real Redis: what is leased together travels together."""

from __future__ import annotations

import asyncio
import time

from .redis_world import lease


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
