"""Names of queues for wildcards: asked of all owners page by page, of the host's own, whatever one owner lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from broker.admin.api.ports import Missing
from broker.admin.management import queue_names
from broker.admin.management.queue_names import KnownQueues
from broker.core.errors import Code, RefusedError


class Owners:
    """Two of them; one that fails is missing."""

    def __init__(self, *queues: tuple[str, str]) -> None:
        self.queues = sorted(queues)
        self.asked: list[dict[str, Any]] = []

    async def ask(self, question: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        self.asked.append(question)
        answers = []
        for odd in (0, 1):
            rows = [row for at, row in enumerate(self.queues) if at % 2 == odd]
            if question["after"]:
                rows = [row for row in rows if [row[0], list(row)] > question["after"]]
            most = question["limit"]
            told = [{"name": name, "address": address, "at": [name, [name, address]]} for name, address in rows[:most]]
            answers.append({"rows": told, "more": len(rows) > most})
        return answers, ["an owner"]


async def found(owners: Owners, *patterns: str, most: int = 100) -> Mapping[str, Sequence[str]]:
    told: asyncio.Future[Mapping[str, Sequence[str]]] = asyncio.get_running_loop().create_future()
    KnownQueues(owners, ".").find(patterns, most, told.set_result)  # type: ignore[arg-type]
    return await told


async def test_all_pages_of_all_owners(monkeypatch):
    monkeypatch.setattr(queue_names, "ROWS", 3)
    owners = Owners(*[(f"a.{n:02}", f"a.{n:02}") for n in range(20)], ("b", "b"))
    assert await found(owners, "a.#", "b") == {"a.#": [f"a.{n:02}" for n in range(20)], "b": ["b"]}
    assert await found(owners, "a.#", most=5) == {"a.#": [f"a.{n:02}" for n in range(5)]}


async def test_queues_of_a_host_of_subscribers_and_our_own_are_not_among_them():
    owners = Owners(("a", "a"), ("$host/shop.a", "$host/shop.a"), ("$scheduled.a", "$scheduled.a"), ("s", "a"))
    assert await found(owners, "#", "$host/shop.#") == {"#": ["a"], "$host/shop.#": ["$host/shop.a"]}


async def test_all_patterns_are_asked_for_together_and_who_has_enough_no_more(monkeypatch):
    """One after the other they took 50 s, for 200 patterns and 100,000 queues."""
    monkeypatch.setattr(queue_names, "ROWS", 3)
    owners = Owners(*[(f"a.{n:02}", f"a.{n:02}") for n in range(20)], ("z", "z"))
    patterns = [f"a.0{n}" for n in range(8)] + ["#", "z"]
    told = await found(owners, *patterns, most=4)
    assert told["a.03"] == ["a.03"] and told["z"] == ["z"] and told["#"] == [f"a.0{n}" for n in range(4)]
    assert owners.asked[0]["patterns"] == patterns and "#" not in owners.asked[-1]["patterns"]
    assert len(owners.asked) == 4


async def test_whatever_fails_the_edge_is_told_something():
    assert await found(None, "a") == {"a": []}  # type: ignore[arg-type]


class Ends:
    """Owners that know where queues end."""

    def __init__(self, ends: list[int], missing: list[Any]) -> None:
        self.ends, self.missing = ends, missing

    async def ask(self, question: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Any]]:
        if self.ends == [-1]:
            raise RuntimeError
        return [{"rows": [{"last_message": end}]} for end in self.ends], self.missing


@pytest.mark.parametrize(
    ("ends", "missing", "told"),
    [
        ([7], [], [7, None]), ([7], [Missing("b", "is away")], [7, None]), ([], [], [0, None]),
        ([], [Missing("b", "is away")], [Code.OWNER_UNAVAILABLE]), ([-1], [], [Code.OWNER_UNAVAILABLE]),
    ],
)  # fmt: skip
async def test_where_a_stream_ends_is_asked_of_all_owners(ends, missing, told):
    heard: list[Any] = []
    over = asyncio.Event()

    def done(answer: RefusedError | None) -> None:
        heard.append(answer and answer.code)
        over.set()

    KnownQueues(Ends(ends, missing), ".").find_end("a", heard.append, done)  # type: ignore[arg-type]
    await over.wait()
    assert heard == told
