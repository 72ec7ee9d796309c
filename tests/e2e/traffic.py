"""Clients that go on whatever happens to edges and owners, and keep count: nothing confirmed may be missing at the end.

Rule: a message counts as sent when its RECEIPT came; one that was not confirmed is sent again under the same number."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from urllib.parse import quote

from broker.client.connect import connect
from broker.client.connection import Client
from broker.client.errors import ClientError

PAUSE_S = 0.2


class Traffic:
    """Producers and consumers on queues of their own, in a thread; and connections that only sit there, some of them in
    the middle of a transaction for a while.

    torn       connections that ended between BEGIN and COMMIT.
    longest_s  from the first attempt of a message to its receipt, with the connections that were needed for it.
    unmarked   came again without `redelivered`, though sent once: their consumer could not know."""

    def __init__(self, host: str, login: str, passcode: str, queue: str, rate: int = 200, lanes: int = 4) -> None:
        self.url = f"stomp://{quote(login, safe='')}:{quote(passcode, safe='')}@{host}"
        self.queue = queue
        self.rate = rate
        self.lanes = lanes
        self.sent: set[str] = set()
        self.got: dict[str, int] = {}
        self.reconnects = 0
        self.longest_s = 0.0
        self.unmarked = 0
        self.again: set[str] = set()  # sent more than once: there was no receipt, so there may be two of them
        self.torn = 0
        self.committed = 0
        self._stop = asyncio.Event()
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._idle_wanted = 0
        self._producing = 0  # they end with what they wait for: it is confirmed after the stop, and has to come as well

    def start(self, idle: int = 0, transactions: int = 0) -> None:
        self._idle_wanted, self._transactions_wanted = idle, transactions
        self._thread.start()

    def stop(self, drain_s: float = 60) -> None:
        """Producers end; consumers go on until everything that was confirmed has come."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        end = time.monotonic() + drain_s
        while (self._producing or self.missing) and time.monotonic() < end:
            time.sleep(0.2)
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(30)

    @property
    def missing(self) -> set[str]:
        return self.sent - set(self.got)

    def _run(self) -> None:
        with self._runner, suppress(asyncio.CancelledError):
            self._runner.run(self._noted())

    async def _noted(self) -> None:
        self._main = asyncio.current_task()
        await self._all()

    async def _all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for lane in range(self.lanes):
                group.create_task(self._produce(lane))
                group.create_task(self._consume(lane))
            for _ in range(self._idle_wanted):
                group.create_task(self._sit())
            for number in range(self._transactions_wanted):
                group.create_task(self._transact(number))

    async def _connected(self) -> Client:
        while True:
            try:
                return await connect(self.url, timeout=5, receipt_timeout=40)
            except ClientError:
                await asyncio.sleep(PAUSE_S)

    async def _produce(self, lane: int) -> None:
        number = 0
        gap = self.lanes / self.rate
        begin = 0.0
        self._producing += 1
        while not self._stop.is_set():
            client = await self._connected()
            try:
                while not self._stop.is_set():
                    name = f"{lane}.{number}"
                    if begin:
                        self.again.add(name)
                    begin = begin or time.monotonic()
                    await client.send(f"{self.queue}.{lane}", name, {"persistent": "true"}, receipt=True)
                    self.longest_s = max(self.longest_s, time.monotonic() - begin)
                    self.sent.add(name)
                    number += 1
                    took, begin = time.monotonic() - begin, 0.0
                    await asyncio.sleep(max(gap - took, 0))
            except ClientError:
                self.reconnects += 1
            finally:
                await client.kill()
        self._producing -= 1

    async def _consume(self, lane: int) -> None:
        while True:
            client = await self._connected()
            try:
                async with client.subscribe(f"{self.queue}.{lane}", "client-individual") as messages:
                    async for message in messages:
                        name = (await message.read()).decode()
                        marked = message.headers.get("redelivered") == "true"
                        self.unmarked += name in self.got and name not in self.again and not marked
                        self.got[name] = self.got.get(name, 0) + 1
                        await message.ack()
            except ClientError:
                pass
            finally:
                await client.kill()

    async def _sit(self) -> None:
        while True:
            client = await self._connected()
            try:
                async with client.subscribe(f"/topic/{self.queue.rpartition('/')[2]}.quiet") as messages:
                    async for _ in messages:
                        pass
            except ClientError:
                pass
            finally:
                await client.kill()

    async def _transact(self, number: int) -> None:
        """Transactions that stay open for two seconds."""
        round = 0
        self._producing += 1
        while not self._stop.is_set():
            client = await self._connected()
            inside = False
            try:
                while not self._stop.is_set():
                    round += 1
                    names = [f"t{number}.{round}.{part}" for part in range(2)]
                    async with client.transaction() as transaction:
                        inside = True
                        for name in names:
                            await transaction.send(f"{self.queue}.{number % self.lanes}", name, {"persistent": "true"})
                            await asyncio.sleep(1)
                    inside = False
                    self.sent.update(names)
                    self.committed += 1
                    await asyncio.sleep(0.5)
            except ClientError:
                self.torn += inside
            finally:
                await client.kill()
        self._producing -= 1
