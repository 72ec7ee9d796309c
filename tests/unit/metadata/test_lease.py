"""A kept lease: it ends here before it can end in the store, and only an answer in time prolongs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.metadata import lease as module
from broker.metadata.lease import RENEWALS, RETRIES, KeptLease
from broker.metadata.port import RAN_OUT, MetadataRefused, MetadataUnavailable

TTL_S = 9.0


class Store:
    """A clock that moves only while the lease sleeps or asks, and a store that answers as it is told.

    answers   what each renewal gives: a new time to live, or an error; the last one again and again.
    slow_s    so long an answer takes."""

    def __init__(self, *answers: float | Exception) -> None:
        self.now = 100.0
        self.answers = list(answers)
        self.slow_s = 0.0
        self.asked: list[float] = []
        self.ended: list[int] = []
        self.made: KeptLease | None = None
        self.left: list[float] = []
        """What the lease had left whenever it began to wait."""

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        raise AssertionError("a wall clock may jump")

    async def sleep(self, seconds: float) -> None:
        assert self.made is not None
        self.left.append(self.made.remaining)
        self.now += seconds
        await real_sleep(0)

    async def renew(self, id: int) -> float:
        assert id == 7
        self.asked.append(self.now)
        self.now += self.slow_s
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def end(self, id: int) -> None:
        self.ended.append(id)

    def lease(self, ttl_s: float = TTL_S, asked_at: float = 100.0) -> KeptLease:
        self.made = KeptLease(7, ttl_s, asked_at, self, self.renew, self.end)
        return self.made


real_sleep = asyncio.sleep


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Store]:
    def make(*answers: float | Exception) -> Store:
        store = Store(*answers)
        monkeypatch.setattr(module.asyncio, "sleep", store.sleep)
        return store

    return make


async def within(waiting: Awaitable[str]) -> str:
    async with asyncio.timeout(5):
        return await waiting


async def test_it_is_renewed_several_times_within_its_life_and_counts_from_the_question(made):
    store = made(TTL_S, 3.0, 0.0)
    store.slow_s = 0.5
    lease = store.lease()
    assert lease.remaining == TTL_S
    assert await within(lease.lost()) == "the metadata store has ended it"
    first, second, third = store.asked
    assert store.left == [TTL_S, TTL_S - 0.5, 3.0 - 0.5], "the store counts from its answer, which was later"
    assert first == 100.0 + TTL_S / RENEWALS
    assert second == pytest.approx(first + 0.5 + TTL_S / RENEWALS)
    assert third == pytest.approx(second + 0.5 + 3.0 / RENEWALS), "the new time to live is what it goes by now"
    assert lease.remaining == 0.0


async def test_what_is_granted_counts_from_when_it_was_asked_for(made):
    store = made(TTL_S)
    lease = store.lease(asked_at=96.0)
    assert lease.remaining == TTL_S - 4.0
    lease.stop("enough")


@pytest.mark.parametrize("error", [MetadataUnavailable("gone"), MetadataRefused("no"), TimeoutError()])
async def test_without_an_answer_it_is_asked_for_often_and_runs_out_by_our_clock(made, error):
    store = made(error)
    lease = store.lease()
    assert await within(lease.lost()) == RAN_OUT
    assert store.now == pytest.approx(100.0 + TTL_S), "not a moment later"
    pauses = [after - before for before, after in zip(store.asked, store.asked[1:], strict=False)]
    assert pauses and max(pauses) == pytest.approx(TTL_S / RETRIES)
    assert len(store.asked) == pytest.approx(RETRIES * (1 - 1 / RENEWALS), abs=1.5)


async def test_two_of_three_renewals_may_be_lost(made):
    store = made(MetadataUnavailable("a"), MetadataUnavailable("b"), TTL_S, 0.0)
    lease = store.lease()
    assert await within(lease.lost()) == "the metadata store has ended it"
    assert len(store.asked) == 4


async def test_a_lease_that_has_run_out_is_not_asked_for_any_more(made):
    store = made(TTL_S)
    lease = store.lease(asked_at=100.0 - TTL_S)
    assert await within(lease.lost()) == RAN_OUT and store.asked == []


async def test_stopping_it_calls_it_lost_and_leaves_it_in_the_store(made):
    store = made(TTL_S)
    lease = store.lease()
    lease.stop("leaving")
    lease.stop("again")
    assert await within(lease.lost()) == "leaving" and lease.remaining == 0.0
    await real_sleep(0)
    assert store.ended == [] and lease._task.cancelled()


async def test_giving_it_back_ends_it_in_the_store_too(made):
    store = made(TTL_S)
    lease = store.lease()
    await lease.revoke()
    assert await within(lease.lost()) == "given back" and store.ended == [7]


async def test_who_stops_waiting_for_its_end_ends_nothing(made):
    store = made(TTL_S)
    lease = store.lease()
    waiting = asyncio.create_task(lease.lost())
    await real_sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert lease.remaining > 0
    lease.stop("end")
    assert await within(lease.lost()) == "end"


async def test_a_fault_of_ours_is_the_end_of_it_and_says_so(made):
    store = made(ValueError("a bug"))
    lease = store.lease()
    assert await within(lease.lost()) == "internal error: ValueError('a bug')"
    with pytest.raises(ValueError, match="a bug"):
        await lease._task
