"""`seams.stream` over a unix socket, between processes of one machine: each message behind its length.

gRPC costs ten times as much for each round trip, and is not needed where nobody else can connect. A frame is four bytes
of length (little endian) and so many bytes; the dialler's first one names the service. A length with its highest bit
set is the farewell that close() sends: the number of its kind and a text.

Rule: moves bytes; never repairs, repeats or joins anything. A peer must be of the same user as this process.
Knows nothing of what is in a message.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from broker.seams.files import reached
from broker.seams.stream import Acceptor, Ended, EndKind, StreamEnd

log = logging.getLogger("stampede.rpc")

HEAD: Final = 4
FAREWELL: Final = 1 << 31
MOST: Final = 64 * 1024 * 1024
"""Bytes of one message; as of the component port."""
FAREWELL_S: Final = 1.0
"""How long close() may take to get rid of what is queued."""
MAX_WHY_BYTES: Final = 1024
JOINED: Final = 16 * 1024
"""Up to here a message is copied behind its length, so that both are one write."""
_KINDS: Final = frozenset(EndKind)


class FramedStream(asyncio.Protocol):
    """One end. `begin`: called when the connection stands, with this; None: it was dialled and knows its end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, peer: str, begin: Callable[[FramedStream], bool] | None = None
    ) -> None:
        self.peer = peer
        self.names: frozenset[str] = frozenset()
        """A socket of this machine shows no certificate."""
        self._loop = loop
        self._begin = begin
        self._end: StreamEnd | None = None
        self._transport: asyncio.Transport | None = None
        self._queue: list[bytes] = []
        """What was sent before the connection stood."""
        self._parts: list[bytes] = []
        self._have = 0
        self._need = HEAD
        self._over = False
        self._told = False
        self._why = Ended("lost: the connection broke", EndKind.LOST)
        self._timer: asyncio.TimerHandle | None = None
        self._first: Callable[[bytes], StreamEnd | None] | None = None
        self._gone: Callable[[FramedStream], None] | None = None

    def start(self, end: StreamEnd, gone: Callable[[FramedStream], None]) -> None:
        """What hears what comes. gone: called when it is over."""
        self._end, self._gone = end, gone

    def start_with(self, first: Callable[[bytes], StreamEnd | None], gone: Callable[[FramedStream], None]) -> None:
        """`first` is given the first message and says who hears the others; None: nobody does."""
        self._first, self._gone = first, gone

    # -- seams.stream.Stream

    def send(self, message: bytes) -> None:
        if self._over:
            return
        transport, size = self._transport, len(message)
        if transport is None:
            self._queue += (size.to_bytes(HEAD, "little"), message)
        elif size <= JOINED:
            transport.write(size.to_bytes(HEAD, "little") + message)
        else:
            transport.writelines((size.to_bytes(HEAD, "little"), message))

    @property
    def pending(self) -> int:
        queued = sum(map(len, self._queue))
        return queued if self._transport is None else queued + self._transport.get_write_buffer_size()

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if self._over:
            return
        text = bytes((kind,)) + why.encode()[:MAX_WHY_BYTES]
        farewell = (FAREWELL | len(text)).to_bytes(HEAD, "little") + text
        self._finish_with(Ended(why, kind))
        if self._transport is None:
            self._loop.call_soon(self._tell)
            return
        self._transport.write(farewell)
        self._transport.close()
        self._timer = self._loop.call_later(FAREWELL_S, self._transport.abort)

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        self._finish_with(Ended(why, kind))
        if self._transport is None:
            self._loop.call_soon(self._tell)
        else:
            self._transport.abort()

    def other(self) -> tuple[int, int]:
        """Process and user at the other end."""
        return (-1, -1) if self._transport is None else peer_of(self._transport)

    def refused(self, why: Ended) -> None:
        """It could not be dialled."""
        self._finish_with(why)
        self._tell()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no class of asyncio
        if self._told or (self._begin is not None and not self._begin(self)):
            made.abort()
            return
        if self._queue:
            made.writelines(self._queue)
            self._queue = []

    def data_received(self, data: bytes) -> None:
        self._have += len(data)
        self._parts.append(data)
        if self._have < self._need:
            return
        data, at = b"".join(self._parts) if len(self._parts) > 1 else data, 0
        have = len(data)
        while have - at >= HEAD:
            size = int.from_bytes(data[at : at + HEAD], "little")
            whole = HEAD + (size & ~FAREWELL)
            if whole - HEAD > MOST:
                self.abort(f"{self.peer} sends a message of {whole - HEAD} bytes", EndKind.FOREIGN)
                return
            if have - at < whole:
                self._need = whole
                break
            message = data[at + HEAD : at + whole]
            at += whole
            if size & FAREWELL:
                self._hear_farewell(message)
                return
            if (end := self._end) is not None:
                end.on_message(message)
            else:
                self._hear_first(message)
            if self._over:
                return
        else:
            self._need = HEAD
        rest = data[at:]
        self._parts, self._have = [rest] if rest else [], len(rest)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not self._over:
            self._why = Ended(f"lost: {error}", EndKind.LOST)
        self._over = True
        self._tell()

    # -- inside

    def _hear_first(self, message: bytes) -> None:
        if self._first is not None:
            first, self._first = self._first, None
            self._end = first(message)
            if self._end is None:
                self.abort("it asks for what nobody does here", EndKind.FOREIGN)

    def _hear_farewell(self, told: bytes) -> None:
        kind = EndKind(told[0]) if told and told[0] in _KINDS else EndKind.CLOSED
        self._finish_with(Ended(told[1:].decode("utf-8", "replace") or "closed by the other side", kind))
        if self._transport is not None:
            self._transport.close()

    def _finish_with(self, why: Ended) -> None:
        """Nothing is heard or sent any more; the first reason counts."""
        if not self._over:
            self._over = True
            self._why = why

    def _tell(self) -> None:
        if self._told:
            return
        self._told = True
        if self._timer is not None:
            self._timer.cancel()
        if self._gone is not None:
            self._gone(self)
        if self._end is not None:
            self._end.on_closed(self._why)


