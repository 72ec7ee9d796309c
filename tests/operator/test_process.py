"""What the operator knows while a list and the news about the same resources cross each other on their way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_operator.names import BROKER, USER, Id
from broker_operator.process import Operator, Options

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
    await operator._read_all()
    assert known(operator) == ada["metadata"]["uid"]
    server.crossing = lambda: operator.on_resource("DELETED", ada)
    await operator._read_all()
    assert known(operator) is None
    again = raw(USER)
    server.lists[USER], server.crossing = [again], lambda: None
    await operator._read_all()
    assert known(operator) == again["metadata"]["uid"]


async def test_what_was_made_anew_while_the_list_was_on_its_way_stays():
    server, ada, again = Server(), raw(USER), raw(USER)
    operator = Operator(server, Options())
    server.lists[USER] = [ada]
    await operator._read_all()

    def crossing() -> None:
        operator.on_resource("DELETED", ada)
        operator.on_resource("ADDED", again)

    server.lists[USER], server.crossing = [], crossing
    await operator._read_all()
    assert known(operator) == again["metadata"]["uid"]


async def test_what_went_while_nobody_told_goes():
    server, ada = Server(), raw(USER)
    operator = Operator(server, Options())
    server.lists = {USER: [ada], BROKER: [raw(BROKER)]}
    await operator._read_all()
    server.lists[USER] = []
    await operator._read_all()
    assert set(operator.world.resources) == {Id(BROKER, "shop", "stomp")}


async def test_nobody_waits_for_what_is_gone():
    operator = Operator(Server(), Options())
    broker = Id(BROKER, "shop", "stomp")
    operator.keyed.pending = {broker: {ADA: 7, Id(USER, "shop", "bob"): 8}}
    operator.keyed.gone(ADA)
    assert operator.keyed.pending == {broker: {Id(USER, "shop", "bob"): 8}}
    operator.keyed.gone(broker)
    assert operator.keyed.pending == {}
