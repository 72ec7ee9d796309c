"""A port for STOMP over TCP and over WebSocket alike: the first byte tells which.

Only a WebSocket begins with GET, and no STOMP frame begins with a G. Everything else is for the STOMP parser, which
also has words for TLS and other HTTP at the wrong door.

Rule: the session exists from the beginning, as on every port, so that limits and the handshake timeout hold for who
says nothing; until the first byte the channel counts as a byte stream. Must not know frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.config.acceptor import AcceptorSettings
from broker.config.settings import EdgeSettings
from broker.core.reasons import Reason

from .channel import EdgeLike, SessionLike
from .tcp import BufferedReads, PlainReads, StreamChannel
from .websockets.websocket import WebSocketStream

GET = ord("G")


class EitherStream(WebSocketStream):
    """Becomes one of both with the first byte; `_web` says which."""

    __slots__ = ("_web",)

    def __init__(
        self,
        edge: EdgeLike,
        loop: asyncio.AbstractEventLoop,
        transport_name: str,
        acceptor: AcceptorSettings,
        settings: EdgeSettings,
    ) -> None:
        StreamChannel.__init__(self, edge, loop, transport_name, acceptor)
        self._settings = settings
        self._web = False
        self._authorization = None

    def _begin(self, session: SessionLike) -> Callable[[bytes], None]:
        return self._first

    def _first(self, data: bytes) -> None:
        session = self._session
        assert session is not None  # it came before the first byte, and ends with the last
        if data[0] == GET:
            self._web = self.framed = True
            self._prepare()
            self._receive = self._greet
        else:
            self._receive = session.receive
        self._receive(data)

    def eof_received(self) -> bool:
        return WebSocketStream.eof_received(self) if self._web else StreamChannel.eof_received(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._web:
            WebSocketStream.connection_lost(self, exc)
        else:
            StreamChannel.connection_lost(self, exc)

    def write(self, data: bytes) -> None:
        if self._web:
            WebSocketStream.write(self, data)
        else:
            StreamChannel.write(self, data)

    def write_frames(self, frames: list[bytes]) -> None:
        if self._web:
            WebSocketStream.write_frames(self, frames)
        else:
            StreamChannel.write_frames(self, frames)

    @property
    def texts(self) -> bool:
        return self._web and not self._binary

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        if self._web:
            WebSocketStream.write_part(self, data, first, last, text)
        else:
            StreamChannel.write_part(self, data, first, last)

    def _end(self, reason: Reason) -> None:
        if self._web:
            WebSocketStream._end(self, reason)
        else:
            StreamChannel._end(self, reason)


class EitherChannel(EitherStream, PlainReads):
    """For uvloop."""

    __slots__ = ()


class BufferedEitherChannel(EitherStream, BufferedReads):
    """For the stdlib loop."""

    __slots__ = ()
