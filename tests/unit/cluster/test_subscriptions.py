"""Names of durable subscriptions: each belongs to one address in the whole cluster."""

from __future__ import annotations

import asyncio

import pytest

from broker.cluster.subscriptions import SubscriptionDirectory
from broker.metadata.port import MetadataUnavailable

from .world import KEYS, World, simulate


def test_a_name_belongs_to_one_address_in_the_whole_cluster():
    async def scenario(world: World) -> None:
        one, two = (SubscriptionDirectory(world.client(), KEYS) for _ in range(2))
        await one.start()
        await two.start()
        answers = await asyncio.gather(one.claim("ada.news", "news"), two.claim("ada.news", "sport"))
        winner = ["news", "sport"][answers.index(None)]
        assert sorted(map(str, answers)) == sorted(["None", winner])
        revision = world.store.revision
        assert await one.claim("ada.news", winner) is None
        assert await two.claim("ada.news", winner) is None
        assert await two.claim("ada.news", "else") == winner
        assert world.store.revision == revision, "known names need no write"
        await one.release("ada.news", "else")
        assert await one.claim("ada.news", "else") == winner, "the subscription to another address was deleted"
        await one.release("ada.news", winner)
        await one.release("ada.news", winner)
        await asyncio.sleep(0.1)
        assert await two.claim("ada.news", "else") is None
        assert await one.claim("ada.news", "news") == "else"

    simulate(scenario)


def test_names_that_are_known_need_no_store():
    async def scenario(world: World) -> None:
        directory = SubscriptionDirectory(world.client(), KEYS)
        await directory.start()
        await directory.claim("a", "x")
        world.store.stop()
        assert await directory.claim("a", "x") is None
        assert await directory.claim("a", "y") == "x"
        with pytest.raises(MetadataUnavailable):
            await directory.claim("b", "x")

    simulate(scenario)
