"""SEND frames become Publish commands: one per destination and read.

Rule: neighbours with the same route travel as one run; the cost of a frame whose header block is known is
nothing here. A large body goes to a file first and is published when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from broker.core.address import RECURRING, Routing
from broker.core.commands import Barrier, Publish, Settle, Transact
from broker.core.creation import Creation
from broker.core.errors import Code, RefusedError
from broker.core.management import ManagementRequest, ReplyTo
from broker.core.message import BLOB, DURABLE, NO_IDS, TEXT, Blob, Run
from broker.engine.publishing.recurrence import Recurrence
from broker.link.owner_port import Away, BodyWriter
from broker.wire.events import BodyStart, Head, Sends

from ..authorising import creating
from ..destinations.asking import ask
from ..destinations.directory import Done
from ..destinations.partitioner import by_slot, slot_for
from ..destinations.send_route import Route, Split
from ..destinations.temporary import OWN, QUEUE, Private
from ..session.added_headers import marks_of
from ..session.compressing import Deflating
from ..session.parts import ReadingHalf
from ..session.session import Session
from ..subscribing.subscribing import subscribe_reply
from . import management

PENDING_BODY_BYTES = 4 * 1024 * 1024
"""Bytes of a large body that may wait for the disk before its socket is paused."""


class SendInbound(ReadingHalf, Protocol):
    """The reading half, of which this is a part."""

    @property
    def publisher(self) -> Publisher | None: ...


CRON = 24
"""What a message with a cron expression counts as: to look for a time that never comes takes 2 ms."""


class Publisher:
    """The sending half of a session; made with the first SEND.

    last   the command that a frame may still be added to; None: there is none, or its batch has been submitted."""

    __slots__ = ("_apart", "_create", "_intake", "_last_route", "_marks", "_session", "large", "last")

    def __init__(self, session: Session, inbound: SendInbound) -> None:
        self._session = session
        self._intake = inbound
        self._create: Creation
        """May what it is sending create what is not there, and for whom."""
        self._marks = marks_of(session.acceptor, session.login, session.edge.numbers)
        self.last: Publish | None = None
        self._apart: bool
        """No message of `last` has header lines beside its record."""
        self._last_route: Route | None = None
        self.large: LargeSend | None = None

    def left(self) -> None:
        """The batch of this read has been submitted."""
        self.last = None

    def sends(self, event: Sends) -> None:
        """Adds the frames to the batch of this read."""
        head = event.head
        route: Route = head.route or self._session.entrance.routes.of(head)
        if route.private is not None:
            if not self._prepared(route.private, partial(self._sends_late, event)):
                return
            if route.private.manages:
                self._managed(event)
                return
            event, route = self._own(event, route, route.private)
            head = event.head
            if route.copies:
                self._to_all(event if self._marks is None else self._marks.sends(event), route)
                return
        if self._marks is not None:
            event = self._marks.sends(event)
            head = event.head
        receipts = event.receipts
        session = self._session
        self._create = creating(session, route) if session.usage or session.rights else route.create
        if "transaction" in head.headers:
            self._into_transaction(event, route)
            return
        if session.edge.singly is not None and session.edge.singly(route.address):
            self._one_by_one(event, route)
            return
        if route.split is not None and self._grouped(event, route, route.split):
            return
        last = self.last
        batch = self._intake.batch
        if (
            last is not None
            and self._last_route is route
            and batch[-1] is last
            # 1.0 clients are shown which is which: each record says it, where none has lines in common with others.
            and (not (last.run.flags ^ head.flags) & TEXT or (self._apart and not head.lines))
        ):
            if head.lines:
                self._apart = False
            if not receipts and not last.seq:
                last.run.join(head.lines, event.records, event.nbytes, head.flags)
                return
            if receipts and session.answers.latest(last.seq):
                last.run.join(head.lines, event.records, event.nbytes, head.flags)
                session.answers.more(last.seq, receipts)
                return
        slot = route.slot if route.split is None else route.split.next()
        seq = session.answers.ask(receipts) if receipts else 0
        # _command() in line: most messages pass here alone.
        run = Run(
            NO_IDS, head.lines, event.records, event.nbytes, route.flags | head.flags, route.priority, route.expires
        )
        if route.flags & DURABLE and (session.used is None or slot not in session.used):
            session.use(slot)
        publish = Publish(slot, session.id, seq, route.address, route.routing, run, route.queue, self._create)
        if route.timed:
            self._times(publish, route)
        batch.append(publish)
        self.last = publish
        self._last_route = route
        self._apart = not head.lines

    def _to_all(self, event: Sends, route: Route) -> None:
        """Frames for several destinations, or several times: all of it happens or nothing does."""
        session = self._session
        if session.edge.singly is not None and len(event.records) > 1:
            # Each frame is taken or refused for itself.
            first, rest = event.cut(1)
            self._to_all(first, route)
            self._to_all(rest, route)
            return
        parts: list[Publish | Settle] = []
        for each in route.copies:
            self._create = creating(session, each)
            own = event if each.shown is None else each.shown.sends(event)
            if each.again is not None:
                parts += [self._recurring(own.head, record, each, each.again) for record in own.records]
                continue
            groups = [(None, own.records)] if each.split is None else by_slot(own, each.split)
            for where, records in groups:
                slot = where if where is not None else each.slot
                parts.append(self._command(own.head, list(records), _size(own.head, records), each, slot))
        receipts = event.receipts or []
        if (name := event.head.headers.get("transaction")) is not None:
            for part in parts:
                assert isinstance(part, Publish)
                since = session.edge.clock.monotonic() if part.ttl or part.delay else 0.0
                session.transactions.add(name, part, len(part.run.records), part.run.nbytes, since)
            if receipts:
                session.answer_now(receipts)
            return
        seq = session.answers.ask(receipts) if receipts else 0
        self._intake.batch.append(Transact(parts[0].slot, session.id, seq, parts))
        self.last = None

    def _recurring(self, head: Head, record: bytes, route: Route, again: Recurrence) -> Publish:
        """Where it rests until it is time, by itself, to be taken back by itself. It is on disk whatever it says: it is
        to outlive its sender."""
        record = again._replace(create=self._create).lines() + _unscheduled(head.lines + record)
        run = Run(NO_IDS, b"", [record], len(record), route.flags | head.flags | DURABLE, route.priority)
        self._session.use(route.slot)
        place = RECURRING + route.address
        # The place is of all who schedule for that address, so it is nobody's: for whom it may make something when it
        # is time stands in the line.
        publish = Publish(route.slot, self._session.id, 0, place, Routing.ANYCAST, run, None, True)
        self._times(publish, route)
        return publish

    # ── management ─────────────────────────────────────────────────────────────────────────────────

    def _managed(self, event: Sends) -> None:
        """Requests: frames behind them wait until they are carried out, and so do their receipts."""
        session, manage = self._session, self._session.edge.management
        management.check(event.head.headers, manage is not None)
        assert manage is not None
        asked: list[ManagementRequest] = []
        for record in event.records:
            headers, body = management.split(event.head.lines + record)
            to = self._reply_to(headers.get("reply-to", ""))
            asked.append(ManagementRequest(session.principal, session.channel.peer, headers, body, to, session.host))
        receipts = event.receipts or []
        carried = partial(self._settled, partial(manage, asked))
        ask(session, receipts[0] if receipts else None, carried, lambda: session.answer_now(receipts))

    def _settled(self, question: Callable[[Done], None], done: Done) -> None:
        """Asks once all that was sent before is on disk, receipt or not: what a request lists, counts or takes away is
        about that, too. What waits for a full address is not waited for: the request may be what makes room."""
        session = self._session
        for slot in session.unsettled():
            self._intake.batch.append(Barrier(slot, session.id, session.answers.ask([])))
        self._intake.submit()
        session.answers.when_quiet(partial(question, done))

    def _reply_to(self, name: str) -> ReplyTo | None:
        """Raises RefusedError for where this client may not send."""
        session = self._session
        if not name:
            return None
        if name.startswith(OWN):
            address = session.temporaries.address(name)
            return ReplyTo(session.edge.routes.targets(address)[0], address, Routing.MULTICAST, None, False)
        route = session.entrance.routes.of(Head(b"", {"destination": name}, 0, False))
        if route.private is not None:
            raise RefusedError(Code.BAD_HEADER, f"reply-to:{name[:50]} is no place for an answer")
        return ReplyTo(route.slot, route.address, route.routing, route.queue, creating(session, route))

    # ── temporary destinations ─────────────────────────────────────────────────────────────────────

    def _prepared(self, private: Private, later: Callable[[], None]) -> bool:
        """Has the owner of its reply-to the subscription for the answer. False: `later` is called when it has, and
        frames wait until then."""
        session, name = self._session, private.reply
        if private.user is not None and private.user != session.login:
            raise RefusedError(
                Code.NOT_ALLOWED, f"user_id property set to '{private.user[:100]}' but authenticated user was "
                f"'{session.login[:100]}'",
            )  # fmt: skip
        if name is None:
            return True
        names = session.temporaries
        if not names.known(name):
            if not name.startswith(QUEUE):
                raise RefusedError(Code.BAD_HEADER, f"reply-to:{name[:50]} has no subscription; SUBSCRIBE to it first")
            subscribe_reply(session, name)
        if not names.when_ready(name, later):
            return True
        session.inbound.park()
        return False

    def _own(self, event: Sends, route: Route, private: Private) -> tuple[Sends, Route]:
        """The same with the names of this connection's temporary destinations resolved."""
        route = self._own_route(route, private)
        if (name := private.reply) is None:
            return event, route
        names = self._session.temporaries
        head, records = names.head(event.head, name), event.records
        if head.lines == event.head.lines:
            records = [names.record(record, name) for record in records]
        nbytes = sum(map(len, records)) + len(records) * len(head.lines)
        return Sends(head, records, event.receipts, nbytes), route

    def _own_route(self, route: Route, private: Private) -> Route:
        if private.own is None:
            return route
        session = self._session
        address = session.temporaries.address(private.own)
        return route.towards(address, session.edge.routes.targets(address))

    def _sends_late(self, event: Sends) -> None:
        """It has waited; those behind it go on."""
        session = self._session
        if not session.closed:
            try:
                self.sends(event)
            except RefusedError as refused:
                session.fail(refused.code, refused.detail, event.receipts[0] if event.receipts else None)
            session.inbound.unpark()

    def _body_late(self, event: BodyStart) -> None:
        """The same for a large one, which may have to wait once more: for room."""
        session = self._session
        if not session.closed:
            try:
                self.body_start(event)
            except RefusedError as refused:
                session.fail(refused.code, refused.detail, event.receipt)
            if self.large is not None or session.leaving:
                session.inbound.unpark()

    def _one_by_one(self, event: Sends, route: Route) -> None:
        """Each frame is taken or refused for itself."""
        session, head, last = self._session, event.head, len(event.records) - 1
        receipts = event.receipts or []
        paired = len(receipts) == len(event.records)
        for at, record in enumerate(event.records):
            slot = route.slot if route.split is None else slot_for(head, record, route.split)
            seq = 0
            if paired or (receipts and at == last):
                seq = session.answers.ask([receipts[at]] if paired else receipts)
            self._intake.batch.append(self._command(head, [record], len(head.lines) + len(record), route, slot, seq))
        self.last = None

    def _grouped(self, event: Sends, route: Route, split: Split) -> bool:
        """Frames for a split address of which some belong to a group: one command for each slot. False: none does."""
        parts = by_slot(event, split)
        if len(parts) == 1 and parts[0][0] is None:
            return False
        session = self._session
        for (slot, records), seq in zip(parts, session.answers.ask_parts(event.receipts, len(parts)), strict=True):
            where = split.next() if slot is None else slot
            self._intake.batch.append(self._command(event.head, records, _size(event.head, records), route, where, seq))
        self.last = None
        return True

    def _command(self, head: Head, records: list[bytes], nbytes: int, route: Route, slot: int, seq: int = 0) -> Publish:
        run = Run(NO_IDS, head.lines, records, nbytes, route.flags | head.flags, route.priority, route.expires)
        if route.flags & DURABLE:
            self._session.use(slot)
        publish = Publish(slot, self._session.id, seq, route.address, route.routing, run, route.queue, self._create)
        if route.timed:
            self._times(publish, route)
        return publish

    def _times(self, publish: Publish, route: Route) -> None:
        """Lengths of time are the owner's to add to its clock."""
        now = self._session.edge.clock.wall_ms()
        cron = route.again if route.again is not None and route.again.cron else None
        due = route.due
        if cron is not None:
            due = cron.first(now)
            self._intake.begins(CRON)
        publish.lives(route.ttl, route.delay, due, now)

    def _into_transaction(self, event: Sends, route: Route) -> None:
        session = self._session
        name = event.head.headers["transaction"]
        parts: list[tuple[int | None, list[bytes]]] = [(None, event.records)]
        slot = route.slot
        if route.split is not None:
            parts = by_slot(event, route.split)
            # One slot for all of a transaction that belongs to no group: several would have to agree on its COMMIT.
            # That of its first message with a group or an id, so that who repeats it comes to where the id is known.
            own = next((where for where, _ in parts if where is not None), None)
            other = route.split.slots[session.id % len(route.split.slots)] if own is None else own
            slot = session.transactions.get(name).homes.setdefault(route.address, other)
        for where, records in parts:
            nbytes = _size(event.head, records) if len(parts) > 1 else event.nbytes
            part = self._command(event.head, records, nbytes, route, slot if where is None else where)
            since = session.edge.clock.monotonic() if part.ttl or part.delay else 0.0
            session.transactions.add(name, part, len(records), nbytes, since)
        if event.receipts:
            session.answer_now(event.receipts)

    # ── large bodies ───────────────────────────────────────────────────────────────────────────────

    def body_start(self, event: BodyStart) -> None:
        route = self._session.entrance.routes.of(event.head)
        if (private := route.private) is not None:
            if private.manages:
                raise RefusedError(Code.MESSAGE_TOO_LARGE, "a management request is small; send its arguments alone")
            if route.copies:
                most = self._session.entrance.wire.large_body_bytes
                raise RefusedError(
                    Code.MESSAGE_TOO_LARGE,
                    f"bodies of {most} bytes and more go to one destination, once: send it to each of them",
                )
            if not self._prepared(private, partial(self._body_late, event)):
                return
            route = self._own_route(route, private)
            if (name := private.reply) is not None:
                head = self._session.temporaries.head(event.head, name)
                event = BodyStart(event.command, head, event.length, event.receipt)
        self._create = creating(self._session, route)
        if self._marks is not None:
            event = self._marks.body(event)
        if "transaction" in event.head.headers:
            raise RefusedError(
                Code.MESSAGE_TOO_LARGE,
                f"bodies of {self._session.entrance.wire.large_body_bytes} bytes and more cannot be part of a "
                "transaction; send it outside, or in pieces",
            )
        slot = route.slot if route.split is None else slot_for(event.head, b"", route.split)
        blocked = self._session.blocked
        if blocked is not None and blocked.blocks(slot, route.address):
            blocked.wait(slot, route.address, event.receipt, partial(self._begin_late, event, route, slot))
            self._session.inbound.park()
        else:
            self.large = LargeSend(self._session, self._intake, event, route, slot)

    def _begin_late(self, event: BodyStart, route: Route, slot: int) -> None:
        """The address has room again."""
        self.large = LargeSend(self._session, self._intake, event, route, slot)
        self._session.inbound.unpark()

    def publish_large(self, large: LargeSend, blob: Blob) -> None:
        """The body is complete: its header block and the reference go the way of every message."""
        route, head = large.route, large.head
        record = b"content-length:%d\n\n" % large.received
        flags = route.flags | head.flags | BLOB | (TEXT if large.length is None else 0)
        run = Run(
            NO_IDS,
            head.lines,
            [record],
            len(head.lines) + len(record) + blob.length + 1,
            flags,
            route.priority,
            route.expires,
            blob=blob,
        )
        if route.flags & DURABLE:
            self._session.use(large.slot)
        session = self._session
        seq = session.answers.ask([large.receipt]) if large.receipt is not None else 0
        publish = Publish(large.slot, session.id, seq, route.address, route.routing, run, route.queue, self._create)
        self._times(publish, route)
        self._intake.batch.append(publish)


