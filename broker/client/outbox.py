"""What waits for the socket: frames gather here and leave as one piece.

Rule: whole frames in the order of append(); while a body is streamed nobody else may append. Callers wait in room()
while much is unsent. Knows nothing of STOMP but the NUL behind a streamed body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .errors import ClientError
from .source import Source
from .transport import Transport

UNSENT_BYTES = 256 * 1024
"""Callers wait while more than this is unsent."""


class Outbox:
    """last_sent: when something was handed to the socket, by `clock` (monotonic seconds)."""

    __slots__ = ("_below", "_clock", "_closed", "_gate", "_something", "_streaming", "_transport", "_unsent",
                 "_unsent_bytes", "last_sent")  # fmt: skip

    def __init__(self, transport: Transport, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._streaming = False
        self._closed = False
        self._something = asyncio.Event()
        self._below = asyncio.Event()
        self._gate = asyncio.Event()
        self.last_sent = clock()
        self._open()

    @property
    def quiet(self) -> bool:
        """Nothing waits, and no frame is half out: an empty line may be sent."""
        return not self._unsent_bytes and not self._streaming

    async def room(self) -> None:
        """Until another frame may be begun, or the outbox is closed. No other task comes between its return and an
        append() that follows without await."""
        while not self._gate.is_set():
            await self._gate.wait()

    def append(self, data: bytes) -> None:
        """One or more whole frames."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._something.set()
        if self._unsent_bytes > UNSENT_BYTES:
            self._gate.clear()
            self._below.clear()

    async def stream(self, head: bytes, source: Source) -> None:
        """A frame whose body comes from `source`; call it behind room(). `head`: all before the body.

        Raises what the source raises, and ClientError when it does not match its length: the frame is broken then."""
        self._streaming = True
        self._gate.clear()
        try:
            self.append(head)
            rest = source.length
            async for piece in source.pieces():
                rest -= len(piece)
                if rest < 0:
                    break
                self.append(piece)
                await self._below.wait()
                if self._closed:
                    return
            if rest:
                raise ClientError(f"the stream does not match its length of {source.length} bytes")
            self.append(b"\0")
        finally:
            self._streaming = False
            self._open()

    def close(self) -> None:
        """The connection is over: nobody waits any more."""
        self._closed = True
        self._open()

    def _open(self) -> None:
        if self._closed or self._unsent_bytes <= UNSENT_BYTES:
            self._below.set()
            if self._closed or not self._streaming:
                self._gate.set()

    async def run(self) -> None:
        """Sends what gathers, until it is cancelled. Raises OSError."""
        while True:
            await self._something.wait()
            self._something.clear()
            data = b"".join(self._unsent)
            self._unsent.clear()
            await self._transport.send(data)
            self.last_sent = self._clock()
            self._unsent_bytes -= len(data)
            self._open()
