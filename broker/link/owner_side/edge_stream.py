"""EdgeStream: one stream from an edge, from its first message to its end.

Rule: it only remembers what is so of this stream (whose it is, whether it is over); what a message
means is decided by the link server. Must not know slots.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.seams.stream import Ended, Stream

from .edge_peer import EdgePeer


class StreamUser(Protocol):
    """What has accepted it."""

    def on_message(self, end: EdgeStream, data: bytes) -> None: ...
    def on_closed(self, end: EdgeStream, why: Ended) -> None: ...


class EdgeStream:
    """peer   None: it has not said who it is.
    over      it was refused: what still comes is not looked at.
    held      what came behind its Hello while that waits (session_ends.py), as much as an edge sends unanswered; None:
              it does not wait."""

    __slots__ = ("_listener", "held", "on_message", "over", "peer", "stream")

    def __init__(self, listener: StreamUser, stream: Stream) -> None:
        self._listener = listener
        # Not a method: that would be a call of Python more for each message of an edge.
        self.on_message: Callable[[bytes], None] = partial(listener.on_message, self)
        self.stream = stream
        self.peer: EdgePeer | None = None
        self.over = False
        self.held: list[bytes] | None = None

    def belongs(self, peer: EdgePeer) -> None:
        """It has said who it is."""
        self.peer = peer

    def is_over(self) -> None:
        """It was refused."""
        self.over = True

    def wait(self) -> None:
        """Its Hello waits, and with it what comes behind."""
        self.held = []

    def go_on(self) -> list[bytes]:
        """Its Hello waits no more; returns what came behind it."""
        held, self.held = self.held or [], None
        return held

    def on_closed(self, why: Ended) -> None:
        self._listener.on_closed(self, why)