class LargeSend:
    """One large SEND on its way to a file. The session takes no further frame until it is published."""

    __slots__ = ("_intake", "_paused", "_session", "_writer", "head", "length", "receipt", "received", "route", "slot")

    def __init__(self, session: Session, inbound: SendInbound, event: BodyStart, route: Route, slot: int) -> None:
        self._session = session
        self._intake = inbound
        self._paused = False
        self.slot = slot
        self._writer: BodyWriter = session.edge.port.write_body(self.slot, self._drained)
        if session.acceptor.compress_large_bodies:
            self._writer = Deflating(self._writer)
        self.head = event.head
        self.length = event.length
        self.receipt = event.receipt
        self.route = route
        self.received = 0

    def data(self, piece: bytes) -> None:
        self.received += len(piece)
        self._writer.write(piece)
        if self._writer.pending > PENDING_BODY_BYTES and not self._paused:
            self._paused = True
            self._session.inbound.pause_reading("body")

    def _drained(self) -> None:
        if self._paused and self._writer.pending < PENDING_BODY_BYTES // 2:
            self._paused = False
            self._session.inbound.resume_reading("body")

    @property
    def pending(self) -> int:
        """Bytes that have not reached the file."""
        return self._writer.pending

    def end(self) -> None:
        self._session.inbound.park()
        self._writer.finish(bool(self.route.flags & DURABLE), self._finished)

    def _finished(self, blob: Blob | None, why: str) -> None:
        session = self._session
        publisher = self._intake.publisher
        if publisher is None or publisher.large is not self:
            return
        publisher.large = None
        if blob is None:
            if isinstance(why, Away):
                session.fail(why.code, f"{why}; the large message was not stored, send it again", self.receipt)
            else:
                session.fail(Code.DISK_FULL, f"the body could not be stored: {why}", self.receipt)
            return
        publisher.publish_large(self, blob)
        session.inbound.unpark()

    def abort(self) -> None:
        self._writer.abort()


def _size(head: Head, records: list[bytes]) -> int:
    return sum(map(len, records)) + len(records) * len(head.lines)


def _unscheduled(message: bytes) -> bytes:
    """Without the headers that say when: who sends on what he was given does not mean them again."""
    head, _, body = message.partition(b"\n\n")
    kept = [line + b"\n" for line in head.split(b"\n") if not line.startswith(b"AMQ_SCHEDULED_")]
    return b"%b\n%b" % (b"".join(kept), body)
