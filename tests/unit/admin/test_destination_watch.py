"""Addresses that come and go: the difference of two whole looks, told by one edge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.admin.management import destination_watch
from broker.admin.management.destination_watch import DestinationWatch
from broker.core.notices import Notice, NoticeKind
from broker.seams.clock import SystemClock

ADDED, REMOVED = NoticeKind.ADDRESS_ADDED, NoticeKind.ADDRESS_REMOVED


class Owners:
    """Addresses by name: which are topics."""

    def __init__(self, **addresses: bool) -> None:
        self.addresses = addresses
        self.missing: list[str] = []
        self.asked = 0

    async def ask(self, question: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
        self.asked += 1
        rows = [
            {"name": name, "routing": ["MULTICAST"] if topic else ["ANYCAST"], "at": [name, [name, 1]]}
            for name, topic in sorted(self.addresses.items())
            if not question["after"] or [name, [name, 1]] > question["after"]
        ]
        most = question["limit"]
        return [{"rows": rows[:most], "more": len(rows) > most}], self.missing


def watched(owners: Owners, asks: list[bool]) -> tuple[DestinationWatch, list[tuple[NoticeKind, str, bool]]]:
    told: list[tuple[NoticeKind, str, bool]] = []

    def take(notices: Notice | Iterator[Notice]) -> None:
        assert not isinstance(notices, Notice)
        told.extend((each.kind, each.address, each.topic) for each in notices)

    return DestinationWatch(owners, SystemClock(), ".", take, lambda: asks[0]), told  # type: ignore[arg-type]


async def test_what_comes_and_goes_is_told_and_what_there_was_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination_watch, "ROWS", 2)
    owners = Owners(a=False, b=True, c=False)
    watch, told = watched(owners, [True])
    await watch.look()
    assert told == [] and owners.asked == 2
    del owners.addresses["a"]
    owners.addresses |= {"d": True, "$temp.1": True, "ActiveMQ.Advisory.Queue": True}
    await watch.look()
    assert told == [(REMOVED, "a", False), (ADDED, "d", True)]


async def test_an_answer_that_is_not_whole_says_nothing() -> None:
    owners = Owners(a=False, b=False)
    watch, told = watched(owners, [True])
    await watch.look()
    owners.missing, owners.addresses = ["an owner"], {"a": False}
    await watch.look()
    owners.missing, owners.addresses = [], {"a": False, "b": False, "c": False}
    await watch.look()
    assert told == [(ADDED, "c", False)]


async def test_one_edge_looks_and_who_takes_over_begins_anew() -> None:
    owners, asks = Owners(a=False), [False]
    watch, told = watched(owners, asks)
    await watch.look()
    assert not owners.asked
    asks[0] = True
    await watch.look()
    owners.addresses["b"] = False
    asks[0] = False
    await watch.look()
    asks[0] = True
    await watch.look()
    assert told == []


async def test_more_than_can_be_known_are_not_told_of(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(destination_watch, "MOST", 1)
    monkeypatch.setattr(destination_watch, "ROWS", 1)
    owners = Owners(a=False, b=False, c=False)
    watch, told = watched(owners, [True])
    await watch.look()
    await watch.look()
    assert told == [] and caplog.text.count("more than 1 addresses") == 1


async def test_a_host_is_told_of_its_own() -> None:
    owners = Owners()
    hosts = []

    def take(notices: Any) -> None:
        hosts.extend((each.host.name, each.address) for each in notices)

    watch = DestinationWatch(owners, SystemClock(), ".", take, lambda: True)  # type: ignore[arg-type]
    await watch.look()
    owners.addresses["$host/shop.a"] = False
    await watch.look()
    assert hosts == [("shop", "$host/shop.a")]
