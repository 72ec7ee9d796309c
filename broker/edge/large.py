"""A large MESSAGE on its way to a client: headers, then pieces of the file, then NUL.

Rule: one body at a time per connection, at most PIECE bytes in memory; the next piece is read when the
socket has room. Frames that come meanwhile wait behind it, because STOMP cannot interleave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.effects import Deliver
from broker.core.reasons import Reason
from broker.link.port import BodyReader

from .subscription import Subscription

if TYPE_CHECKING:
    from .session import Session

PIECE = 256 * 1024


class LargeDelivery:
    """Streams one blob to one connection."""

    __slots__ = ("_effect", "_first", "_left", "_reader", "_reading", "_session", "_sub")

    def __init__(self, session: Session, sub: Subscription, effect: Deliver) -> None:
        blob = effect.run.blob
        assert blob is not None
        self._session = session
        self._sub = sub
        self._effect = effect
        self._left = blob.length
        # Opened now: the message may be settled (and its file unlinked) before we get to read it.
        self._reader: BodyReader = session.edge.port.read_body(sub.slot, blob)
        self._reading = False
        self._first = True

    def start(self) -> None:
        """Called when everything before it has been written."""
        head = self._sub.render(self._effect.run)
        self._session.channel.write_part(head, True, False)
        self.pump()

    def pump(self) -> None:
        """Reads the next piece unless the socket is full or a read is under way."""
        if self._reading or not self._session.writable:
            return
        if self._left:
            self._reading = True
            self._reader.read(min(PIECE, self._left), self._arrived)
        else:
            self._session.channel.write_part(b"\0", False, True)
            self._reader.close()
            self._session.large_done(self._sub, self._effect)

    def _arrived(self, data: bytes | None, why: str) -> None:
        self._reading = False
        session = self._session
        if session.closed:
            return
        if not data:
            # Half a frame is out: nothing but the end of the connection can tell the client.
            session.abort(Reason.INTERNAL, f"large body cannot be read: {why or 'file too short'}")
            return
        self._left -= len(data)
        session.channel.write_part(data, False, False)
        session.edge.counters.bytes_out += len(data)
        self.pump()

    def close(self) -> None:
        self._reader.close()
