"""What the operator knows while a list and the news about the same resources cross each other on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker_operator.kube.kube import KubeError
from broker_operator.process import Operator, Options
from broker_operator.spec.names import BROKER, USER, Id
from broker_operator.world import lists

from tests.harness.waiting import eventually

from .builders import raw

ADA = Id(USER, "shop", "ada")


class Server:
    """lists: kind → what is there. crossing: is told by kopf after a list was made, and before it arrives."""

    def __init__(self) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.crossing: Callable[[], None] = lambda: None

    async def read_list(self, api_version: str, kind: str, namespace: str) -> dict[str, Any]:
        items = list(self.lists.get(kind, []))
        if kind == USER:
            self.crossing()
        return {"items": items}


def known(operator: Operator) -> str | None:
    found = operator.world.resources.get(ADA)
    return found.uid if found is not None else None


async def test_what_went_while_the_list_was_on_its_way_does_not_come_back():
    server, ada = Server(), raw(USER)
    operator = Operator(server, Options())
    server.lists[USER] = [ada]
    await operator.lists.read()
    assert known(operator) == ada["metadata"]["uid"]
    server.crossing = lambda: operator.on_resource("DELETED", ada)
    await operator.lists.read()
    assert known(operator) is None
    again = raw(USER)
    server.lists[USER], server.crossing = [again], lambda: None
    await operator.lists.read()
    assert known(operator) == again["metadata"]["uid"]


async def test_what_was_made_anew_while_the_list_was_on_its_way_stays():
    server, ada, again = Server(), raw(USER), raw(USER)
    operator = Operator(server, Options())
    server.lists[USER] = [ada]
    await operator.lists.read()

    def crossing() -> None:
        operator.on_resource("DELETED", ada)
        operator.on_resource("ADDED", again)

    server.lists[USER], server.crossing = [], crossing
    await operator.lists.read()
    assert known(operator) == again["metadata"]["uid"]


async def test_what_went_while_nobody_told_goes():
    server, ada = Server(), raw(USER)
    operator = Operator(server, Options())
    server.lists = {USER: [ada], BROKER: [raw(BROKER)]}
    await operator.lists.read()
    server.lists[USER] = []
    await operator.lists.read()
    assert set(operator.world.resources) == {Id(BROKER, "shop", "stomp")}


async def test_what_went_before_kopf_had_its_watch_goes_when_it_has_read_its_lists(monkeypatch):
    monkeypatch.setattr(lists, "CALM_S", 0.01)
    server, ada = Server(), raw(USER)
    operator = Operator(server, Options())
    server.lists = {USER: [ada], BROKER: [raw(BROKER)]}
    await operator.lists.read()
    server.lists[USER] = []
    following = asyncio.create_task(operator.lists.follow())
    operator.lists.ask()
    await eventually(lambda: known(operator) is None)
    following.cancel()


async def test_lists_that_could_not_be_read_are_read_again_soon(monkeypatch):
    """And everything is looked at in its turn, which is not taken for done."""
    for name, value in (("EARLY_S", ()), ("RESYNC_S", 0.05), ("RETRY_S", 0.01), ("CALM_S", 0.01)):
        monkeypatch.setattr(lists, name, value)
    server = Server()
    operator = Operator(server, Options())
    server.lists[USER] = [raw(USER)]
    read, tries = server.read_list, 0

    async def busy(*args: str) -> dict[str, Any]:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise KubeError(503, "starting")
        return await read(*args)

    server.read_list = busy  # type: ignore[method-assign]
    looked: list[None] = []
    operator.lists._resynced = lambda: looked.append(None)
    following = asyncio.create_task(operator.lists.follow())
    await eventually(lambda: looked)
    assert known(operator) is not None
    following.cancel()


async def test_one_that_is_made_anew_is_known_whatever_is_told_first(monkeypatch):
    """kopf tells of each in order, but of two of one name in any order. What the first one had is given back."""
    operator, old, late, new = Operator(Server(), Options()), raw(USER), raw(USER), raw(USER)
    late["metadata"]["uid"] = old["metadata"]["uid"]
    operator.on_resource("ADDED", old)
    swept: list[str] = []
    monkeypatch.setattr(operator, "_sweep_of", lambda namespace, broker: swept.append(f"{namespace}/{broker}"))
    operator.on_resource("ADDED", new)
    assert swept == ["shop/stomp"]
    operator.on_resource("MODIFIED", late)
    operator.on_resource("DELETED", late)
    assert known(operator) == new["metadata"]["uid"]
