"""A local copy of the API server's objects goes on following, whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker_operator.kube import informer
from broker_operator.kube.informer import Informer
from broker_operator.kube.kube import KubeError
from broker_operator.spec.names import API_VERSION, USER, Id

from tests.harness.waiting import eventually

from .builders import raw

ADA = Id(USER, "shop", "ada")


class Server:
    """held: what a list has. events: what each watch in turn tells, an error ends it; then nothing happens any more."""

    def __init__(self, *events: list[Any]) -> None:
        self.held: list[dict[str, Any]] = []
        self.events = list(events)
        self.lists = 0

    async def read_list(self, *_: str, meta: bool) -> dict[str, Any]:
        self.lists += 1
        return {"items": list(self.held), "metadata": {"resourceVersion": str(self.lists)}}

    async def watch(self, *_: str, meta: bool) -> AsyncIterator[dict[str, Any]]:
        for event in self.events.pop(0) if self.events else ():
            if isinstance(event, Exception):
                raise event
            yield event
        if not self.events:
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    "error", [KubeError(410, "too old"), ValueError("half a line"), {"type": "ADDED", "object": {}}]
)
async def test_whatever_ends_a_watch_the_list_is_read_again(error, monkeypatch):
    monkeypatch.setattr(informer, "RETRY_S", 0.01)
    server = Server([error], [])
    told: list[Id] = []
    found = Informer(server, API_VERSION, USER, "shop", "", lambda id, _: told.append(id))
    await found.start()
    server.held = [raw(USER)]
    await eventually(lambda: told == [ADA])
    await found.stop()


async def test_an_event_that_cannot_be_taken_is_not_the_last_one():
    server = Server([{"type": "ADDED", "object": raw(USER, name)} for name in ("ada", "bob")])
    told: list[str] = []

    def changed(id: Id, _: dict[str, Any]) -> None:
        told.append(id.name)
        if id == ADA:
            raise ValueError("what is this?")

    found = Informer(server, API_VERSION, USER, "shop", "", changed)
    await found.start()
    await eventually(lambda: told == ["ada", "bob"])
    assert server.lists == 1
    await found.stop()
