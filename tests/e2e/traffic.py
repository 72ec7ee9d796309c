"""Clients that go on whatever happens to edges and owners, and keep count: nothing confirmed may be missing at the end.

Rule: a message counts as sent when its RECEIPT came; one that was not confirmed is sent again under the same number."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import quote

from broker.client.connect import connect
from broker.client.connection import Client
from broker.client.errors import ClientError
from tests.e2e.window import Acknowledger, Unconfirmed

PAUSE_S = 0.2
RECEIPT_S = 40
SLOW_S, MOST_TOLD = 0.8, 100
"""Waits above this are told with their time: a figure alone says nothing of what it consists of."""


class Traffic:
    """Producers and consumers on queues of their own, in a thread; and connections that only sit there, some of them in
    the middle of a transaction for a while.

    torn       connections that ended between BEGIN and COMMIT.
    longest_s  from the first attempt of a message to its receipt, with the connections that were needed for it.
    behind_s   most that a message was offered after its time: its lane's window was full, or it was not connected.
    connecting_s  the longest way to a connection (of anybody here), pauses and all; refusals: why there was none.
    slow       second of a receipt, "again" if it was sent more than once -> the longest of its waits.
    unmarked   came again without `redelivered`, though sent once: their consumer could not know."""

    def __init__(
        self, host: str, login: str, passcode: str, queue: str, rate: int = 200, lanes: int = 4, window: int = 100
    ) -> None:
        self.url = f"stomp://{quote(login, safe='')}:{quote(passcode, safe='')}@{host}"
        self.queue = queue
        self.rate = rate
        self.lanes = lanes
        self.window = window
        self.sent: set[str] = set()
        self.got: dict[str, int] = {}
        self.reconnects = 0
        self.cuts: list[str] = []
        self.refusals: Counter[str] = Counter()
        self.slow: dict[str, float] = {}
        self.reset()
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

    def reset(self) -> None:
        """What was longest is of another time from now on."""
        self.longest_s = self.behind_s = self.connecting_s = 0.0
        self._began = time.monotonic()
        for told in (self.cuts, self.refusals, self.slow):
            told.clear()

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
        began = time.monotonic()
        while True:
            try:
                client = await connect(self.url, timeout=5, receipt_timeout=RECEIPT_S)
            except ClientError as error:
                self.refusals[str(error)] += 1
                await asyncio.sleep(PAUSE_S)
                continue
            self.connecting_s = max(self.connecting_s, time.monotonic() - began)
            return client

    async def _produce(self, lane: int) -> None:
        """Offers by the clock, whatever is confirmed: as a client does that keeps a window of unconfirmed SENDs."""
        unconfirmed = Unconfirmed(self._confirmed)
        number, due = 0, time.monotonic()
        self._producing += 1
        while unconfirmed.names or not self._stop.is_set():
            client = await self._connected()
            try:
                for name in list(unconfirmed.names):
                    self.again.add(name)
                    await unconfirmed.send(client, f"{self.queue}.{lane}", name)
                while not self._stop.is_set():
                    due += self.lanes / self.rate
                    await asyncio.sleep(max(due - time.monotonic(), 0))
                    await unconfirmed.fewer_than(self.window)
                    self.behind_s = max(self.behind_s, time.monotonic() - due)
                    await unconfirmed.send(client, f"{self.queue}.{lane}", f"{lane}.{number}")
                    number += 1
                await unconfirmed.fewer_than(1)
            except (ClientError, TimeoutError) as error:
                self.reconnects += 1
                self.cuts.append(f"{time.monotonic() - self._began:.2f} {lane}: {error}")
            finally:
                await client.kill()
        self._producing -= 1

    def _confirmed(self, name: str, took: float) -> None:
        self.sent.add(name)
        self.longest_s = max(self.longest_s, took)
        if took > SLOW_S and len(self.slow) < MOST_TOLD:
            at = f"{time.monotonic() - self._began:.1f}{' again' if name in self.again else ''}"
            self.slow[at] = max(self.slow.get(at, 0), round(took, 2))

    async def _consume(self, lane: int) -> None:
        while True:
            client = await self._connected()
            try:
                async with client.subscribe(f"{self.queue}.{lane}", "client") as messages:
                    acks = Acknowledger()
                    async with asyncio.TaskGroup() as group:
                        group.create_task(acks.run())
                        async for message in messages:
                            self._received(await message.read(), message.headers.get("redelivered") == "true")
                            await acks.consumed(message)
            except* ClientError:
                pass
            finally:
                await client.kill()

    def _received(self, body: bytes, marked: bool) -> None:
        name = body.decode()
        self.unmarked += name in self.got and name not in self.again and not marked
        self.got[name] = self.got.get(name, 0) + 1

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
