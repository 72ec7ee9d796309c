"""Client-ids over all edges, with a real Redis: refused, taken over, kept as long as their edge lives."""

from __future__ import annotations

import asyncio
import random

from broker.cluster.redis import redis_ids
from broker.core.errors import Code
from tests.harness.waiting import eventually

from .redis_world import Holder, claim, until_not


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
    for number in range(40):
        shared = await edges.start("refuse")
        # Another one each time: on a starved machine Redis may miss the 0.3 s that a close waits for it.
        assert await claim(shared, f"me{number}", Holder(1)) is None
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
