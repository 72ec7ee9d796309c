"""What a session and its transport know of each other: two protocols, and the numbering of connections.

Rule: interfaces only. A channel carries bytes of a STOMP stream and knows no frame of it; a session knows no
socket. Either side may be replaced by a fake in tests.
"""

from __future__ import annotations

import itertools
from typing import Protocol

from broker.core.certificates import Issued, PeerCertificate
from broker.core.errors import Code
from broker.core.reasons import Reason

from .fair_reading import Rounds

_numbers = itertools.count(1)


def next_connection_id() -> int:
    """A connection id: unique for the life of this process, never 0."""
    return next(_numbers)


def number_connections(process: int, processes: int) -> None:
    """Before the first one: one of several processes that share no id. What remains of one tells whose it is."""
    global _numbers
    _numbers = itertools.count(process + processes, processes)


class Channel(Protocol):
    """One accepted connection, as its session sees it. All calls on the loop's thread.

    id               connection id, unique in the process.
    peer             "1.2.3.4:5678" or "[::1]:5678".
    transport_name   name of the acceptor it came in by: "tcp", "tls", "ws" or "wss" for the ports of [edge]
                     (metric label).
    framed           STOMP frames must be handed over whole (WebSocket, trailing_lf): `write_frames`, not `write`.
    texts            a large frame that is valid UTF-8 is to be announced as text (`write_part`).
    tls_subject      subject of the verified client certificate ("CN=sensor,O=Acme"), or None.
    user             who it is, because it came in by a way that only the broker itself has; "": CONNECT must say.
    certificate      what else that certificate says, or None.
    tls_name         the host that the client has asked for in its TLS handshake (SNI); empty: none.
    reason           why the channel ended by itself (a WebSocket violation …), or None when the peer went or
                     the session closed it. Read it in `lost()`.
    """

    id: int
    peer: str
    transport_name: str
    framed: bool
    tls_subject: str | None
    user: str
    certificate: PeerCertificate | None
    tls_name: str
    reason: Reason | None

    @property
    def texts(self) -> bool: ...

    def write(self, data: bytes) -> None:
        """Any piece of the STOMP byte stream. Ignored after close()."""
        ...

    def write_frames(self, frames: list[bytes]) -> None:
        """Each one whole STOMP frame, or a lone LF. One write to the socket for all of them."""
        ...

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        """A piece of one large STOMP frame. Nothing else may be written between `first` and `last`, but a
        lone LF, which is left out. text: with `first`, all of the frame is valid UTF-8."""
        ...

    def take_authorization(self) -> str | None:
        """Takes out what its HTTP request said in place of CONNECT's login ("": nothing). None: CONNECT says it."""
        ...

    def buffered(self) -> int:
        """Bytes waiting for the socket."""
        ...

    def held(self) -> int:
        """Bytes in memory: those, and what has come and is not received yet."""
        ...

    def pause_reading(self) -> None:
        """Idempotent. What has been read already may still arrive."""
        ...

    def resume_reading(self) -> None:
        """Idempotent."""
        ...

    def close(self, reason: Reason) -> None:
        """Flush, say goodbye, wait a little so that the peer can read the last frame; then it is over.

        Nothing is received after this call but `lost()`. Idempotent."""
        ...

    def abort(self) -> None:
        """End at once, dropping what was not flushed."""
        ...


class _Gone:
    """The channel of a session whose connection is over: takes everything, does nothing."""

    id = 0
    peer = ""
    transport_name = ""
    framed = False
    texts = False
    tls_subject: str | None = None
    user = ""
    certificate: PeerCertificate | None = None
    tls_name = ""
    reason: Reason | None = None

    def write(self, data: bytes) -> None:
        pass

    def write_frames(self, frames: list[bytes]) -> None:
        pass

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        pass

    def take_authorization(self) -> str | None:
        """See Channel."""
        return None

    def buffered(self) -> int:
        return 0

    def held(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, reason: Reason) -> None:
        pass

    def abort(self) -> None:
        pass


GONE: Channel = _Gone()
"""Shared by all sessions that are over."""


class SessionLike(Protocol):
    """What a channel calls. No call comes before `EdgeLike.open` has returned."""

    def receive(self, data: bytes) -> None:
        """Bytes of the STOMP stream, cut anywhere."""
        ...

    @property
    def whose(self) -> str:
        """Who shares its turns and what is fair for all: its user, or its address."""
        ...

    def heard(self) -> None:
        """The peer has shown that it lives, without a byte of STOMP (a WebSocket ping)."""
        ...

    def fail(self, code: Code, detail: str) -> None:
        """What the peer sends cannot be read any further: one ERROR, then the end."""
        ...

    def eof(self) -> None:
        """The peer will send no more, but may still read. The session must close() sooner or later."""
        ...

    def lost(self) -> None:
        """The connection is over. Exactly once, and last."""
        ...

    def pause_writing(self) -> None:
        """The socket does not take it as fast as it comes."""
        ...

    def resume_writing(self) -> None:
        """The backlog has gone."""
        ...


class EdgeLike(Protocol):
    """Makes sessions. rounds: how the connections of its loop share the time for reading."""

    rounds: Rounds

    def open(self, channel: Channel) -> SessionLike:
        """Called per accepted connection (TLS: after the handshake; WebSocket: before it, so that limits and
        the login timeout cover it). May close the channel at once."""
        ...

    def revoked_at(self, acceptors: frozenset[str], revoked: frozenset[Issued]) -> None:
        """These certificates do not count any more at these acceptors: their connections end."""
        ...

    def open_from(self, ip: str) -> int:
        """Connections that are open from an address, as peers name it without their port ("[::1]")."""
        ...
