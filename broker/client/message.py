"""A message as the application sees it: headers, body, and what may be said of it.

Rule: holds no protocol logic but the header names of ACK and NACK per version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Protocol

from broker.seams.files import open_for_writing
from broker.wire.versions import Version

from .body import BodyStream
from .errors import ClientError


class Requester(Protocol):
    """The connection, as far as settling a message needs it."""

    version: Version

    async def request(
        self, command: str, headers: list[tuple[str, str]], body: bytes = b"", *, receipt: bool = False
    ) -> None: ...


class Origin(Protocol):
    """The subscription that a message came by."""

    id: str

    @property
    def ack(self) -> str: ...
    @property
    def client(self) -> Requester: ...


class TransactionName(Protocol):
    """A transaction, as far as the frames inside it name it."""

    id: str


class Message:
    """One MESSAGE frame.

    id       its message-id.    headers   decoded; the first of repeated names.
    length   bytes of the body by content-length; None when the server did not say.
    large    the body is still on its way: use stream(), save() or read(). Begin before you ask the subscription
             for its next message, which discards a large body that nobody has begun to read.
    """

    __slots__ = ("_begun", "_body", "_stream", "_subscription", "headers", "id", "length")

    def __init__(
        self,
        subscription: Origin,
        headers: dict[str, str],
        body: bytes,
        stream: BodyStream | None = None,
        length: int | None = None,
    ) -> None:
        self._subscription = subscription
        self._body = body
        self._stream = stream
        self._begun = False
        self.headers = headers
        self.id = headers.get("message-id", "")
        self.length = len(body) if stream is None else length

    def __repr__(self) -> str:
        return f"Message(id={self.id!r}, destination={self.destination!r}, length={self.length})"

    @property
    def destination(self) -> str:
        return self.headers.get("destination", "")

    @property
    def held(self) -> int:
        """Bytes of body in memory here; those of a large body are counted by its stream."""
        return len(self._body)

    @property
    def large(self) -> bool:
        return self._stream is not None

    @property
    def body(self) -> bytes:
        """The whole body. Raises ClientError for a large one."""
        if self._stream is not None:
            raise ClientError("the body is large: use `async for piece in m.stream()`, `m.save(path)` or `m.read()`")
        return self._body

    async def stream(self) -> AsyncIterator[bytes]:
        """The body piece by piece; a large one is never whole in memory. Leaving early discards the rest."""
        if self._stream is None:
            if self._body:
                yield self._body
            return
        if self._begun or self._stream.discarded:
            raise ClientError("this large body was read or discarded already")
        self._begun = True
        try:
            while piece := await self._stream.next():
                yield piece
        finally:
            self._stream.discard()

    async def read(self) -> bytes:
        """The whole body in memory, however large it is."""
        return b"".join([piece async for piece in self.stream()])

    async def save(self, path: str | Path) -> int:
        """Writes the body to the file `path` (replaced if it exists); returns its length in bytes."""
        offset = 0
        file = open_for_writing(str(path))
        try:
            async for piece in self.stream():
                while piece:
                    done = await asyncio.to_thread(file.pwrite, piece, offset)
                    offset += done
                    piece = piece[done:]
        finally:
            file.close()
        return offset

    def discard(self) -> None:
        """Says that the body of a large message is not wanted."""
        if self._stream is not None:
            self._stream.discard()

    def pass_by(self) -> None:
        """The subscription goes on to the next message."""
        if self._stream is not None and not self._begun:
            self._stream.discard()

    async def ack(self, transaction: TransactionName | None = None, receipt: bool = False) -> None:
        """Consumed. In ack mode `client` it covers all earlier messages of the subscription as well.

        receipt: wait until the server has confirmed it."""
        await self._settle("ACK", transaction, receipt, None)

    async def nack(
        self,
        transaction: TransactionName | None = None,
        receipt: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Not consumed; what happens then is the server's affair (redelivery, dead letter). `headers`: e.g.
        {"delay": "5000"} or {"requeue": "false"} with Stampede. Not in STOMP 1.0."""
        await self._settle("NACK", transaction, receipt, headers)

    async def _settle(
        self, command: str, transaction: TransactionName | None, receipt: bool, extra: Mapping[str, str] | None
    ) -> None:
        subscription = self._subscription
        if subscription.ack == "auto":
            raise ClientError(f"{command} in ack mode auto: subscribe with ack='client-individual' or ack='client'")
        client = subscription.client
        headers = list((extra or {}).items())
        if client.version is Version.V12:
            headers.insert(0, ("id", self.headers.get("ack", self.id)))
        elif client.version is Version.V11:
            headers[:0] = [("message-id", self.id), ("subscription", subscription.id)]
        elif command == "NACK":
            raise ClientError("STOMP 1.0 has no NACK")
        else:
            headers[:0] = [("message-id", self.id), ("subscription", subscription.id)]
        if transaction is not None:
            headers.append(("transaction", transaction.id))
        await client.request(command, headers, receipt=receipt)
