"""STOMP over a byte stream: asyncio transports become Channels. TLS uses the same classes.

Two shells over one base: the plain Protocol for uvloop, and a BufferedProtocol for the stdlib loop, whose
plain reads allocate 256 KiB each (3.5 times the CPU). All connections share one read buffer: the loop fills
it and hands it over without running anything in between.

Rule: bytes in, bytes out, in order; an idle connection owns nothing but its slots. Knows no STOMP.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from broker.config.acceptor import AcceptorSettings
from broker.core.certificates import PeerCertificate, peer_certificate
from broker.core.reasons import Reason

from .channel import EdgeLike, SessionLike, next_connection_id
from .fair_reading import FIRST, SMALL, Lane, lane_of
from .tls import asked_host

READ_BUFFER = 64 * 1024
LARGEST_BUFFER = (1 << 31) - 1
"""The kernel takes an int, and cuts it down to its own limit (net.core.wmem_max)."""
LINGER_S = 2.0
"""How long a closed connection may go without progress before it is cut."""
LINGER_ROUNDS = 5
"""… and how many such spans it may have while the peer keeps reading: 10 s are the end in any case."""

LF = b"\n"
"""A heart-beat, or what trailing_lf puts behind a frame."""

_read_buffer = memoryview(bytearray(READ_BUFFER))


def discard(data: bytes) -> None:
    """What comes in after the end is read and forgotten: unread bytes would turn our goodbye into a reset."""


def peer_name(address: tuple[Any, ...] | None) -> str:
    """host:port of a socket address; IPv4 as IPv4 also on a dual-stack socket."""
    if not address:
        return "unknown"
    host, port = address[0].removeprefix("::ffff:"), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_host(peer: str) -> str:
    """The host part of a peer name."""
    return peer.rpartition(":")[0].strip("[]")


class StreamChannel(asyncio.BaseProtocol):
    """A Channel on an asyncio transport (see channel.Channel for the meaning of the public names).

    Life: made by the listener → connection_made → data … → close() or the peer's end → connection_lost.
    A `peer` that is known before (PROXY header) stays.
    """

    __slots__ = (
        "__weakref__", "_acceptor", "_edge", "_linger", "_loop", "_peer_done", "_reading", "_receive", "_rest",
        "_rounds", "_session", "_shared", "_transport", "certificate", "closing", "framed", "id", "peer", "portion",
        "reason", "tls_name", "tls_subject", "transport_name",
    )  # fmt: skip

    user = ""

    def __init__(
        self, edge: EdgeLike, loop: asyncio.AbstractEventLoop, transport_name: str, acceptor: AcceptorSettings
    ) -> None:
        self.id = next_connection_id()
        self.transport_name = transport_name
        self.peer = ""
        self.tls_subject: str | None = None
        self.certificate: PeerCertificate | None = None
        self.tls_name = ""
        self.reason: Reason | None = None
        self.closing = False
        self.framed = acceptor.trailing_lf
        self._acceptor = acceptor
        self._edge = edge
        self._loop = loop
        self._transport: Any = None
        self._session: SessionLike | None = None
        self._receive: Callable[[bytes], None] = discard
        self._reading = True
        self._rest = b""
        self.portion = FIRST
        self._shared = edge.rounds
        self._peer_done = False
        self._linger: asyncio.TimerHandle | None = None
        self._rounds = 0

    def comes_from(self, peer: str) -> None:
        """Its balancer has said who is behind it."""
        self.peer = peer

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Opens the session. TLS: called when the handshake is done."""
        self._transport = transport
        self.peer = self.peer or peer_name(transport.get_extra_info("peername"))
        self.certificate = peer_certificate(transport.get_extra_info("peercert"))
        self.tls_subject = self.certificate.subject if self.certificate is not None else None
        self.tls_name = asked_host(transport.get_extra_info("ssl_object"))
        acceptor = self._acceptor
        self._transport.set_write_buffer_limits(acceptor.write_buffer_high_bytes, acceptor.write_buffer_low_bytes)
        session = self._session = self._edge.open(self)
        if not self.closing:
            self._receive = self._begin(session)

    def _begin(self, session: SessionLike) -> Callable[[bytes], None]:
        """Where the bytes of the socket go from now on."""
        return session.receive

    def eof_received(self) -> bool:
        """The peer has shut down its sending side. A plain socket stays half open: answers may be due."""
        self._all_that_waits()
        self._peer_done = True
        if self.closing or self._session is None:
            return False
        self._session.eof()
        return not self.closing and bool(self._transport.can_write_eof())

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_that_waits()
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self.closing = True
        self._receive = discard
        session, self._session = self._session, None
        if session is not None:
            session.lost()

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.pause_writing()

    def resume_writing(self) -> None:
        if self._session is not None:
            self._session.resume_writing()

    # What the session calls.

    def write(self, data: bytes) -> None:
        if not self.closing:
            self._transport.write(data)

    def write_frames(self, frames: list[bytes]) -> None:
        if self.closing:
            return
        if self._acceptor.trailing_lf:
            frames = [frame if frame == LF else frame + LF for frame in frames]
        self._transport.write(b"".join(frames))

    @property
    def texts(self) -> bool:
        return False

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        if not self.closing:
            self._transport.write(data + LF if last and self._acceptor.trailing_lf else data)

    def take_authorization(self) -> str | None:
        """See channel.Channel."""
        return None

    def buffered(self) -> int:
        size: int = self._transport.get_write_buffer_size()
        return size

    def held(self) -> int:
        return self.buffered() + len(self._rest)

    def pause_reading(self) -> None:
        if self._reading and not self.closing:
            self._reading = False
            if not self._rest:
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self._rest:
                self._shared.wait(self)
            elif not self._transport.is_closing():
                self._transport.resume_reading()

    # Reads: all of them pass here, see fair_reading.py.

    def _read(self, data: bytes) -> None:
        if self._rest:
            self._rest += data  # its reading is paused; decrypted before, perhaps
            return
        shared, size = self._shared, len(data)
        if (
            size <= SMALL and (shared.reads.total < shared.until or shared.may_go_on(self._lane(size), size))
        ) or self.closing:
            self._receive(data)
            return
        if SMALL < size <= self.portion and shared.has_time():
            began = shared.began()
            self._receive(data)
            shared.spent(self, began, size)
            return
        self._rest = data
        if self._reading:
            self._transport.pause_reading()
            shared.wait(self)

    def read_portion(self) -> None:
        """See fair_reading.ReadsInTurns."""
        if not self.waits:
            return
        data, self._rest = self._rest[: self.portion], self._rest[self.portion :]
        shared = self._shared
        began = shared.began()
        self._receive(data)
        shared.spent(self, began, len(data))
        if not self._rest and self._reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def _put_back(self, data: bytes) -> None:
        """Of what has just come this is too much for one step: it has its turn before all that comes later."""
        if self._reading and not self._rest:
            self._transport.pause_reading()
        self._rest = data + self._rest
        self._shared.left(len(data))
        if self._reading:
            self._shared.wait(self)

    @property
    def lane(self) -> Lane:
        """See fair_reading.ReadsInTurns."""
        return self._lane(len(self._rest))

    def _lane(self, size: int) -> Lane:
        return lane_of(self._session.whose if self._session is not None else self.peer, size)

    def _all_that_waits(self) -> None:
        """The peer has ended: what it had sent before counts, unless we had ended before."""
        while self._rest:
            rest, self._rest = self._rest, b""
            self._receive(rest)

    def _forget_rest(self) -> None:
        if self._rest:
            self._rest = b""
            if self._reading and not self._transport.is_closing():
                self._transport.resume_reading()

    @property
    def waits(self) -> bool:
        return bool(self._rest) and self._reading

    def close(self, reason: Reason) -> None:
        if not self.closing:
            self._end(reason)

    def abort(self) -> None:
        self.closing = True
        self._rest = b""
        self._receive = discard
        self._transport.abort()

    # The end.

    def _end(self, reason: Reason) -> None:
        self._stop_receiving()
        self._shut()

    def _stop_receiving(self) -> None:
        """From here on the peer is only given time to read: `closing`, and a timer that ends it."""
        self.closing = True
        self._receive = discard
        self._forget_rest()
        self.resume_reading()
        self._watch(self.buffered())

    def _shut(self) -> None:
        """Nothing more will be written. A plain socket is half closed (the peer sees the end and has time to
        read it); TLS says close_notify, bounded by the shutdown timeout it was started with. A peer that has
        ended its side needs no such care."""
        transport = self._transport
        if transport.is_closing():
            return
        if transport.can_write_eof() and not self._peer_done:
            transport.write_eof()
        else:
            transport.close()

    def _watch(self, left: int) -> None:
        self._linger = self._loop.call_later(LINGER_S, self._lingered, left)

    def _lingered(self, before: int) -> None:
        """Cut, unless the peer is still taking what was written before the end."""
        left = self.buffered()
        self._rounds += 1
        if 0 < left < before and self._rounds < LINGER_ROUNDS:
            self._watch(left)
        else:
            self._linger = None
            self._transport.abort()


