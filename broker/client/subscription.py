"""A subscription: an asynchronous iterator over messages with a bounded buffer.

Rule: one iterator position for all tasks that iterate it; the connection feeds it and is told when there is room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self

from .errors import ClientError
from .message import Message, Requester

MESSAGE_OVERHEAD = 500
"""Bytes that a waiting message is taken to need beside its body: headers and objects."""

AckMode = Literal["auto", "client", "client-individual"]


class Feed(Requester, Protocol):
    """The connection that feeds a subscription, and is told what memory its waiting messages need."""

    def attach(self, subscription: Subscription) -> None: ...
    def detach(self, subscription: Subscription) -> None: ...
    def account(self, nbytes: int) -> None: ...
    def error(self) -> ClientError: ...


class Subscription:
    """Made by Client.subscribe; `async with` subscribes and unsubscribes, `async for` gives messages.

    id    of the SUBSCRIBE frame.
    Unsubscribing drops what waits here; in the client ack modes the server gives it to another consumer.
    """

    __slots__ = ("_arrived", "_browse", "_buffer", "_current", "_ended", "_error", "_headers",
                 "ack", "client", "destination", "id")  # fmt: skip

    def __init__(
        self,
        client: Feed,
        id: str,
        destination: str,
        ack: AckMode,
        prefetch: int | None,
        browse: bool,
        headers: Mapping[str, str] | None,
    ) -> None:
        self.client = client
        self.id = id
        self.destination = destination
        self.ack = ack
        self._headers = [("id", id), ("destination", destination), ("ack", ack)]
        if prefetch is not None:
            self._headers.append(("prefetch-count", str(prefetch)))
        if browse:
            self._headers.append(("browser", "true"))
        self._headers.extend((headers or {}).items())
        self._browse = browse
        self._buffer: deque[Message] = deque()
        self._current: Message | None = None
        self._arrived = asyncio.Event()
        self._ended = False
        self._error: ClientError | None = None

    async def __aenter__(self) -> Self:
        self.client.attach(self)
        try:
            await self.client.request("SUBSCRIBE", self._headers, receipt=True)
        except BaseException:
            self.client.detach(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.unsubscribe()
        except ClientError:
            # The connection is over, and the subscription with it; what ended it has been or will be raised
            # by the call it concerns, and must not hide an exception of the block.
            pass

    async def unsubscribe(self, headers: Mapping[str, str] | None = None) -> None:
        """Ends the subscription; no message comes afterwards. `headers`: e.g. the name of a durable one to delete.

        Raises ConnectionLost, ServerError, ClientTimeout."""
        if self._ended:
            return
        self.end(None)
        self.drop()
        try:
            await self.client.request("UNSUBSCRIBE", [("id", self.id), *(headers or {}).items()], receipt=True)
        finally:
            self.client.detach(self)

    def put(self, message: Message) -> None:
        """The connection has a message for us."""
        if self._ended:
            message.discard()
            return
        if self._browse and "browser" in message.headers and message.headers["browser"] == "end":
            self.end(None)
            return
        self._buffer.append(message)
        self.client.account(MESSAGE_OVERHEAD + message.held)
        self._arrived.set()

    def end(self, error: ClientError | None) -> None:
        """Nothing more will come. `error`: what iteration raises once the buffer is empty; None ends it."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._arrived.set()

    def drop(self) -> None:
        """Forgets what waits here."""
        while self._buffer:
            message = self._buffer.popleft()
            self.client.account(-MESSAGE_OVERHEAD - message.held)
            message.discard()
        self.pass_by()

    def pass_by(self) -> None:
        """The message handed out last is done with."""
        if self._current is not None:
            self._current.pass_by()
            self._current = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self.pass_by()
        while not self._buffer:
            if self._ended:
                if self._error is not None:
                    raise self.client.error()
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        message = self._buffer.popleft()
        self.client.account(-MESSAGE_OVERHEAD - message.held)
        self._current = message if message.large else None
        return message

    async def get(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came within `timeout` seconds, or when the subscription has ended."""
        try:
            async with asyncio.timeout(timeout):
                return await anext(self, None)
        except TimeoutError:
            return None
