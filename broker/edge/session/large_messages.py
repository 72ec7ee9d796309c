"""A large MESSAGE on its way to a client: headers, then pieces of the file, then NUL.

A client of texts (WebSocket) has to be told at the beginning whether all of it is valid UTF-8: for such clients a body
is read twice (utf8_check.py).

Rule: one body at a time per connection, at most PIECE bytes in memory; the next piece is read when the
socket has room. Frames that come meanwhile wait behind it, because STOMP cannot interleave.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

from broker.core.address import AckMode, Outcome
from broker.core.commands import Settle
from broker.core.effects import Deliver
from broker.core.reasons import Reason
from broker.link.owner_port import Away, BodyReader, Rotten

from ..subscriptions.subscription import SlotSubscription
from ..subscriptions.utf8_check import TextCheck
from ..transport import framelog
from ..transport.channel import Channel
from ..transport.timers import Handle
from .compressing import Inflating, length_of
from .parts import EdgeServices

log = logging.getLogger("stampede.edge")

PIECE = 256 * 1024


class BodyOutbound(Protocol):
    """Where it goes out."""

    @property
    def writable(self) -> bool: ...
    def write_out(self, out: list[bytes]) -> None: ...
    def left(self, nbytes: int) -> None: ...
    def large_done(self, sub: SlotSubscription, effect: Deliver) -> None: ...


class BodyClient(Protocol):
    """The connection it goes to."""

    @property
    def id(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def edge(self) -> EdgeServices: ...
    @property
    def outbound(self) -> BodyOutbound: ...
    @property
    def channel(self) -> Channel: ...
    def abort(self, reason: Reason, detail: str = "") -> None: ...


class LargeDelivery:
    """Streams one blob to one connection. A body that is lost is no message at all: nothing of its frame leaves, it
    goes to the dead letters, and the log names it."""

    __slots__ = (
        "_begun", "_check", "_effect", "_left", "_reader", "_reading", "_seen", "_session", "_sub", "_text", "_timer",
    )  # fmt: skip

    def __init__(self, session: BodyClient, sub: SlotSubscription, effect: Deliver) -> None:
        self._session = session
        self._sub = sub
        self._effect = effect
        self._left = length_of(effect.run)
        # Opened now: the message may be settled (and its file unlinked) before we get to read it.
        self._reader = self._open()
        self._check: TextCheck | None = None
        if session.channel.texts:
            self._check = TextCheck(self._open(), self._left, self._checked)
        self._reading = self._begun = self._text = False
        self._seen = 0
        """Bytes that had not left when it was last looked."""
        self._timer: Handle | None = None

    def _open(self) -> BodyReader:
        blob, edge = self._effect.run.blob, self._session.edge
        assert blob is not None
        reader = edge.port.read_body(self._sub.slot, blob, self._sub.consumer, self._effect.run.ids[0])
        return reader if self._left == blob.length else Inflating(reader, edge.beats)

    def start(self) -> None:
        """Called when everything before it has been written."""
        self._watch()
        if self._check is not None:
            self._reading = True
            self._check.start(self._head())
        else:
            self.pump()

    def _checked(self, text: bool) -> None:
        """The client is one of texts; is this one."""
        self._reading, self._text = False, text
        if not self._session.closed:
            self.pump()

    def _head(self) -> bytes:
        return self._sub.render(self._effect.run)

    def _watch(self) -> None:
        """A client that stops reading in the middle of a body, and promises no heart-beat, would stay for ever."""
        edge = self._session.edge
        self._seen = self._left + self._session.channel.buffered()
        self._timer = edge.beats.deadline(edge.clock.monotonic() + edge.settings.edge.frame_timeout_s, self._look)

    def _look(self) -> None:
        session = self._session
        if session.closed:
            return
        if not self._reading and self._left + session.channel.buffered() >= self._seen:
            seconds = session.edge.settings.edge.frame_timeout_s
            session.abort(Reason.SLOW_CONSUMER, f"nothing of a large body was read for {seconds:g} s (frame_timeout_s)")
            return
        self._watch()

    def pump(self) -> None:
        """Reads the next piece unless the socket is full or a read is under way."""
        if self._reading or not self._session.outbound.writable:
            return
        if self._left:
            self._reading = True
            self._reader.read(min(PIECE, self._left), self._arrived)
        else:
            self._begin()
            self._session.channel.write_part(b"\0", False, True)
            self.close()
            self.consumed()
            self._session.outbound.large_done(self._sub, self._effect)

    def _arrived(self, data: bytes | None, why: str) -> None:
        self._reading = False
        session = self._session
        if session.closed:
            return
        if not data and isinstance(why, Rotten) and not self._begun:
            self._skip(why)
            return
        if not data:
            # Half a frame is out: nothing but the end of the connection can tell the client.
            reason = Reason.OWNER_STOPPED if isinstance(why, Away) else Reason.INTERNAL
            session.abort(reason, f"large body cannot be read: {why or 'file too short'}")
            return
        self._begin()
        self._left -= len(data)
        session.channel.write_part(data, False, False)
        session.outbound.left(len(data))
        self.pump()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            head = self._head()
            if self._session.edge.log_frames:
                framelog.sent(self._session.channel, [head])
            self._session.channel.write_part(head, True, False, self._text)

    def consumed(self, subs: Collection[SlotSubscription] | None = None) -> None:
        """In AckMode.AUTO it is, when all of it is there; or when its client leaves politely (these, or all it has)
        and gets it on its way out."""
        if self._sub.ack is AckMode.AUTO and (subs is None or self._sub in subs):
            self._session.edge.port.arrived(self._sub.consumer, self._effect.run.ids[0])

    def _skip(self, why: str) -> None:
        """Its receipt is not asked for, and its neighbours on this connection know nothing of it."""
        session, sub, run = self._session, self._sub, self._effect.run
        log.error(
            "message %d of %s cannot be delivered: %s", run.ids[0], sub.address, why, extra={"address": sub.address}
        )
        self.close()
        if sub.ack is AckMode.AUTO:
            session.edge.port.arrived(sub.consumer, run.ids[0], Outcome.UNREADABLE)
        else:
            session.edge.port.submit([Settle(sub.slot, session.id, 0, sub.consumer, [run.ids[0]], Outcome.UNREADABLE)])
        session.outbound.large_done(sub, self._effect)

    def close(self) -> None:
        self._reader.close()
        if self._check is not None:
            self._check.close()
        if self._timer is not None:
            self._session.edge.beats.cancel(self._timer)
            self._timer = None


class Line:
    """What waits for its turn behind the large body at its head: frames, more bodies, and the end of it all."""

    __slots__ = ("_end", "_items", "_nbytes", "_session")

    def __init__(self, session: BodyClient) -> None:
        self._session = session
        self._items: deque[LargeDelivery | list[bytes]] = deque()
        self._nbytes = 0
        self._end: Callable[[], None] | None = None

    def body(self, delivery: LargeDelivery) -> None:
        """Starts it when it is the first."""
        if self._end is not None:
            delivery.close()
            return
        self._items.append(delivery)
        if len(self._items) == 1:
            delivery.start()

    def frames(self, out: list[bytes]) -> int:
        """Returns the bytes of frames that wait. Nothing comes behind the end."""
        if self._end is None:
            self._items.append(out)
            self._nbytes += sum(map(len, out))
        return self._nbytes

    @property
    def nbytes(self) -> int:
        """Of frames that wait, and of the piece of a body under way."""
        return self._nbytes + PIECE

    def end(self, then: Callable[[], None]) -> None:
        """`then` is called once everything that waits now has been written."""
        if self._end is None:
            self._end = then

    def next(self) -> bool:
        """The body at the head is out. True while there is another one; else the line is done with."""
        self._items.popleft()
        while self._items:
            head = self._items[0]
            if isinstance(head, LargeDelivery):
                head.start()
                return True
            self._items.popleft()
            self._session.outbound.write_out(head)
        if self._end is not None:
            self._end()
        return False

    def pump(self) -> None:
        """The socket takes more."""
        if self._items and isinstance(self._items[0], LargeDelivery):
            self._items[0].pump()

    def consumed(self, subs: Collection[SlotSubscription] | None) -> None:
        for item in self._items:
            if isinstance(item, LargeDelivery):
                item.consumed(subs)

    def close(self) -> None:
        """Nobody will read it."""
        for item in self._items:
            if isinstance(item, LargeDelivery):
                item.close()
        self._items.clear()