class PlainReads(asyncio.Protocol):
    """Reads as uvloop does them best."""

    __slots__ = ()
    _read: Callable[[bytes], None]

    def data_received(self, data: bytes) -> None:
        self._read(data)


class BufferedReads(asyncio.BufferedProtocol):
    """Reads as the stdlib loop does them best: into the shared buffer, then one exact copy."""

    __slots__ = ()
    _read: Callable[[bytes], None]

    def get_buffer(self, sizehint: int) -> memoryview:
        return _read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._read(bytes(_read_buffer[:nbytes]))


class TcpChannel(StreamChannel, PlainReads):
    """For uvloop."""

    __slots__ = ()
    data_received = StreamChannel._read
    """Without a layer in between."""


class BufferedTcpChannel(StreamChannel, BufferedReads):
    """For the stdlib loop."""

    __slots__ = ()


def tune(listening: socket.socket, acceptor: AcceptorSettings) -> None:
    """Options that accepted sockets inherit (Linux): no Nagle delay; a vanished peer that promised no
    heart-beat is found by TCP keep-alive after about four minutes, so that its messages come back."""
    sizes = {socket.SO_SNDBUF: acceptor.tcp_send_buffer_bytes, socket.SO_RCVBUF: acceptor.tcp_receive_buffer_bytes}
    for buffer, size in sizes.items():
        if size:
            listening.setsockopt(socket.SOL_SOCKET, buffer, min(size, LARGEST_BUFFER))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 120), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 4)):
        option = getattr(socket, name, None)
        if option is not None:
            listening.setsockopt(socket.IPPROTO_TCP, option, value)
