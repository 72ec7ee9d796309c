"""All bridges of a process: what runs is what is wanted."""

from __future__ import annotations

from pathlib import Path

from tests.harness.waiting import eventually as until

from .world import bridged, broker, received, sent, url


async def test_one_that_changes_begins_again_and_the_others_stay(tmp_path: Path):
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        one = {"url": url(there), "source": "/queue/one"}
        bridges = bridged(here, one=one, two={"url": url(there), "source": "/queue/two"})
        await until(lambda: [row["up"] for row in bridges.rows()] == [True, True])
        before = dict(bridges._runners)
        bridged(here, one={**one, "target": "/queue/1"}, two={"url": url(there), "source": "/queue/two"})
        await until(lambda: bridges._runners.get("one") not in (None, before["one"]))
        assert bridges._runners["two"] is before["two"]
        await sent(here, "/queue/one", b"x")
        assert len(await received(there, "/queue/1", 1)) == 1
        bridged(here, one={**one, "enabled": False})
        await until(lambda: not bridges.rows())
        assert list(bridges.metrics()) == []


async def test_nothing_on_a_topic_is_missed_and_who_takes_the_bridge_away_leaves_no_subscription(tmp_path: Path):
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        news = {"url": url(there), "source": "/topic/news", "target": "/queue/news"}
        bridges = bridged(here, news=news)
        await until(lambda: (rows := bridges.rows()) and rows[0]["up"])
        bridged(here, news={**news, "enabled": False})
        await until(lambda: not bridges.rows())
        await sent(here, "/topic/news", b"meanwhile")
        bridged(here, news=news)
        assert [message.body for message in await received(there, "/queue/news", 1)] == [b"meanwhile"]
        assert [sub for engine in here.shard.engines.values() for sub in engine.subscriptions()] != []
        bridges.configure({})
        await until(lambda: not [sub for engine in here.shard.engines.values() for sub in engine.subscriptions()])


async def test_what_another_process_runs_does_not_run_here(tmp_path: Path):
    async with broker(tmp_path / "a") as here, broker(tmp_path / "b") as there:
        mine = {"one"}
        here.bridges.run_if(mine.__contains__)
        bridges = bridged(
            here, one={"url": url(there), "source": "/queue/one"}, two={"url": url(there), "source": "/queue/two"}
        )  # fmt: skip
        await until(lambda: [row["name"] for row in bridges.rows()] == ["one"])
        assert bridges.wanted() == {"one", "two"}
        mine.add("two")
        mine.remove("one")
        bridges.look()
        await until(lambda: [row["name"] for row in bridges.rows()] == ["two"])
