"""One client connection: bytes in, commands out; effects in, frames out.

Rule: one submit per read, one write per turn; answers leave in frame order; whatever goes wrong ends in one
ERROR frame and a named close reason. Must not know queues, slots' insides, or what kind of socket it has.
"""

from __future__ import annotations

import logging
from asyncio import Task
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.config.acceptor import AcceptorSettings
from broker.core.address import AckMode
from broker.core.commands import Command, Grant
from broker.core.effects import Deliver
from broker.core.errors import Code, RefusedError
from broker.core.message import BLOB
from broker.core.reasons import Reason
from broker.wire.connection import Connection, Role
from broker.wire.events import Acks, BodyData, BodyEnd, BodyStart, Event, Frame, Sends, Violation
from broker.wire.versions import Version
from broker.wire.writer import error_frame, receipts

from . import acking, authorising, connecting, control, framelog
from .answers import Answers, Then
from .channel import GONE, Channel
from .entrance import Entrance
from .large import LargeDelivery, Line
from .publishing import Publisher
from .subscription import Subscription
from .transactions import Transactions
from .watch import Watch

if TYPE_CHECKING:
    from .crowds import Crowds
    from .edge import Edge
    from .permissions import Rights

log = logging.getLogger("stampede.edge")

GATHER_BYTES = 1024 * 1024
"""Deliveries gathered for one write; more than that leave at once, so that one turn cannot fill the memory."""
AT_ONCE = (
    Reason.HEARTBEAT_MISSED, Reason.SLOW_CONSUMER, Reason.OWNER_STOPPED, Reason.WEBSOCKET_PROTOCOL, Reason.INTERNAL,
)  # fmt: skip
"""Ends that do not wait for a large body on its way out: nobody reads it, or nobody can go on writing it."""

NO_SUBSCRIPTIONS: dict[str, Subscription] = {}
NO_HANDLES: dict[bytes, Subscription] = {}


