"""What goes out on one connection: frames gather here and leave in one write.

Rule: frames leave in the order they came; one write per turn, sooner only when very much has gathered; room is given
back to an owner only while the client reads. A connection whose client does not read for too long ends. Must not know
what is asked or answered, nor what else the end of a connection takes: that is the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from broker.core.effects import Deliver
from broker.core.message import BLOB
from broker.core.reasons import Reason
from broker.wire.writer import receipts

from ..subscriptions.subscription import SlotSubscription
from ..transport import framelog
from ..transport.channel import GONE
from .large_messages import BodyOutbound, LargeDelivery, Line
from .parts import OpenConnection

GATHER_BYTES = 1024 * 1024
"""Deliveries gathered for one write; more than that leave at once, so that one turn cannot fill the memory."""


class OutboundClient(OpenConnection, Protocol):
    """The connection, as its writing half uses it."""

    @property
    def outbound(self) -> BodyOutbound: ...
    @property
    def handles(self) -> Mapping[bytes, SlotSubscription]: ...


class Outbound:
    """The writing half of a session, and the sink of its subscriptions.

    out   what has gathered.
    writable   the socket takes more.    nbytes   all that has left; any byte is a heart-beat."""

    __slots__ = (
        "_channel",
        "_closed",
        "_dirty",
        "_edge",
        "_gathered",
        "_line",
        "nbytes",
        "out",
        "session",
        "writable",
    )

    def __init__(self, session: OutboundClient) -> None:
        self.session = session
        self._edge = session.edge
        self._channel = session.channel
        self.out: list[bytes] = []
        self._gathered = 0
        self._dirty = False
        self._closed = False
        self._line: Line | None = None
        self.writable = True
        self.nbytes = 0

    @property
    def clear(self) -> bool:
        """Nothing waits for the socket."""
        return self._line is None and self.writable

    @property
    def waiting(self) -> int:
        """Bytes that wait behind a large body, and of it."""
        return self._line.nbytes if self._line is not None else 0

    def write(self, data: bytes) -> None:
        """One frame or more; goes out with the next flush. Framed channels get one frame a call.

        While effects are being handed out the edge flushes every touched outbound once; otherwise the method that
        called does."""
        self.out.append(data)
        if not self._dirty and self._edge.dispatching:
            self._dirty = True
            self._edge.touched.append(self)

    def receipts(self, ids: list[bytes]) -> None:
        self._edge.counters.receipts += len(ids)
        if self._channel.framed:
            for id in ids:
                self.write(receipts([id]))
        else:
            self.out.append(receipts(ids))  # write(), in line
            if not self._dirty and self._edge.dispatching:
                self._dirty = True
                self._edge.touched.append(self)

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        run = effect.run
        edge = self._edge
        edge.counters.deliveries += len(run.records)
        if run.flags & BLOB:
            self._deliver_large(sub, effect)
            return
        if self._channel.framed:
            for frame in sub.frames(run):
                self.write(frame)
        else:
            self.out.append(sub.render(run))
            if not self._dirty and edge.dispatching:
                self._dirty = True
                edge.touched.append(self)
        if sub.owe(effect) and self.writable and self._line is None:
            edge.grant(sub)
        self._gathered += effect.cost
        if self._gathered > GATHER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered: once per connection and turn."""
        self._dirty = False
        self._gathered = 0
        out = self.out
        if not out or self._closed:
            return
        self.out = []
        if self._line is not None:
            waiting = self._line.frames(out)
            if waiting > self._edge.settings.edge.max_outbox_bytes:
                self.session.abort(Reason.SLOW_CONSUMER, f"{waiting} bytes wait behind a large body")
            return
        edge = self._edge
        if edge.log_frames or self._channel.framed:
            self.write_out(out)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        # write_out() in line: nearly all that leaves leaves here.
        self.nbytes += len(data)
        edge.counters.bytes_out += len(data)
        self._channel.write(data)
        if not self.writable:
            self._bound()

    def write_out(self, out: list[bytes]) -> None:
        """These frames' turn has come."""
        size = sum(map(len, out))
        self.nbytes += size
        self._edge.counters.left(size)
        if self._edge.log_frames:
            framelog.sent(self._channel, out)
        if self._channel.framed:
            self._channel.write_frames(out)
        else:
            self._channel.write(out[0] if len(out) == 1 else b"".join(out))
        if not self.writable:
            self._bound()

    def _bound(self) -> None:
        """The socket is full: a client that does not read may have so much wait, and no more."""
        if self._channel.buffered() > self._edge.settings.edge.max_outbox_bytes:
            waiting = f"{self._channel.buffered()} bytes wait for a client that does not read"
            self.session.abort(Reason.SLOW_CONSUMER, waiting)

    def left(self, nbytes: int) -> None:
        """A piece of a large body has gone to the socket: any byte is a heart-beat."""
        self.nbytes += nbytes
        self._edge.counters.left(nbytes)

    def fault(self) -> None:
        """See Session.fault."""
        self.session.fault()

    # ── large bodies ───────────────────────────────────────────────────────────────────────────────

    def _deliver_large(self, sub: SlotSubscription, effect: Deliver) -> None:
        self.flush()
        if self._line is None:
            self._line = Line(self.session)
            self._edge.holding.note(self.session)
        self._line.body(LargeDelivery(self.session, sub, effect))

    def large_done(self, sub: SlotSubscription, effect: Deliver) -> None:
        """The large body at the head of the line is out: what waited behind it goes. Room is given back when the
        line is empty, so that what gathers behind a slow body is bounded by the rooms."""
        assert self._line is not None
        sub.owe(effect)
        if self._line.next():
            return
        self._line = None
        if self.writable:
            self._give_room()

    def consumed(self, subs: Collection[SlotSubscription] | None = None) -> None:
        """The client leaves, or ends these: what is on its way to it in AckMode.AUTO was taken."""
        if self._line is not None:
            self._line.consumed(subs)

    # ── the socket ─────────────────────────────────────────────────────────────────────────────────

    def pause(self) -> None:
        """The socket's buffer is full: rooms are not granted back until it has drained."""
        self.writable = False
        self._edge.holding.note(self.session)

    def resume(self) -> None:
        self.writable = True
        if self._line is not None:
            self._line.pump()
        else:
            self._give_room()

    def _give_room(self) -> None:
        for sub in self.session.handles.values():
            if sub.owed > sub.quarter:
                self._edge.grant(sub)
        self._edge.submit_grants()

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def after(self, then: Callable[[], None]) -> bool:
        """Calls back when the large bodies that are under way have left. False: none is."""
        if self._line is None:
            return False
        self._line.end(then)
        return True

    def close(self) -> None:
        """The session has ended: nothing more leaves."""
        self._closed = True
        if self._line is not None:
            self._line.close()
            self._line = None

    def over(self) -> None:
        """The connection is over: no rings of objects."""
        self._channel = GONE
        del self.session
