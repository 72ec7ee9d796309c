"""What the operator knows while a list and the news about the same resources cross each other on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from broker_operator import process
from broker_operator.kube.workqueue import WorkQueue
from broker_operator.process import Operator, Options
from broker_operator.spec.names import BROKER, USER, Id

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


async def test_an_operator_that_ends_does_no_more_work(monkeypatch):
    """It may have lost its lease, and kopf takes its time to end."""
    monkeypatch.setattr(process, "KOPF_END_S", 0.1)
    operator, at_work = Operator(Server(), Options()), asyncio.Event()
    worked: list[Id] = []

    async def work(id: Id) -> None:
        worked.append(id)
        at_work.set()
        await asyncio.sleep(0)

    operator.queue = WorkQueue(work)
    operator.queue.start()
    operator._kopf = asyncio.create_task(asyncio.Event().wait())
    operator.queue.add(ADA)
    await at_work.wait()
    ending = asyncio.create_task(operator.stop())
    await asyncio.sleep(0)
    before = len(worked)
    while not ending.done():
        operator.queue.add(ADA)
        await asyncio.sleep(0.001)
    assert len(worked) == before


async def test_nobody_waits_for_what_is_gone():

    operator = Operator(Server(), Options())
    broker = Id(BROKER, "shop", "stomp")
    operator.keyed.pending = {broker: {ADA: 7, Id(USER, "shop", "bob"): 8}}
    operator.keyed.gone(ADA)
    assert operator.keyed.pending == {broker: {Id(USER, "shop", "bob"): 8}}
    operator.keyed.gone(broker)
    assert operator.keyed.pending == {}