class Session:
    """See the head of this file. Fields that most connections never need are made on first use."""

    __slots__ = (
        "_doomed", "_holds", "_line", "_parked", "_transactions", "_used", "answers", "batch", "bytes_in", "bytes_out",
        "channel", "client_id", "closed", "connected", "crowds", "dirty", "edge", "ended", "entrance", "gathered",
        "handles", "id", "leaving", "login_task", "out", "principal", "publisher", "rights", "subscriptions", "watch",
        "wire", "writable",
    )  # fmt: skip

    def __init__(self, edge: Edge, channel: Channel, entrance: Entrance) -> None:
        self.edge = edge
        self.channel = channel
        self.entrance = entrance
        self.id = channel.id
        self.wire = Connection(Role.SERVER, entrance.wire, entrance.memo)
        self.answers = Answers()
        self.batch: list[Command] = []
        self.out: list[bytes] = []
        self.gathered = 0
        self.publisher: Publisher | None = None
        self.subscriptions = NO_SUBSCRIPTIONS
        self.handles = NO_HANDLES
        self.client_id = ""
        self.principal = ""
        self.rights: Rights | None = None
        self.connected = False
        self.leaving = False
        self.ended = False
        self.closed = False
        self.writable = True
        self.dirty = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.login_task: Task[None] | None = None
        self._transactions: Transactions | None = None
        self._parked: list[Event] | None = None
        self._line: Line | None = None
        self._doomed: dict[int, str] | None = None
        self._holds: set[str] | None = None
        self._used: set[int] | None = None
        self.crowds: Crowds | None = None
        self.watch = Watch(self)

    @property
    def version(self) -> Version:
        return self.wire.version

    @property
    def acceptor(self) -> AcceptorSettings:
        """Parameters of the port it came in by."""
        return self.entrance.settings

    @property
    def transactions(self) -> Transactions:
        if self._transactions is None:
            self._transactions = Transactions(self.edge.settings.edge)
        return self._transactions

    # ── in ─────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, data: bytes) -> None:
        """A piece of the client's byte stream, cut anywhere."""
        if self.closed or self.leaving:
            return
        self.bytes_in += len(data)
        self.edge.counters.bytes_in += len(data)
        was_connected = self.connected
        try:
            self._take(self.wire.receive(data))
            if self.connected and not was_connected:
                # The wire holds back what came behind CONNECT until the login was decided.
                self._take(self.wire.receive(b""))
        except Exception:
            self.fault()
        self.watch.after_read()

    def heard(self) -> None:
        """The client lives, though it sent no byte of STOMP."""
        if not self.closed:
            self.watch.heard()

    def _take(self, events: list[Event]) -> None:
        if self.edge.log_frames:
            framelog.received(self, events)
        if self.edge.rates is not None:
            self.edge.rates.received(self, events)
        if self._parked is not None:
            self._parked += events
        elif events:
            self._process(events)

    def _process(self, events: list[Event]) -> None:
        counters = self.edge.counters
        for position, event in enumerate(events):
            try:
                kind = type(event)
                if kind is Sends:
                    counters.frames_in += len(event.records)  # type: ignore[union-attr]
                    publisher = self.publisher
                    if publisher is None:
                        publisher = self.publisher = Publisher(self)
                    publisher.sends(event)  # type: ignore[arg-type]
                elif kind is Acks:
                    counters.frames_in += len(event.ids)  # type: ignore[union-attr]
                    acking.acks(self, event)  # type: ignore[arg-type]
                else:
                    self._other(event)
            except RefusedError as refused:
                self.fail(refused.code, refused.detail, _receipt_of(event))
            if self.closed or self.leaving:
                break
            if self._parked is not None:
                self._parked += events[position + 1 :]
                break
        self.submit()
        if not self.closed:
            self.flush()

    def _other(self, event: Event) -> None:
        kind = type(event)
        if kind is Frame:
            assert isinstance(event, Frame)
            self.edge.counters.frames_in += 1
            if event.command in ("CONNECT", "STOMP"):
                connecting.connect(self, event)
            else:
                control.CONTROL[event.command](self, event)
        elif kind is BodyData:
            assert isinstance(event, BodyData) and self.publisher and self.publisher.large
            self.publisher.large.data(event.data)
        elif kind is BodyStart:
            assert isinstance(event, BodyStart)
            self.edge.counters.frames_in += 1
            if self.publisher is None:
                self.publisher = Publisher(self)
            self.publisher.body_start(event)
        elif kind is BodyEnd:
            assert self.publisher and self.publisher.large
            self.publisher.large.end()
        else:
            assert isinstance(event, Violation)
            self.fail(event.code, event.detail, event.receipt)

    def submit(self) -> None:
        """Sends the batch of this read on its way; pauses the socket when the owner cannot keep up."""
        if self.publisher is not None:
            self.publisher.end_of_read()
        if self.batch:
            batch, self.batch = self.batch, []
            if self.crowds is not None:
                batch = self.crowds.sift(batch)
            if self.edge.port.submit(batch) and not self.closed:
                self.edge.pause(self)

    def park(self) -> None:
        """Later frames wait until unpark(): something before them is not finished yet."""
        if self._parked is None:
            self._parked = []
            self.hold_reading("park")

    def unpark(self) -> None:
        events, self._parked = self._parked, None
        self.release_reading("park")
        if self.closed:
            return
        try:
            held_back = self.wire.receive(b"")
            if self.edge.rates is not None:
                self.edge.rates.received(self, held_back)
            self._process([] if self.leaving else (events or []) + held_back)
        except Exception:
            self.fault()
        if self.ended and self._parked is None:
            self._hang_up()

    def hold_reading(self, why: str) -> None:
        """Stops reading the socket until every holder has released it."""
        if self._holds is None:
            self._holds = set()
        self._holds.add(why)
        self.channel.pause_reading()

    def release_reading(self, why: str) -> None:
        if self._holds is not None and why in self._holds:
            self._holds.discard(why)
            if not self._holds and not self.closed:
                self._holds = None
                self.watch.heard()
                self.channel.resume_reading()

    @property
    def reading(self) -> bool:
        """False while it is us who are not reading: silence is not the client's fault then."""
        return not self._holds

    @property
    def idle(self) -> bool:
        """A point at which its end takes nothing from the client but the connection: nothing is asked, half read, half
        written, or part of a transaction."""
        return (
            not (self.leaving or self.closed)
            and self.answers.quiet
            and not self._transactions
            and self._parked is None
            and not (self.crowds is not None and self.crowds.nbytes)
            and self._line is None
            and self.writable
            and not self.wire.mid_frame
        )

    # ── answers ────────────────────────────────────────────────────────────────────────────────────

    def ask(self, receipt: bytes | None) -> int:
        """Number of a request whose receipt is wanted; 0 when none is."""
        return 0 if receipt is None else self.answers.ask([receipt])

    def ask_parts(self, receipts: list[bytes] | None, parts: int) -> Sequence[int]:
        """Numbers for the parts of one request to several slots: the last one has the receipts, and is answered after
        the others. Zeros when nobody waits."""
        if not receipts:
            return (0,) * parts
        ask = self.answers.ask
        return [*(ask([]) for _ in range(parts - 1)), ask(receipts)]

    def answer_now(self, ids: list[bytes]) -> None:
        """Receipts of something already done; they still wait for their turn."""
        if self.answers.quiet:
            self._write_receipts(ids)
        else:
            self.done(self.answers.ask(ids))

    def done(self, seq: int) -> None:
        """Request `seq` is carried out."""
        if self.crowds is not None:
            self.crowds.answered(seq)
        ids, thens = self.answers.done(seq)
        if ids:
            self._write_receipts(ids)
        for then in thens:
            then()

    def _write_receipts(self, ids: list[bytes]) -> None:
        self.edge.counters.receipts += len(ids)
        if self.channel.framed:
            for id in ids:
                self.write(receipts([id]))
        else:
            self.write(receipts(ids))

    def slots(self) -> list[int]:
        """Where this session has work that may not be durable yet."""
        return sorted(self._used or ())

    def use(self, slot: int) -> None:
        """Durable messages went to this slot, or acknowledgements."""
        if self._used is None:
            self._used = set()
        self._used.add(slot)

    def leave(self, ids: list[bytes], then: Then | None = None) -> None:
        """DISCONNECT: answer when everything before is answered, then close."""
        self.leaving = True
        seq = self.answers.ask(ids, then or self._left)
        self.done(seq)

    def _left(self, reason: Reason = Reason.CLIENT_DISCONNECT) -> None:
        self.flush()
        self.close(reason)

    def deletes(self, seqs: Sequence[int], queue: str) -> None:
        """These requests delete a durable subscription."""
        if self._doomed is None:
            self._doomed = {}
        self._doomed.update(dict.fromkeys(seqs, queue))

    def deleted(self, seqs: Sequence[int]) -> None:
        """It is gone."""
        for seq in seqs:
            if self._doomed is not None:
                self._doomed.pop(seq, None)

    def refused(self, seq: int, code: Code, detail: str) -> None:
        """The owner did not carry out request `seq`: its turn to be answered is the ERROR's, also when DISCONNECT
        came behind it. A request that nobody waits for (seq 0) has no turn."""
        if self.closed:
            return
        if self._doomed and seq in self._doomed and code is Code.NO_SUCH_SUBSCRIPTION:
            # Its queue went without this edge hearing of it: the name must not stay behind.
            self.edge.directory.names.release(self._doomed.pop(seq), lambda answer: None)
        if code is Code.NOT_ALLOWED:
            detail = authorising.not_created(self, detail)
        if not seq:
            self.fail(code, detail, at_once=self.leaving)
            return
        receipt = self.answers.first_receipt(seq)
        self.leaving = True
        self.answers.instead(seq, partial(self._fail, code, detail, receipt))
        self.done(seq)

    # ── out ────────────────────────────────────────────────────────────────────────────────────────

    def write(self, data: bytes) -> None:
        """One frame or more; goes out with the next flush. Framed channels get one frame a call.

        While effects are being handed out the edge flushes every touched session once; otherwise whoever
        called does."""
        self.out.append(data)
        if not self.dirty and self.edge.dispatching:
            self.dirty = True
            self.edge.touched.append(self)

    def deliver(self, sub: Subscription, effect: Deliver) -> None:
        run = effect.run
        self.edge.counters.deliveries += len(run)
        if run.flags & BLOB:
            self._deliver_large(sub, effect)
            return
        if self.channel.framed:
            for frame in sub.frames(run):
                self.write(frame)
        else:
            self.write(sub.render(run))
        if sub.owe(effect) and self.writable and self._line is None:
            self.edge.grant(sub)
        self.gathered += effect.cost
        if self.gathered > GATHER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered: once per connection and turn."""
        self.dirty = False
        self.gathered = 0
        out = self.out
        if not out or self.closed:
            return
        self.out = []
        if self._line is not None:
            waiting = self._line.frames(out)
            if waiting > self.edge.settings.edge.max_outbox_bytes:
                self.abort(Reason.SLOW_CONSUMER, f"{waiting} bytes wait behind a large body")
            return
        self.write_out(out)

    def write_out(self, out: list[bytes]) -> None:
        """These frames' turn has come."""
        size = sum(map(len, out))
        self.bytes_out += size
        self.edge.counters.bytes_out += size
        if self.edge.log_frames:
            framelog.sent(self, out)
        if self.channel.framed:
            self.channel.write_frames(out)
        else:
            self.channel.write(out[0] if len(out) == 1 else b"".join(out))
        if not self.writable and self.channel.buffered() > self.edge.settings.edge.max_outbox_bytes:
            self.abort(Reason.SLOW_CONSUMER, f"{self.channel.buffered()} bytes wait for a client that does not read")

    def _deliver_large(self, sub: Subscription, effect: Deliver) -> None:
        self.flush()
        if self._line is None:
            self._line = Line(self)
        self._line.body(LargeDelivery(self, sub, effect))

    def large_done(self, sub: Subscription, effect: Deliver) -> None:
        """The large body at the head of the line is out: what waited behind it goes. Room is given back when the
        line is empty, so that what gathers behind a slow body is bounded by the rooms."""
        assert self._line is not None
        sub.owe(effect)
        if self._line.next():
            return
        self._line = None
        if self.writable:
            self._give_room()

    def pause_writing(self) -> None:
        """The socket's buffer is full: rooms are not granted back until it has drained."""
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._line is not None:
            self._line.pump()
        else:
            self._give_room()

    def _give_room(self) -> None:
        for sub in self.handles.values():
            if sub.owed > sub.quarter:
                self.edge.grant(sub)
        self.edge.submit_grants()

    # ── subscriptions ──────────────────────────────────────────────────────────────────────────────

    def add_subscription(self, key: str, sub: Subscription) -> None:
        """A subscription, or one more part of it: the last one stands for all in `subscriptions`."""
        if self.subscriptions is NO_SUBSCRIPTIONS:
            self.subscriptions = {}
            self.handles = {}
        self.subscriptions[key] = sub
        self.handles[sub.handle] = sub
        self.edge.consumers[sub.consumer] = sub
        if sub.ack is not AckMode.AUTO:
            self.use(sub.slot)

    def remove_subscription(self, key: str, sub: Subscription) -> list[Subscription]:
        """Returns its parts."""
        del self.subscriptions[key]
        parts = [sub] if sub.fan is None else sub.fan.parts
        for part in parts:
            del self.handles[part.handle]
            del self.edge.consumers[part.consumer]
            part.fan = None  # no rings of objects
        return parts

    def consumer_closed(self, sub: Subscription, code: Code, detail: str) -> None:
        """The owner ended this subscription; the client must hear of it, and STOMP only has ERROR for that."""
        self.fail(code, detail, None)

    def delivery(self, id: bytes, subscription: str | None) -> tuple[Subscription, int]:
        """The consumer and message number that an ack id names. Raises RefusedError(NO_SUCH_DELIVERY)."""
        return acking.delivery(self, id, subscription)

    def raw(self, text: str) -> bytes:
        """A decoded header value as this connection's version writes it."""
        return connecting.escaped(text, self.version)

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def fail(self, code: Code, detail: str, receipt: bytes | None = None, at_once: bool = False) -> None:
        """One ERROR frame, then the end (C37, C63). What was asked before is answered first, unless `at_once`:
        then nobody is left to answer."""
        if self.closed or (self.leaving and not at_once):
            return
        self.leaving = True
        self.submit()
        if at_once:
            self._fail(code, detail, receipt)
        else:
            self.answers.when_quiet(partial(self._fail, code, detail, receipt))

    def _fail(self, code: Code, detail: str, receipt: bytes | None) -> None:
        if self.closed:
            return
        counters = self.edge.counters
        counters.errors[code.name] = counters.errors.get(code.name, 0) + 1
        self.write(error_frame(self.version, code, detail, receipt))
        self.flush()
        self.close(code.reason, f"{code.name}: {detail}" if detail else code.name)

    def close(self, reason: Reason, detail: str = "") -> None:
        """Ends the connection after what was written has left, a large body under way included."""
        if self.closed:
            return
        if self._line is not None and reason not in AT_ONCE:
            self._line.end(partial(self._close, reason, detail))
        else:
            self._close(reason, detail)

    def _close(self, reason: Reason, detail: str) -> None:
        self._end(reason, detail)
        self.channel.close(reason)

    def fault(self) -> None:
        """We have made a mistake (call while handling the exception): it ends this connection and no other."""
        log.exception("%s #%d: internal error", self.channel.peer, self.id)
        self.abort(Reason.INTERNAL)

    def abort(self, reason: Reason, detail: str = "") -> None:
        """Ends it at once; what waits for the socket is dropped."""
        if self.closed:
            return
        self._end(reason, detail)
        self.channel.abort()

    def eof(self) -> None:
        """The client has sent its last byte: what it sent is still carried out and answered (C61, C62)."""
        self.ended = True
        if self._parked is None:
            self._hang_up()

    def _hang_up(self) -> None:
        """Nothing more will come: closes once everything is answered."""
        if self.channel.reason is not None:
            self.close(self.channel.reason)
        elif self.closed or self.leaving:
            return
        elif self.crowds is not None and self.crowds.when_empty(self._hang_up, gone=True):
            self.batch += control.ends(self)  # as at DISCONNECT
            self.submit()
        else:
            self.leave([], lambda: self._left(Reason.CLIENT_GONE))

    def lost(self) -> None:
        """The connection is over. Called exactly once by the channel."""
        self._end(self.channel.reason or Reason.CLIENT_GONE, "")
        self.edge.forget(self)
        # No rings of objects: the memory of 5,000 connections is free at once, not when the collector comes by.
        self.channel = GONE
        self.publisher = None
        del self.watch

    def _end(self, reason: Reason, detail: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.watch.stop()
        if self.login_task is not None:
            self.login_task.cancel()
        if self.crowds is not None:
            self.crowds.close()
        ends = control.ends(self)
        self._transactions = None
        if self.publisher is not None and self.publisher.large is not None:
            self.publisher.large.abort()
        if self._line is not None:
            self._line.close()
            self._line = None
        for sub in self.handles.values():
            self.edge.consumers.pop(sub.consumer, None)
            sub.fan = sub.order = None  # they know their parts: no rings of objects
            sub.sink = self
        self.subscriptions = NO_SUBSCRIPTIONS
        self.handles = NO_HANDLES
        if ends:
            self.edge.port.submit(ends)
        if self.client_id:
            self.edge.directory.client_ids.release(self.client_id, self)
        self.edge.closed(self, reason, detail)

    def taken_over(self) -> None:
        """Another connection has this one's client-id now."""
        self.fail(Code.CLIENT_ID_IN_USE, "a newer connection has taken it over (edge.client_id_in_use)")

    def grant_command(self, sub: Subscription) -> Grant:
        owed, sub.owed = sub.owed, 0
        return Grant(sub.slot, sub.consumer, owed)


def _receipt_of(event: Event) -> bytes | None:
    """The receipt id an ERROR about this event carries (C63)."""
    if isinstance(event, Frame | BodyStart):
        return event.receipt
    if isinstance(event, Sends | Acks):
        return event.receipts[0] if event.receipts else None
    return None
