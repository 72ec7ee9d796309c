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


def test_names_that_many_claim_at_once_are_written_together():
    """Each by itself would cost the store a sync each: the last of a crowd waited for longer than it may take."""

    async def scenario(world: World) -> None:
        client = world.client()
        client.latency = lambda: 0.1
        directory = SubscriptionDirectory(client, KEYS)
        await directory.start()
        began, revision = world.loop.now, world.store.revision
        claims = [directory.claim(f"c{n}.news", "news") for n in range(1000)]
        assert await asyncio.gather(*claims, directory.claim("c7.news", "sport")) == [None] * 1000 + ["news"]
        assert world.store.revision - revision <= 11
        assert world.loop.now - began < 3

    simulate(scenario)


def test_a_name_that_somebody_has_keeps_nobody_else_waiting_nor_out():
    async def scenario(world: World) -> None:
        one, two = (SubscriptionDirectory(world.client(), KEYS) for _ in range(2))
        for each in (one, two):
            await each.start()
        await one.claim("b", "x")  # two is not told of it before the store is asked
        assert two.address_of("b") is None
        await asyncio.gather(two.claim("a", "x"), two.claim("b", "y"), two.claim("c", "x"))
        assert {name: two.address_of(name) for name in "abc"} == {"a": "x", "b": "x", "c": "x"}

    simulate(scenario)


def test_a_store_that_gives_no_answer_is_waited_for_once():
    async def scenario(world: World) -> None:
        directory = SubscriptionDirectory(world.client(), KEYS)
        await directory.start()
        world.store.stop()
        began = world.loop.now
        answers = await asyncio.gather(*(directory.claim(f"c{n}", "x") for n in range(500)), return_exceptions=True)
        assert all(isinstance(answer, MetadataUnavailable) for answer in answers)
        assert world.loop.now - began < 5
        world.store.start()
        assert await directory.claim("c1", "x") is None

    simulate(scenario)


def test_who_goes_while_a_name_is_written_harms_nobody():
    async def scenario(world: World) -> None:
        client = world.client()
        client.latency = lambda: 0.1
        directory = SubscriptionDirectory(client, KEYS)
        await directory.start()
        tasks = [asyncio.get_running_loop().create_task(directory.claim(f"c{n}", "x")) for n in range(3)]
        await asyncio.sleep(0.05)
        tasks[1].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert answers[0] is None and answers[2] is None and isinstance(answers[1], asyncio.CancelledError)
        waiting = asyncio.get_running_loop().create_task(directory.claim("late", "x"))
        await asyncio.sleep(0.05)
        await directory.stop()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    simulate(scenario)


def test_what_nobody_expected_leaves_nobody_without_an_answer(monkeypatch):
    """Who waits would have been cancelled, and his session would have waited for ever."""

    async def scenario(world: World) -> None:
        directory = SubscriptionDirectory(world.client(), KEYS)
        await directory.start()

        async def breaks(claims):
            raise ArithmeticError("a bug")

        monkeypatch.setattr(SubscriptionDirectory, "_write", lambda self, claims: breaks(claims))
        monkeypatch.setattr("broker.cluster.tasks.report", lambda error, what: None)
        answers = await asyncio.gather(*[directory.claim(n, "x") for n in "abc"], return_exceptions=True)
        assert [type(answer) for answer in answers] == [ArithmeticError] * 3
        monkeypatch.undo()
        assert await directory.claim("a", "y") is None, "it goes on, and nothing of before is written"

    simulate(scenario)