class FramedDialer:
    """`seams.stream.Dialer`. Addresses are paths."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._streams: dict[FramedStream, asyncio.Task[None]] = {}
        self._none = asyncio.Event()
        """There are no streams."""

    def dial(self, address: str, service: str, end: StreamEnd) -> FramedStream:
        """See seams.stream. Must be called in the loop's thread."""
        stream = FramedStream(self._loop, address)
        stream.start(end, self._forget)
        stream.send(service.encode())
        self._streams[stream] = self._loop.create_task(self._connect(stream, address))
        return stream

    async def close(self) -> None:
        """Ends all streams; returns when what was sent on them has left, or did not within FAREWELL_S."""
        for stream in list(self._streams):
            stream.close("stopping")
        if self._streams:
            self._none.clear()
            await self._none.wait()

    async def _connect(self, stream: FramedStream, address: str) -> None:
        try:
            with reached(address) as path:
                await self._loop.create_unix_connection(lambda: stream, path)
        except (ConnectionRefusedError, FileNotFoundError):
            stream.refused(Ended(f"refused: nobody listens at {address}", EndKind.REFUSED))
        except OSError as error:
            stream.refused(Ended(f"lost: {error.strerror or error}", EndKind.LOST))

    def _forget(self, stream: FramedStream) -> None:
        self._streams.pop(stream, None)
        if not self._streams:
            self._none.set()


class FramedServer:
    """Listens at a path. `services`: those that it knows."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, path: str, acceptor: Acceptor, services: frozenset[str]
    ) -> None:
        self._loop = loop
        self._path = path
        self._acceptor = acceptor
        self._services = services
        self._server: asyncio.AbstractServer | None = None
        self._streams: dict[FramedStream, None] = {}

    async def start(self) -> None:
        """What lies at the path is of a process that is no more: the caller holds the lock of the folder. Raises
        OSError."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reached(self._path) as path:
                listening.bind(path)
            os.chmod(self._path, 0o600)
            listening.setblocking(False)
            self._server = await self._loop.create_unix_server(
                lambda: FramedStream(self._loop, "", self._accept), sock=listening
            )
        except BaseException:
            listening.close()
            raise

    async def stop(self) -> None:
        """Ends all streams at once and stops listening."""
        if self._server is not None:
            self._server.close()
        for stream in list(self._streams):
            stream.abort("stopping")
        await asyncio.sleep(0)
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _accept(self, stream: FramedStream) -> bool:
        """False: it is cut."""
        pid, uid = stream.other()
        if uid not in (os.geteuid(), -1):
            log.warning("process %d of user %d connects to %s: refused", pid, uid, self._path)
            return False
        stream.peer = f"process {pid}"
        self._streams[stream] = None
        stream.start_with(lambda name: self._named(stream, name), self._forget)
        return True

    def _named(self, stream: FramedStream, name: bytes) -> StreamEnd | None:
        service = name[:100].decode("utf-8", "replace")
        return self._acceptor.accept(service, stream) if service in self._services else None

    def _forget(self, stream: FramedStream) -> None:
        self._streams.pop(stream, None)


def peer_of(transport: asyncio.BaseTransport) -> tuple[int, int]:
    """Process and user at the other end; -1 where the system does not tell."""
    which = getattr(socket, "SO_PEERCRED", None)
    own = transport.get_extra_info("socket")
    if which is None or own is None:
        return -1, -1
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(own.fileno())) as same:
        pid, uid, _ = struct.unpack("3i", same.getsockopt(socket.SOL_SOCKET, which, struct.calcsize("3i")))
    return pid, uid
