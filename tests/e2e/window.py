"""What pipelining clients keep: the SENDs that are not confirmed yet, and the last message that is to be acknowledged.

Rule: nothing here connects; a name stays among the unconfirmed until its RECEIPT came, over however many clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from broker.client.connection import Client
from broker.client.errors import ClientTimeout
from broker.client.message import Message

MOST_UNANSWERED_S = 40
ACK_EVERY, ACK_AFTER_S = 50, 0.05


class Unconfirmed:
    """names: name -> when it was first sent. `confirmed(name, seconds since then)` is called once for each."""

    def __init__(self, confirmed: Callable[[str, float], None]) -> None:
        self.names: dict[str, float] = {}
        self._confirmed = confirmed
        self._changed = asyncio.Event()
        self._lost: BaseException | None = None

    async def send(self, client: Client, destination: str, name: str) -> None:
        """Raises ClientError when the connection is over."""
        self.names.setdefault(name, time.monotonic())
        answer = await client.send_for_receipt(destination, name, {"persistent": "true"})
        self._lost = None
        answer.add_done_callback(lambda done: self._answered(name, done))

    def _answered(self, name: str, answer: asyncio.Future[None]) -> None:
        self._changed.set()
        if answer.cancelled():
            return
        if (error := answer.exception()) is not None:
            self._lost = error
        elif (began := self.names.pop(name, None)) is not None:
            self._confirmed(name, time.monotonic() - began)

    async def fewer_than(self, count: int) -> None:
        """Raises what has ended the connection, ClientTimeout when no receipt comes."""
        while len(self.names) >= count:
            if self._lost is not None:
                raise self._lost
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), MOST_UNANSWERED_S)
            except TimeoutError:
                raise ClientTimeout(f"{len(self.names)} receipts are open") from None


class Acknowledger:
    """One ACK (mode `client`) for all that came since the last one: every 50 messages, or after 50 ms."""

    def __init__(self) -> None:
        self._last: Message | None = None
        self._count = 0

    async def consumed(self, message: Message) -> None:
        self._last = message
        self._count += 1
        if self._count >= ACK_EVERY:
            await self._acknowledge()

    async def run(self) -> None:
        """Until it is cancelled, or the connection is over."""
        while True:
            await asyncio.sleep(ACK_AFTER_S)
            await self._acknowledge()

    async def _acknowledge(self) -> None:
        if (last := self._last) is not None:
            self._last, self._count = None, 0
            await last.ack()
