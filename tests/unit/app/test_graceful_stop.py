"""Whoever is there may finish, and is cut off when the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.app.process.graceful_stop import drained


class Edge:
    def __init__(self, leaves: bool) -> None:
        self.leaves, self.calls = leaves, list[str]()

    def drain(self, done: Callable[[], None]) -> None:
        self.calls.append("drain")
        if self.leaves:
            asyncio.get_running_loop().call_soon(done)

    def cut_off(self, done: Callable[[], None]) -> None:
        self.calls.append("cut off")
        asyncio.get_running_loop().call_soon(done)


async def test_who_finishes_is_not_cut_off() -> None:
    edge = Edge(leaves=True)
    await drained(edge, 60)
    assert edge.calls == ["drain"]


async def test_who_does_not_is_when_the_time_is_over() -> None:
    edge = Edge(leaves=False)
    began = asyncio.get_running_loop().time()
    await drained(edge, 0.05)
    assert edge.calls == ["drain", "cut off"] and asyncio.get_running_loop().time() - began >= 0.05
