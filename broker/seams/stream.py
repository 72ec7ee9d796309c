"""Two-way streams of messages between processes, as the code above sees them.

Rule: callbacks in the loop's thread, in order, never from within a call to the same object; a stream that broke is
over: nobody repairs it, one dials anew. gRPC is behind it in rpc/, a simulated network in tests.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol


class EndKind(IntEnum):
    """How a stream came to its end. The numbers travel (rpc/streams.py)."""

    CLOSED = 0
    """One of the two ends closed it, or gave it up."""
    ALIVE = 1
    """The other end closed it and goes on: nobody need think that it has died."""
    REFUSED = 2
    """Nobody listens at the address."""
    UNREACHED = 3
    """It never answered."""
    LOST = 4
    """The connection broke."""
    FOREIGN = 5
    """What answers is no component of this release."""


class Ended(NamedTuple):
    """Why a stream ended: `detail` is for people, `kind` for decisions."""

    detail: str
    kind: EndKind = EndKind.CLOSED

    def __str__(self) -> str:
        return self.detail


class StreamEnd(Protocol):
    """What a stream tells its user."""

    def on_message(self, message: bytes) -> None: ...
    def on_closed(self, why: Ended) -> None:
        """Called exactly once, whichever end closed it. Nothing comes after it. What was sent may
        or may not have arrived."""
        ...


class Stream(Protocol):
    """One end of it."""

    peer: str
    """Where the other end is, for logs and refusals."""
    names: frozenset[str]
    """Which components its certificate is for (cluster.role_domain); none: any of its role."""

    def send(self, message: bytes) -> None:
        """Queues a message; ignored when the stream is over. Messages arrive whole, in order, at most once."""
        ...

    @property
    def pending(self) -> int:
        """Bytes queued and not yet given to the transport."""
        ...

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        """Ends it after what was queued has left (bounded by a second); the other end hears both if it can."""
        ...

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        """Ends it now."""
        ...


class Dialer(Protocol):
    """Opens streams to other processes."""

    def dial(self, address: str, service: str, end: StreamEnd) -> Stream:
        """At once; what is sent before the connection stands waits for it. A peer that cannot be reached (or does not
        answer within dial_timeout_s) is told by end.on_closed, REFUSED when nobody listens there."""
        ...


class Acceptor(Protocol):
    """Takes streams from other processes."""

    def accept(self, service: str, stream: Stream) -> StreamEnd: ...


EDGE_SERVICE = "edge"
"""Edges to owners (link.proto)."""
REPLICA_SERVICE = "replica"
"""Leaders to followers (replica.proto)."""
