"""What owners keep for quotas: asked of all, summed, told to all processes; nobody is asked in vain."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from broker.admin.api.ports import Missing
from broker.admin.management import kept_quotas
from broker.admin.management.kept_quotas import KeptQuotas
from broker.seams.clock import SystemClock


class Owners:
    """Two of them."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.missing: list[Missing] = []

    async def ask(self, question: Any) -> tuple[list[Any], list[Missing]]:
        self.asked.append(question)
        answers = [{"kept": {"host:/": [1, 0, 5, 5]}}, {"kept": {"host:/": [2, 1, 5, 0], "user:ada": [0, 1, 0, 0]}}]
        return answers[len(self.missing) :], self.missing


class Counting:
    def __init__(self, *users: str) -> None:
        self.users = users
        self.asks_owners = True
        self.told: Any = None
        self.full_makers: set[str] = set()
        self.heard = asyncio.Event()

    def counted_users(self) -> Any:
        return self.users

    def keeps(self, kept: Any) -> Any:
        self.told = kept
        self.heard.set()
        return iter(())


class Apart(Counting):
    async def counted_users(self) -> Any:  # type: ignore[override]
        return self.users


def made(owners: Owners, counting: Counting, apart: Apart | None = None) -> KeptQuotas:
    return KeptQuotas(owners, counting, SystemClock(), lambda user: [user, f"app-{user}"], apart)


SUM = {"host:/": [3, 1, 10, 5], "user:ada": [0, 1, 0, 0]}


async def test_the_sum_of_all_owners_is_told_to_all_processes():
    owners, counting, apart = Owners(), Counting("ada"), Apart("bob", "ada")
    await made(owners, counting, apart).look()
    assert counting.told == apart.told == SUM
    assert owners.asked[0]["fronts"] == {"ada": "ada", "app-ada": "ada", "bob": "bob", "app-bob": "bob"}


async def test_an_answer_that_is_not_whole_changes_nothing(caplog: pytest.LogCaptureFixture):
    owners, counting = Owners(), Counting("ada")
    look = made(owners, counting).look
    owners.missing = [Missing("owner-1", "it has not answered")]
    for _ in range(3):
        await look()
    assert counting.told is None and caplog.text.count("owner-1 did not say") == 1, "once, not once a second"
    owners.missing = []
    await look()
    assert counting.told == SUM
    owners.missing = [Missing("owner-1", "it has not answered")]
    await look()
    assert caplog.text.count("owner-1 did not say") == 2


async def test_more_users_than_fit_are_told_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(kept_quotas, "MOST_USERS", 1)
    owners = Owners()
    look = made(owners, Counting("bob", "ada")).look
    for _ in range(2):
        await look()
    assert set(owners.asked[0]["fronts"].values()) == {"ada"} and caplog.text.count("it holds for 1") == 1


async def test_owners_are_told_whose_queues_are_full_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    owners, counting = Owners(), Counting("ada")
    look = made(owners, counting).look
    await look()
    counting.full_makers = {"bob", "ada", "eve"}
    monkeypatch.setattr(kept_quotas, "MOST_FULL", 2)
    for _ in range(2):
        await look()
    assert owners.asked[-1]["holds"] == 4.0, "it ends when nobody asks any more"
    assert owners.asked[-1]["full"] == ["ada", "bob"], "the same ones from each edge"
    assert caplog.text.count("the queues of 3 users") == 1
    counting.full_makers = set()
    await look()
    assert owners.asked[-1]["full"] == []


async def test_who_has_never_had_a_whole_answer_says_nothing_of_who_is_full():
    """An edge that began told all owners that nobody was, and again each second while one of them was away."""
    owners, counting = Owners(), Counting("ada")
    look = made(owners, counting).look
    owners.missing = [Missing("owner-1", "it has not answered")]
    for _ in range(2):
        await look()
    owners.missing = []
    await look()
    assert all("full" not in asked and "holds" not in asked for asked in owners.asked)
    owners.missing = [Missing("owner-1", "it has not answered")]
    for _ in range(2):
        await look()
    assert [asked["full"] for asked in owners.asked[3:]] == [[], []], "what was known before counts on"


async def test_makers_that_no_answer_has_a_row_for_are_told_of(caplog: pytest.LogCaptureFixture):
    class Crowded(Owners):
        async def ask(self, question: Any) -> tuple[list[Any], list[Missing]]:
            return [{"kept": {}, "untold": 7}], []

    look = made(Crowded(), Counting()).look
    for _ in range(2):
        await look()
    assert caplog.text.count("does not count what 7 users have made") == 1


async def test_nobody_is_asked_without_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept_quotas, "LOOK_S", 0.01)
    monkeypatch.setattr(logging.getLogger("stampede.admin"), "disabled", True)
    owners, counting = Owners(), Counting()
    counting.asks_owners = False
    kept = made(owners, counting)
    kept.start()
    await asyncio.sleep(0.05)
    assert not owners.asked
    counting.asks_owners = True
    async with asyncio.timeout(30):
        await counting.heard.wait()
    kept.stop()
