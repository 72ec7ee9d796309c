"""Two-way streams of messages between processes, as the code above sees them.

Rule: callbacks in the loop's thread, in order, never from within a call to the same object; a stream that broke is
over: nobody repairs it, one dials anew. gRPC is behind it in rpc/, a simulated network in tests.
"""

from __future__ import annotations

from typing import Protocol


class StreamEnd(Protocol):
    """Who uses a stream."""

    def on_message(self, message: bytes) -> None: ...
    def on_closed(self, why: str) -> None:
        """Called exactly once, whoever closed it. Nothing comes after it. What was sent may or may not have arrived."""
        ...


class Stream(Protocol):
    """One end of it."""

    peer: str
    """Where the other end is, for logs and refusals."""

    def send(self, message: bytes) -> None:
        """Queues a message; ignored when the stream is over. Messages arrive whole, in order, at most once."""
        ...

    @property
    def pending(self) -> int:
        """Bytes queued and not yet given to the transport."""
        ...

    def close(self, why: str) -> None:
        """Ends it after what was queued has left (bounded by a second); the other end hears `why` if it can."""
        ...

    def abort(self, why: str) -> None:
        """Ends it now."""
        ...


class Dialer(Protocol):
    """Opens streams to other processes."""

    def dial(self, address: str, service: str, end: StreamEnd) -> Stream:
        """At once; what is sent before the connection stands waits for it. A peer that cannot be reached (or does not
        answer within dial_timeout_s) is told by end.on_closed, "refused: …" when nobody listens there."""
        ...


class Acceptor(Protocol):
    """Takes streams from other processes."""

    def accept(self, service: str, stream: Stream) -> StreamEnd: ...


EDGE_SERVICE = "edge"
"""Edges to owners (link.proto)."""
REPLICA_SERVICE = "replica"
"""Leaders to followers (replica.proto)."""
