"""Changes come one at a time and go on to their end, whoever has stopped waiting."""

from __future__ import annotations

import asyncio

import pytest

from broker.app.live.uncancelled import Uncancelled


class Work:
    """Of one change: told, and ended when the test lets it."""

    def __init__(self):
        self.log = []
        self.gates = {}

    async def __call__(self, name, fails=False):
        self.log.append(f"{name} begins")
        self.gates[name] = asyncio.Event()
        await self.gates[name].wait()
        self.log.append(f"{name} ends")
        if fails:
            raise ValueError(name)
        return name


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_begins_when_the_one_before_has_ended():
    whole, work = Uncancelled(), Work()
    first, second = (asyncio.ensure_future(whole.run(work(name))) for name in "ab")
    await settled()
    assert work.log == ["a begins"]
    work.gates["a"].set()
    await settled()
    assert work.log == ["a begins", "a ends", "b begins"]
    work.gates["b"].set()
    assert await asyncio.gather(first, second) == ["a", "b"]


async def test_who_does_not_wait_any_more_stops_nothing_and_a_failure_nobody_hears_of_is_logged(caplog):
    whole, work = Uncancelled(), Work()
    first, second = asyncio.ensure_future(whole.run(work("a", fails=True))), asyncio.ensure_future(whole.run(work("b")))
    await settled()
    first.cancel()
    await settled()
    assert first.cancelled() and work.log == ["a begins"], "the next one still waits"
    work.gates["a"].set()
    await settled()
    assert "a change that nobody waited for was not made: a" in caplog.text
    work.gates["b"].set()
    assert await second == "b"


async def test_a_failure_is_told_to_who_waits_and_is_in_nobodys_way():
    whole, work = Uncancelled(), Work()
    failing = asyncio.ensure_future(whole.run(work("a", fails=True)))
    await settled()
    work.gates["a"].set()
    with pytest.raises(ValueError, match="a"):
        await failing
    second = asyncio.ensure_future(whole.run(work("b")))
    await settled()
    work.gates["b"].set()
    assert await second == "b"


def test_the_end_of_the_loop_leaves_nothing_that_was_never_begun():
    """Python would say `was never awaited`, which is an error here."""
    work = Work()

    async def ends():
        whole = Uncancelled()
        _waiting = [asyncio.ensure_future(whole.run(work(name))) for name in "ab"]
        await settled()

    asyncio.run(ends())
    assert work.log == ["a begins"]
