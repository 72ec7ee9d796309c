"""A journal on a disk in memory, what a read of its log asks others, and somebody who reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.core.errors import Code, RefusedError
from broker.core.records import MetaRecord, RunRecord
from broker.journal.journal import Journal
from tests.unit.journal.support import open_journal, put, run_of


def message(address: str, number: int, *bodies: bytes, slot: int = 1, queue: int = 1, **more: Any) -> RunRecord:
    return RunRecord(slot, address, [queue], run_of(number, *bodies, **more))


def queue(number: int, name: str, address: str, slot: int = 1) -> MetaRecord:
    data = {"id": number, "name": name, "address": address, "routing": 1, "durable": True}
    return MetaRecord(slot, "queue", data)


def written(*records: Any, **settings: Any) -> Journal:
    """A journal that has these, each in a commit of its own."""
    journal = open_journal(**settings)
    for record in records:
        put(journal, record)
    return journal


class Reader:
    """mine: addresses (or patterns) that he may read."""

    def __init__(self, *mine: str) -> None:
        self.mine = mine

    def may(self, address: str) -> bool:
        return not self.mine or address in self.mine


class Place:
    """All slots are here, unless `led` names another endpoint for them (slot → endpoint), which `why` may be read."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.led: dict[int, str] = {}
        self.why: dict[int, str | None] = {}
        self.ends: dict[int, int] = {}
        self.names: dict[int, dict[int, tuple[str, str]]] = {}
        self.recording: set[str] = set()
        self.asked: list[str] = []

    def slots_of(self, address: str) -> Iterable[int]:
        return {"a": [1], "b": [2], "c": [3, 4]}.get(address, [9])

    def records_deliveries(self, address: str) -> bool:
        self.asked.append(address)
        return address in self.recording

    def knows(self, address: str) -> bool:
        return address in ("a", "b", "c")

    def elsewhere(self, slot: int) -> str | None:
        return self.led.get(slot)

    def behind(self, slot: int) -> str | None:
        return self.why.get(slot)

    def end(self, slot: int) -> int:
        return self.ends.get(slot, self.journal.history.end(slot))

    def endpoint(self) -> str:
        return "me:1"

    def endpoints(self) -> list[str]:
        return ["me:1", "you:1"]

    def queue(self, slot: int, number: int) -> tuple[str, str] | None:
        return self.names.get(slot, {}).get(number)

    def queue_numbers(self, slot: int) -> list[int]:
        return list(self.names.get(slot, {}))


class Live:
    """Queues that live, by slot and number."""

    def __init__(self, queues: dict[int, dict[int, tuple[str, str]]]) -> None:
        self.queues = queues
        self.asked = 0

    def queue(self, slot: int, number: int) -> tuple[str, str] | None:
        self.asked += 1
        return self.queues.get(slot, {}).get(number)

    def queue_numbers(self, slot: int) -> list[int]:
        return list(self.queues.get(slot, {}))


class Clock:
    """Stands still: nobody else seems to use the loop."""

    def wall_ms(self) -> int:
        return 1234

    def monotonic(self) -> float:
        return 5.0


async def refusal(call: Callable[[], Any]) -> tuple[Code, str]:
    """Code and text with which the first answer of a call is refused."""
    try:
        found = call()
        if hasattr(found, "__anext__"):
            found = anext(found)
        await found
    except RefusedError as refused:
        return refused.code, str(refused)
    raise AssertionError("it was not refused")
