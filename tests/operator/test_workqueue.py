"""The work queue: nothing is forgotten, nothing is done twice at once, and no wish holds back a more urgent one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from broker_operator.kube import workqueue
from broker_operator.kube.workqueue import WorkQueue
from broker_operator.spec.names import ADDRESS, USER, Id

from tests.harness.waiting import eventually

ADA, BOB = Id(USER, "shop", "ada"), Id(USER, "shop", "bob")
LONG_S = 3600.0


class Work:
    """answers: what comes of each call in turn, then None; an error is raised. gate: calls wait for it."""

    def __init__(self, *answers: float | BaseException | None) -> None:
        self.answers = list(answers)
        self.begun: list[Id] = []
        self.running: set[Id] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, id: Id) -> float | None:
        assert id not in self.running, "twice at the same time"
        self.running.add(id)
        self.begun.append(id)
        await self.gate.wait()
        self.running.discard(id)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer


@asynccontextmanager
async def queue(work: Work, workers: int = 4) -> AsyncIterator[WorkQueue]:
    found = WorkQueue(work, workers)
    found.start()
    try:
        yield found
    finally:
        work.gate.set()
        await found.stop()


async def test_what_is_added_while_it_is_worked_on_is_worked_on_once_more():
    work = Work()
    async with queue(work) as found:
        work.gate.clear()
        found.add(ADA)
        await eventually(lambda: work.running)
        for _ in range(3):
            found.add(ADA)
        assert found.depth == 1
        work.gate.set()
        await eventually(lambda: not found.depth and not work.running)
        assert work.begun == [ADA, ADA]


async def test_a_change_waits_for_no_retry(monkeypatch):
    monkeypatch.setattr(workqueue, "FIRST_RETRY_S", LONG_S)
    monkeypatch.setattr(workqueue, "LAST_RETRY_S", LONG_S)
    work = Work(ValueError("no"))
    async with queue(work) as found:
        found.add(ADA)
        await eventually(lambda: found.done.get((USER, "error")))
        found.add(ADA)
        await eventually(lambda: found.done.get((USER, "ok")))
        assert work.begun == [ADA, ADA]


async def test_the_earliest_of_several_wishes_counts_and_the_work_says_the_next():
    work = Work(LONG_S, LONG_S)
    async with queue(work) as found:
        found.add(ADA)
        await eventually(lambda: found.done.get((USER, "ok")) == 1)
        found.add(ADA, 0.01)
        found.add(ADA, LONG_S)
        await eventually(lambda: found.done.get((USER, "ok")) == 2)
        assert found._timers[ADA].when() > asyncio.get_running_loop().time() + LONG_S / 2


async def test_a_wish_for_later_that_comes_while_it_is_worked_on_is_kept():
    work = Work(LONG_S)
    async with queue(work) as found:
        work.gate.clear()
        found.add(ADA)
        await eventually(lambda: work.running)
        found.add(ADA, 0.01)
        work.gate.set()
        await eventually(lambda: len(work.begun) == 2)


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
async def test_no_error_ends_a_worker(error, monkeypatch):
    """A connection that is given up under a call may say so by a cancellation, which is none of ours."""
    monkeypatch.setattr(workqueue, "FIRST_RETRY_S", LONG_S)
    monkeypatch.setattr(workqueue, "LAST_RETRY_S", LONG_S)
    work = Work(error)
    async with queue(work, workers=1) as found:
        found.add(ADA)
        found.add(BOB)
        await eventually(lambda: found.done.get((USER, "ok")))
        assert work.begun == [ADA, BOB] and found.done[USER, "error"] == 1


async def test_work_that_waits_for_nothing_lets_others_have_their_turn():
    """10,000 Addresses that are as wanted were one step of the loop, and the lease was lost meanwhile."""

    async def work(id: Id) -> float | None:
        done.append(id)
        return None

    done: list[Id] = []
    turns = 0
    found = WorkQueue(work, 4)
    for number in range(200):
        found.add(Id(ADDRESS, "shop", f"a{number}"))
    found.start()
    while len(done) < 200:
        turns += 1
        await asyncio.sleep(0)
    await found.stop()
    assert turns >= 20
