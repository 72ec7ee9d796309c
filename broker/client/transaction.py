"""Transactions, and pipelines of sends with receipts.

Rule: sugar over Client; nothing here touches the wire by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from .errors import ClientError
from .message import Message, Requester, TransactionName


class Sender(Requester, Protocol):
    """The connection, as far as transactions and pipelines send by it."""

    async def send(
        self,
        destination: str,
        body: bytes | str = b"",
        headers: Mapping[str, str] | None = None,
        *,
        receipt: bool = False,
        transaction: TransactionName | None = None,
    ) -> None: ...

    async def send_for_receipt(
        self, destination: str, body: bytes | str, headers: Mapping[str, str] | None
    ) -> asyncio.Future[None]: ...

    async def wait_for(self, event: asyncio.Event, what: str) -> None: ...


class Transaction:
    """`async with c.transaction() as tx`: COMMIT (with a receipt) at the end of the block, ABORT if it raises."""

    __slots__ = ("_client", "id")

    def __init__(self, client: Sender, id: str) -> None:
        self._client = client
        self.id = id

    async def __aenter__(self) -> Self:
        await self._client.request("BEGIN", [("transaction", self.id)])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._client.request("COMMIT", [("transaction", self.id)], receipt=True)
            return
        try:
            await self._client.request("ABORT", [("transaction", self.id)])
        except ClientError:
            # The connection is over, which aborts the transaction as well; the block's own exception counts.
            pass

    async def send(self, destination: str, body: bytes | str = b"", headers: Mapping[str, str] | None = None) -> None:
        """A SEND that happens at COMMIT."""
        await self._client.send(destination, body, headers, transaction=self)

    async def ack(self, message: Message) -> None:
        """An ACK that counts at COMMIT."""
        await message.ack(transaction=self)

    async def nack(self, message: Message) -> None:
        """A NACK that counts at COMMIT."""
        await message.nack(transaction=self)


class Pipeline:
    """`async with c.pipeline(window=100) as p`: sends with receipts, at most `window` of them unanswered.

    `send` returns as soon as the window has room. Leaving the block waits for all receipts; a refusal is raised
    by the next send or at the end of the block. confirmed: receipts that have come.
    """

    __slots__ = ("_client", "_error", "_idle", "_open", "_room", "_window", "confirmed")

    def __init__(self, client: Sender, window: int) -> None:
        if window < 1:
            raise ClientError("window must be at least 1")
        self._client = client
        self._window = window
        self._open = 0
        self._room = asyncio.Event()
        self._idle = asyncio.Event()
        self._error: BaseException | None = None
        self.confirmed = 0

    async def __aenter__(self) -> Self:
        return self

    async def send(self, destination: str, body: bytes | str = b"", headers: Mapping[str, str] | None = None) -> None:
        """Raises what an earlier send of this pipeline ran into, ClientTimeout when no receipt comes."""
        while self._open >= self._window and self._error is None:
            self._room.clear()
            await self._client.wait_for(self._room, f"a receipt ({self._open} are open)")
        self._raise()
        answer = await self._client.send_for_receipt(destination, body, headers)
        self._open += 1
        answer.add_done_callback(self._answered)

    def _answered(self, answer: asyncio.Future[None]) -> None:
        self._open -= 1
        self._room.set()
        if answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            self.confirmed += 1
        elif self._error is None:
            self._error = error
        if not self._open:
            self._idle.set()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    async def drain(self) -> None:
        """Waits until every send so far is confirmed."""
        while self._open and self._error is None:
            self._idle.clear()
            await self._client.wait_for(self._idle, f"{self._open} receipts")
        self._raise()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.drain()
