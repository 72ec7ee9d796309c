"""Background tasks of one object: they end together, and none fails in silence."""

from __future__ import annotations

import asyncio

import pytest

from broker.cluster.tasks import Tasks, heed, shielded


@pytest.fixture
async def reported():
    """(message, error) of what the loop's exception handler was told."""
    told: list[tuple[str, BaseException]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: told.append((context["message"], context["exception"])))
    yield told
    loop.set_exception_handler(None)


async def fails() -> None:
    raise ValueError("no")


async def test_an_error_is_reported_with_the_name_of_the_task_and_ends_no_other(reported):
    tasks, woken = Tasks(), asyncio.Event()
    tasks.spawn(fails(), "the first")
    tasks.spawn(asyncio.sleep(3600), "the second")
    tasks.spawn(asyncio.sleep(0, woken.set()), "the third")
    await asyncio.sleep(0.01)
    assert [(message, str(error)) for message, error in reported] == [("unexpected error in the first", "no")]
    assert woken.is_set() and [task.get_name() for task in tasks._tasks] == ["the second"]
    await tasks.close()


async def test_close_waits_until_all_have_ended_and_reports_no_cancellation(reported):
    tasks, ended = Tasks(), []

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            ended.append(1)

    for _ in range(2):
        tasks.spawn(slow_to_end(), "slow")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == [1, 1] and not reported and not tasks._tasks


async def test_a_task_may_close_the_tasks_it_is_one_of(reported):
    tasks, went_on = Tasks(), []

    async def closes() -> None:
        await tasks.close()
        went_on.append(1)

    tasks.spawn(closes(), "closing")
    other = asyncio.create_task(asyncio.sleep(0.02))
    await other
    assert went_on == [1] and not reported


async def test_a_listener_that_fails_does_not_reach_who_tells(reported):
    def bad(what: str) -> None:
        raise ValueError(what)

    shielded(bad, "it")
    ((message, error),) = reported
    assert "bad" in message and str(error) == "it"


async def test_a_cancellation_that_a_library_swallowed_is_raised_behind_it():
    """Its task would go on for ever."""
    heed()  # nobody cancelled us

    async def swallowing() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass  # as asyncio.wait_for of Python 3.11 does when its answer comes at the same moment
        heed()
        return "went on"

    task = asyncio.create_task(swallowing())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
