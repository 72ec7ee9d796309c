"""One operator at a time, also while the API server is slow: who cannot renew in time is not the operator any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_operator import cli
from broker_operator.kube import lease
from broker_operator.kube.kube import KubeError
from broker_operator.kube.lease import Lease, LeaseLost

from broker.seams.clock import SystemClock

Table = dict[str, Any]


class Server:
    """Holds one lease. silent: nothing is answered any more."""

    def __init__(self) -> None:
        self.lease: Table | None = None
        self.version = 0
        self.silent = False
        self.renewals = 0

    async def get(self, *_: str) -> Table | None:
        await self._answer()
        return self.lease

    async def create(self, body: Table) -> Table:
        return await self.replace(body)

    async def replace(self, body: Table) -> Table:
        await self._answer()
        if self.lease and body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise KubeError(409, "changed")
        self.version += 1
        self.renewals += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease

    async def _answer(self) -> None:
        if self.silent:
            await asyncio.Event().wait()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(lease, "RENEW_S", 0.02)
    monkeypatch.setattr(lease, "LAST_S", 0.3)
    monkeypatch.setattr(lease, "POLL_S", 0.02)
    return Server()


async def until(true: Any) -> None:
    for _ in range(2000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true in time")


async def test_a_renewal_without_an_answer_ends_the_operator(server):
    mine = Lease(server, "mq", "lease", "me", SystemClock())
    await mine.acquire()
    keeping = asyncio.create_task(mine.keep())
    await until(lambda: server.renewals > 3)
    assert mine.held
    server.silent = True
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(20):
            await keeping
    assert not mine.held


async def test_a_lease_that_somebody_else_took_is_lost_at_once(server):
    mine = Lease(server, "mq", "lease", "me", SystemClock())
    await mine.acquire()
    other = Lease(server, "mq", "lease", "other", SystemClock())
    await server.replace({**other._body(server.lease)})
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(20):
            await mine.keep()


async def test_who_waits_for_a_silent_server_asks_again(server):
    server.silent = True
    mine = Lease(server, "mq", "lease", "me", SystemClock())
    waiting = asyncio.create_task(mine.acquire())
    await asyncio.sleep(0.05)
    server.silent = False
    async with asyncio.timeout(20):
        await waiting
    assert mine.held


async def test_the_lease_is_kept_while_the_operator_still_reads(server, monkeypatch):
    class Reading:
        """An operator that is never through with reading."""

        def __init__(self, *_: Any) -> None:
            pass

        async def run(self) -> None:
            await asyncio.Event().wait()

        start = run

        async def stop(self) -> None:
            pass

    async def close() -> None:
        pass

    server.close = close
    monkeypatch.setattr(cli, "Kube", lambda _: server)
    monkeypatch.setattr(cli, "login", lambda: None)
    monkeypatch.setattr(cli, "Operator", Reading)
    running = asyncio.create_task(cli._run(cli.Options(), "mq", "lease", 0))
    try:
        await until(lambda: server.renewals > 3)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert server.lease["spec"]["holderIdentity"] == "", "given back at the end"
