"""What is kept of the log for archives: never so much that the disk is full, and loudly when a mark goes."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from broker.admin.log.log_keeping import LONGEST_NAME, MOST_ARCHIVES, LogRetention
from broker.core.errors import Code, RefusedError


class Journal:
    """Marks of archives, and a byte of log kept for each offset before the end."""

    END = 100

    def __init__(self) -> None:
        self.names: dict[str, dict[int, int]] = {}
        self.saved: list[dict[str, dict[int, int]]] = []
        self.full = False
        self.marks = self.history = self

    def advanced(self, name: str, offsets: dict[int, int]) -> dict[str, dict[int, int]]:
        return {**self.names, name: offsets}

    def without(self, name: str) -> dict[str, dict[int, int]]:
        return {other: marks for other, marks in self.names.items() if other != name}

    def save(self, table: dict[str, dict[int, int]]) -> None:
        self.saved.append(table)

    def adopt(self, table: dict[str, dict[int, int]]) -> None:
        assert self.saved[-1] == table, "on the disk before it counts"
        self.names = table

    def lowest(self) -> dict[int, int] | None:
        slots = {slot for marks in self.names.values() for slot in marks}
        return {s: min(marks[s] for marks in self.names.values() if s in marks) for s in slots} if slots else None

    def keep(self, marks: dict[int, int] | None) -> int:
        return sum(self.END - at for at in (marks or {}).values())


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def retention(journal: Journal, pool: Any, limit: int = 1000) -> LogRetention:
    return LogRetention(journal, limit, pool)  # type: ignore[arg-type]


async def test_a_mark_is_saved_before_it_counts_and_says_what_is_kept(journal, pool):
    kept = retention(journal, pool)
    await kept.advance("nightly", {1: 30})
    assert journal.names == {"nightly": {1: 30}} and kept.kept == 70
    await kept.advance("weekly", {1: 10})
    assert kept.kept == 90
    await kept.forget("weekly")
    assert kept.kept == 70 and [m.name for m in kept.metrics()] == [
        "stomp_log_kept_bytes", "stomp_log_marks_lost_total",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", "a" * (LONGEST_NAME + 1), "a\nb"])
async def test_names_that_could_not_be_shown_are_refused(journal, pool, name):
    with pytest.raises(RefusedError, match="printable"):
        await retention(journal, pool).advance(name, {})
    await retention(journal, pool).advance("a" * LONGEST_NAME, {})


async def test_there_are_only_so_many_archives_and_those_that_are_there_go_on(journal, pool):
    kept = retention(journal, pool)
    for n in range(MOST_ARCHIVES):
        await kept.advance(str(n), {1: 1})
    with pytest.raises(RefusedError) as refused:
        await kept.advance("one more", {1: 1})
    assert refused.value.code is Code.READER_LIMIT
    await kept.advance("3", {1: 2})


@pytest.mark.parametrize("full", [False, True])
async def test_who_is_furthest_behind_loses_its_mark_when_too_much_is_kept(journal, pool, caplog, full):
    kept = retention(journal, pool, 50 if not full else 1000)
    await kept.advance("slow", {1: 10})
    await kept.advance("quick", {1: 80})
    journal.full = full
    kept._look()
    assert kept._task is not None
    await kept._task
    assert list(journal.names) == ["quick"] and "archive 'slow' has lost its mark" in caplog.text
    assert ("nearly full" in caplog.text) is full
    kept._look()
    kept.stop()


async def test_within_the_bound_nothing_goes_and_nor_does_who_needs_nothing(journal, pool):
    kept = retention(journal, pool, 90)
    kept._look()
    await kept.advance("exactly", {1: 10})
    kept._look()
    assert kept._task is None
    await kept.forget("exactly")
    await kept.advance("ready", {1: 100})
    journal.full = True
    kept._look()
    await asyncio.gather(kept._task)
    assert list(journal.names) == ["ready"]
    kept.stop()


async def test_marks_of_the_last_run_count_from_the_first_moment(journal, pool):
    journal.names = {"nightly": {1: 30}}
    kept = retention(journal, pool)
    kept.begin()
    assert kept.kept == 70
    kept.stop()
