"""Rounds: who is asked for what, and whose status is written, at which pace."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from broker_operator.spec.names import ADDRESS, BROKER, Id
from broker_operator.world import status_rounds
from broker_operator.world.address_traffic import Busy, Traffic
from broker_operator.world.owner_depths import NoAnswer
from broker_operator.world.resource_cache import ResourceCache
from broker_operator.world.status_rounds import Rounds

from broker.seams.clock import SystemClock
from tests.harness.waiting import eventually

from .builders import raw

ACCEPTED = {"conditions": [{"type": "Accepted", "status": "True"}]}


class Asked:
    """Owners that say this."""

    def __init__(self) -> None:
        self.busy: dict[str, Busy] | None = {"q": Busy(depth=7)}
        self.names: set[str] = set()

    async def ask(self, cluster: Any, names: Any, token: str = "") -> dict[str, Busy]:
        self.names = set(names)
        if self.busy is None:
            raise NoAnswer("o-1")
        return self.busy

    async def close(self) -> None:
        pass


@pytest.fixture
def site(monkeypatch) -> tuple[Rounds, Asked, list[Id], Traffic]:
    monkeypatch.setattr(status_rounds, "ROUND_S", 0.1)
    monkeypatch.setattr(status_rounds, "RATE", 100.0)
    world, traffic, looked = ResourceCache(lambda id: None), Traffic(), []
    world.put(raw(BROKER))
    for name, spec in (("q", {"name": "q"}), ("p", {"name": "", "match": "x.#"}), ("f", {"name": "q::c"})):
        world.put({**raw(ADDRESS, name, **spec), "status": ACCEPTED})
    world.put(raw(ADDRESS, "refused", name="refused"))
    world.clusters[Id(BROKER, "shop", "stomp")] = SimpleNamespace(known=True)  # type: ignore[assignment]
    found, asked = Rounds(world, traffic, looked.append, SystemClock()), Asked()
    found._owners = asked  # type: ignore[assignment]
    return found, asked, looked, traffic


async def test_addresses_that_are_in_use_by_name_are_asked_for_and_written_when_they_have_news(site):
    found, asked, looked, traffic = site
    task = asyncio.create_task(found.follow())
    await eventually(lambda: looked == [Id(ADDRESS, "shop", "q")])
    assert asked.names == {"q"}
    assert traffic.fields(looked[0], {})["depth"] == 7
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_while_an_owner_gives_no_answer_the_numbers_stay(site):
    found, asked, looked, traffic = site
    await found.round()
    asked.busy = None
    await found.round()
    traffic.let(Id(ADDRESS, "shop", "q"), {}, 0.0, "")
    assert traffic.fields(Id(ADDRESS, "shop", "q"), {})["depth"] == 7 and looked == []


async def test_an_owner_that_says_nothing_holds_up_no_status_of_others(site):
    found, asked, looked, _ = site
    ask = asked.ask

    async def slowly(cluster: Any, names: Any, token: str = "") -> dict[str, Busy]:
        await asyncio.sleep(2 * status_rounds.ROUND_S)
        return await ask(cluster, names, token)

    asked.ask = slowly
    task = asyncio.create_task(found.follow())
    await eventually(lambda: looked == [Id(ADDRESS, "shop", "q")])
    task.cancel()
