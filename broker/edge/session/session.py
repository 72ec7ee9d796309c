"""One client connection: who it is, what it has asked for and consumes, and how it ends.

What comes in goes through its inbound half, what goes out through its outbound half; this is where both meet.

Rule: answers leave in frame order; whatever goes wrong ends in one ERROR frame and a named close reason, and the
connection ends once. Must not know queues, slots' insides, or what kind of socket it has.
"""

from __future__ import annotations

import logging
from asyncio import Task
from collections.abc import Callable, Sequence
from functools import partial

from broker.core.address import AckMode
from broker.core.commands import Command, Disconnect, DisconnectAll
from broker.core.errors import Code, RefusedError
from broker.core.ids import SLOTS
from broker.core.notices import NoticeKind
from broker.core.reasons import CALM, Reason
from broker.seams.loop_watchdog import QUICK_S
from broker.wire.connection import Connection, Role
from broker.wire.events import Event
from broker.wire.versions import Version
from broker.wire.writer import error_frame, escape

from ..access.acceptor import Entrance
from ..access.auth import Principal
from ..destinations.temporary import Temporaries
from ..quotas.quotas import Resource, Usage
from ..subscriptions.subscription import SlotSubscription
from ..subscriptions.wildcard_subscription import STANDING, block
from ..transport.channel import GONE, Channel
from ..transport.tcp import peer_host
from .blocked_sends import BlockedSends
from .outbound import Outbound
from .parts import EdgeServices, ReadingHalf
from .receipts import ASIDE, Answers, Then
from .session_identity import SessionIdentity
from .told import audit_trail
from .told.auto_create_refusals import full_queue, not_made
from .told.client_notices import endings, filled, notice, temporary
from .told.open_errors import to_be_told
from .transactions import Transactions
from .watchdog import Watch

log = logging.getLogger("stampede.edge")

AT_ONCE = (
    Reason.HEARTBEAT_MISSED, Reason.SLOW_CONSUMER, Reason.OWNER_STOPPED, Reason.WEBSOCKET_PROTOCOL, Reason.INTERNAL,
)  # fmt: skip
"""Ends that do not wait for a large body on its way out: nobody reads it, or nobody can go on writing it."""
WAITING = 64 * 1024
"""Bytes that a connection with unfinished business has of its read, about."""

NO_SUBSCRIPTIONS: dict[str, SlotSubscription] = {}
NO_HANDLES: dict[bytes, SlotSubscription] = {}


def weight(sub: SlotSubscription) -> int:
    """What a part of a subscription counts among edge.quotas."""
    # Other parts of a wildcard come into being with their first message.
    return 1 if not sub.wide else SLOTS if sub.slot == STANDING else 0


BURST = 128
"""Frames of a read, or groups of like ones, that are taken in one turn of the loop: each takes 0.02 to 0.04 ms. How
many bytes are much (fair_reading.py) was learned of the frames before, and those may have been of another kind: 196 KB
of BEGIN, SEND and ABORT behind a large body took 240 ms."""


class Session(SessionIdentity):
    """See the head of this file. Fields that most connections never need are made on first use."""

    __slots__ = (
        "_doomed", "_temporaries", "_transactions", "answers", "blocked", "bytes_in", "ended", "handles", "inbound",
        "login_task", "outbound", "subscriptions", "usage", "used", "watch", "wire",
    )  # fmt: skip

    def __init__(
        self, edge: EdgeServices, channel: Channel, entrance: Entrance, inbound: Callable[[Session], ReadingHalf]
    ) -> None:
        """inbound: makes its reading half, which knows what frames mean."""
        super().__init__(edge, channel, entrance)
        self.wire = Connection(Role.SERVER, entrance.wire, entrance.memo, entrance.leniency, BURST)
        self.answers = Answers()
        self.inbound = inbound(self)
        self.outbound = Outbound(self)
        self.subscriptions = NO_SUBSCRIPTIONS
        self.handles = NO_HANDLES
        self.usage: Usage | None = None
        """What counts for edge.quotas; None: no entry is about it."""
        self.ended = False
        """The client has sent its last byte."""
        self.bytes_in = 0
        self.login_task: Task[None] | None = None
        self._transactions: Transactions | None = None
        self._temporaries: Temporaries | None = None
        self._doomed: dict[int, tuple[str, str]] | None = None
        self.used: set[int] | None = None
        """Slots where it has work that may not be durable yet; None: none (see use)."""
        self.blocked: BlockedSends | None = None
        self.watch = Watch(self)

    @property
    def version(self) -> Version:
        return self.wire.version

    @property
    def transactions(self) -> Transactions:
        if self._transactions is None:
            self._transactions = Transactions(self.edge.settings.edge)
        self.edge.holding.note(self)
        return self._transactions

    @property
    def temporaries(self) -> Temporaries:
        if self._temporaries is None:
            most = self.edge.settings.edge.max_subscriptions
            self._temporaries = Temporaries(self.entrance.dialect.public, most, self.host, self.edge.near)
        return self._temporaries

    @property
    def settling(self) -> set[int]:
        """Consumers of which a message is acknowledged when its transaction is."""
        return self._transactions.settled() if self._transactions is not None else set()

    @property
    def transacted(self) -> int:
        """Bytes that wait for COMMIT."""
        return self._transactions.held if self._transactions is not None else 0

    @property
    def held(self) -> int:
        """Bytes that it keeps in memory now."""
        size = self.channel.held() + self.wire.held + self.outbound.waiting + self.transacted
        size += WAITING if self.inbound.parked else 0
        size += large.pending if (large := self.inbound.large) is not None else 0
        return size if self.blocked is None else size + self.blocked.nbytes

    # ── from the socket ────────────────────────────────────────────────────────────────────────────

    def receive(self, data: bytes) -> None:
        """A piece of the client's byte stream, cut anywhere."""
        if self.closed or self.leaving:
            return
        began = (reads := self.edge.reads).now()
        if began > reads.mark.due:
            reads.mark.look(began)
        self.bytes_in += len(data)
        self.edge.counters.bytes_in += len(data)
        was_connected = self.connected
        try:
            self.inbound.handle(self.wire.receive(data))
            if self.connected and not was_connected:
                # The wire holds back what came behind CONNECT until the login was decided.
                self.inbound.handle(self.wire.receive(b""))
            if self.wire.more:
                self.inbound.breathe()
        except Exception:
            return self.fault()
        if (watch := self.watch).minds or self.wire.mid_frame or self.wire.eols or self.bytes_in > watch.breath:
            watch.after_read()
        span = reads.now() - began
        if span <= QUICK_S:
            reads.quick += 1
            reads.total += span
        elif reads.took_long(began, span):
            reads.tell(f"{len(data)} bytes of {self.told}")

    def heard(self) -> None:
        """The client lives, though it sent no byte of STOMP."""
        if not self.closed:
            self.watch.heard()

    def pause_reading(self, why: str) -> None:
        """Its socket is not read until every cause has been resumed."""
        self.inbound.pause_reading(why)

    def resume_reading(self, why: str) -> None:
        self.inbound.resume_reading(why)

    @property
    def writable(self) -> bool:
        """The socket takes more."""
        return self.outbound.writable

    def pause_writing(self) -> None:
        self.outbound.pause()

    def resume_writing(self) -> None:
        self.outbound.resume()

    @property
    def idle(self) -> bool:
        """A point at which its end takes nothing from the client but the connection: nothing is asked, half read, half
        written, or part of a transaction."""
        return (
            not (self.leaving or self.closed)
            and self.answers.quiet
            and not self._transactions
            and not self.inbound.parked
            and not (self.blocked is not None and self.blocked.nbytes)
            and self.outbound.clear
            and not self.wire.mid_frame
        )

    # ── login ──────────────────────────────────────────────────────────────────────────────────────

    def is_checked_by(self, task: Task[None]) -> None:
        """Its passcode is being checked; the task goes with it."""
        self.is_checked()
        self.login_task = task

    def check_is_over(self) -> None:
        """It is known whether the passcode is right."""
        self.login_task = None

    def enters(self, entrance: Entrance) -> None:
        """It is in a virtual host from now on."""
        self.entrance = entrance
        self.wire.remembers_in(entrance.memo)

    def logged_in(self, principal: Principal, version: Version, usage: Usage | None = None) -> None:
        """It may go on, as this user."""
        self._opens()
        self.usage = usage
        self.entrance.members.came()
        self._is(principal)
        if principal.until:
            self.edge.expiries.note(self.id, principal.until)
        self.edge.known(self)
        self.wire.accept_login(version)
        self.edge.counters.login(True)
        self.tell(NoticeKind.CONNECTION_CREATED)
        if self.edge.settings.edge.audit == "all":
            audit_trail.note(self, self.channel.peer, "login", "done")

    def counts(self) -> None:
        """What it uses counts where edge.quotas says now."""
        if self.closed or not self.connected:
            return
        who = self.principal, self.host.name, peer_host(self.channel.peer)
        if self.usage is not None:
            self.usage.belongs(self.edge.quotas.of(*who))
        elif (usage := self.edge.quotas.usage(*who)) is not None:
            usage.add(Resource.CONNECTIONS, 1)
            usage.add(Resource.SUBSCRIPTIONS, sum(map(weight, self.handles.values())))
            if self._transactions is not None:
                usage.add(Resource.TRANSACTIONS, len(self._transactions))
            usage.had({key: sub.window for key, sub in self.subscriptions.items()}, self.edge.settings.edge)
            self.usage = usage

    # ── answers ────────────────────────────────────────────────────────────────────────────────────

    def answer_now(self, ids: list[bytes]) -> None:
        """Receipts of something already done; they still wait for their turn."""
        if self.answers.quiet:
            self.outbound.receipts(ids)
        else:
            self.done(self.answers.ask(ids))

    def done(self, seq: int) -> None:
        """Request `seq` is carried out."""
        if self.blocked is not None:
            self.blocked.answered(seq)
        ids, thens = self.answers.done(seq)
        if ids:
            self.outbound.receipts(ids)
        for then in thens:
            then()

    def unsettled(self) -> list[int]:
        """Where it has work that may not be durable yet. What has left is told once: who asks waits (Barrier)."""
        found = sorted(self.used or ())
        # What waits for a full address has not left, and ACKs do not say where they go: their subscription did, once.
        if self.blocked is None or not self.blocked.nbytes:
            self.used = {sub.slot for sub in self.handles.values() if sub.ack is not AckMode.AUTO} or None
        return found

    def use(self, slot: int) -> None:
        """Durable messages went to this slot, or acknowledgements."""
        if self.used is None:
            self.used = set()
        self.used.add(slot)

    def leave(self, ids: list[bytes], then: Then | None = None) -> None:
        """DISCONNECT: answer when everything before is answered, then close."""
        self._leaves()
        seq = self.answers.ask(ids, then or self._left)
        self.done(seq)

    def _left(self, reason: Reason = Reason.CLIENT_DISCONNECT) -> None:
        self.outbound.flush()
        self.close(reason)

    def deletes(self, seqs: Sequence[int], queue: str, address: str) -> None:
        """These requests delete a durable subscription to the address."""
        if self._doomed is None:
            self._doomed = {}
        self._doomed.update(dict.fromkeys(seqs, (queue, address)))

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
        if seq >= ASIDE:
            self.edge.queue_wildcards.refused(seq ^ ASIDE, code, detail)
            return
        if self._doomed and seq in self._doomed and code is Code.NO_SUCH_SUBSCRIPTION:
            # Its queue went without this edge hearing of it: the name must not stay behind.
            self.edge.directory.names.release(*self._doomed.pop(seq), lambda answer: None)
        if code is Code.NOT_ALLOWED:
            told = not_made(self.usage, self.rights, self.principal, detail, self.edge.counters.deny)
            code, detail = told.code, told.detail
        elif code is Code.QUOTA:
            detail = full_queue(self.usage, detail)
        if not seq:
            self.fail(code, detail, at_once=self.leaving)
            return
        if code is Code.ADDRESS_FULL and self._stays_open and (whole := self.answers.whole(seq)):
            self.answers.told_otherwise(seq, partial(self.tell_errors, code, detail, whole, ""))
            self.done(seq)
            return
        receipt = self.answers.first_receipt(seq)
        self._leaves()
        self.answers.instead(seq, partial(self._fail, code, detail, receipt))
        self.done(seq)

    def address_blocked(self, slot: int, address: str, full: bool, passing: bool) -> None:
        """An address that it sends to has reached its limit, or has room again."""
        if self.blocked is None:
            self.blocked = BlockedSends(self)
        if passing:
            self.blocked.passing(slot, address, full)
            return
        self.blocked.address_blocked(slot, address, full)
        if full and (notify := self.edge.notify) is not None:
            notify(filled(self, address, self.edge.match))

    def tell(self, kind: NoticeKind, sub: SlotSubscription | None = None) -> None:
        """That happens to this connection (edge.notifications)."""
        if (notify := self.edge.notify) is not None:
            notify(notice(self, kind, sub, self.edge.match))

    def tell_temporary(self, kind: NoticeKind, name: str, address: str) -> None:
        """A temporary destination of this connection comes, or goes."""
        if (notify := self.edge.notify) is not None:
            notify(temporary(notice(self, kind, None, self.edge.match), name, address))

    # ── subscriptions ──────────────────────────────────────────────────────────────────────────────

    def add_subscription(self, key: str, sub: SlotSubscription) -> None:
        """A subscription, or one more part of it: the last one stands for all in `subscriptions`."""
        if self.subscriptions is NO_SUBSCRIPTIONS:
            self.subscriptions = {}
            self.handles = {}
        self.subscriptions[key] = sub
        self.add_part(sub)

    def add_part(self, sub: SlotSubscription) -> None:
        """A part has come to a subscription of these tables."""
        self.handles[sub.handle] = sub
        self.edge.consumers[sub.consumer] = sub
        if self.usage is not None:
            self.usage.add(Resource.SUBSCRIPTIONS, weight(sub))
        if sub.ack is not AckMode.AUTO:
            self.use(sub.slot)

    def remove_subscription(self, key: str, sub: SlotSubscription) -> list[SlotSubscription]:
        """Returns its parts."""
        del self.subscriptions[key]
        self.tell(NoticeKind.CONSUMER_CLOSED, sub)
        if self._temporaries is not None and (name := self._temporaries.unsubscribed(sub.address)) is not None:
            self.tell_temporary(NoticeKind.TEMPORARY_REMOVED, name, sub.address)
        if sub.wide:
            self.edge.wildcards.pop(block(sub.consumer))
        parts = [sub] if sub.split is None else sub.split.parts
        for part in parts:
            self.remove_part(part)
        if self.usage is not None:
            self.usage.unsubscribed(key)
        return parts

    def remove_part(self, sub: SlotSubscription) -> None:
        """One part of a subscription has ended."""
        del self.handles[sub.handle], self.edge.consumers[sub.consumer]
        if self.usage is not None:
            self.usage.add(Resource.SUBSCRIPTIONS, -weight(sub))
        sub.leave_others()

    def consumer_closed(self, sub: SlotSubscription, code: Code, detail: str) -> None:
        """The owner ended this subscription; the client must hear of it, and STOMP only has ERROR for that."""
        if not self.edge.queue_wildcards.lost(sub):
            self.fail(code, detail, None)

    def raw(self, text: str) -> bytes:
        """A decoded header value as this connection's version writes it."""
        return escape(text, self.version).encode()

    def ends(self, reason: Reason) -> list[Command]:
        """What ends all its consumers."""
        calm = reason in CALM
        subs = self.handles.values()
        found: list[Command] = [
            Disconnect(slot, self.id, calm) for slot in sorted({sub.slot for sub in subs if not sub.wide})
        ]
        if any([sub.wide for sub in subs]):
            found.append(DisconnectAll(self.id, calm))
        return found

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def fail(
        self, code: Code, detail: str, receipt: bytes | None = None, at_once: bool = False, about: str = ""
    ) -> None:
        """One ERROR frame, then the end (C37, C63). What was asked before is answered first, unless `at_once`:
        then nobody is left to answer. about: RefusedError.about."""
        if self.closed or (self.leaving and not at_once):
            return
        self._leaves()
        self.inbound.submit()
        if at_once:
            self._fail(code, detail, receipt, about)
        else:
            self.answers.when_quiet(partial(self._fail, code, detail, receipt, about))

    @property
    def _stays_open(self) -> bool:
        return self.acceptor.open_after_error and self.connected

    def survives(self, event: Event, refused: RefusedError) -> bool:
        """Answers a frame that was refused where it came in. False: it ends the connection."""
        receipts = to_be_told(event, refused.code) if self._stays_open else []
        if receipts:
            self.inbound.submit()
            self.answers.when_quiet(partial(self.tell_errors, refused.code, refused.detail, receipts, refused.about))
        return bool(receipts)

    def tell_errors(self, code: Code, detail: str, receipts: Sequence[bytes | None], about: str) -> None:
        """ERROR frames that do not end the connection (open_errors.py)."""
        if not self.closed:
            for receipt in receipts:
                self._error(code, detail, receipt, about)
            self.outbound.flush()

    def _error(self, code: Code, detail: str, receipt: bytes | None, about: str) -> None:
        self.edge.counters.error(code.name)
        text = self.entrance.dialect.text(code, about)
        self.outbound.write(error_frame(self.version, code, self.host.told(detail), receipt, text=text))

    def _fail(self, code: Code, detail: str, receipt: bytes | None, about: str = "") -> None:
        if self.closed:
            return
        self._error(code, detail, receipt, about)
        self.outbound.flush()
        if code is Code.LOGIN_FAILED:
            detail = ""  # the login is in it: a stranger's may be a passcode in the wrong place
        self.close(code.reason, f"{code.name}: {detail}" if detail else code.name)

    def close(self, reason: Reason, detail: str = "") -> None:
        """Ends the connection after what was written has left, a large body under way included."""
        if self.closed:
            return
        if reason in AT_ONCE or not self.outbound.after(partial(self._close, reason, detail)):
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
        if not self.inbound.hung_up():
            self._hang_up()

    def _hang_up(self) -> None:
        """Nothing more will come: closes once everything is answered."""
        if self.channel.reason is not None:
            self.close(self.channel.reason)
        elif self.closed or self.leaving:
            return
        elif self.blocked is not None and self.blocked.when_empty(self._hang_up, gone=True):
            self.inbound.batch.extend(self.ends(Reason.CLIENT_GONE))  # as at DISCONNECT
            self.inbound.submit()
        else:
            self.leave([], lambda: self._left(Reason.CLIENT_GONE))

    def lost(self) -> None:
        """The connection is over. Called exactly once by the channel."""
        self.inbound.finish()
        self._end(self.channel.reason or Reason.CLIENT_GONE, "")
        self.edge.forget(self)
        # No rings of objects: the memory of 5,000 connections is free at once, not when the collector comes by.
        self.channel = GONE
        self.inbound.over()
        self.outbound.over()
        del self.watch

    def _end(self, reason: Reason, detail: str) -> None:
        if self.closed:
            return
        self._closes()
        if self.principal and (notify := self.edge.notify) is not None:
            own = [] if self._temporaries is None else self._temporaries.all()
            notify(endings(self, self.edge.match, own, reason))
        self.watch.stop()
        if self.login_task is not None:
            self.login_task.cancel()
        self.inbound.last(self.ends(reason) if self.handles else [])
        if self.blocked is not None:
            self.blocked.close()
        if self.usage is not None:
            self.usage.leave()
            self.usage = None
        self._transactions = self._temporaries = None
        self.inbound.close()
        self.outbound.close()
        for sub in self.handles.values():
            self.edge.consumers.pop(sub.consumer, None)
            if sub.wide:
                self.edge.wildcards.pop(block(sub.consumer), None)
            sub.over(self.outbound)
        self.subscriptions = NO_SUBSCRIPTIONS
        self.handles = NO_HANDLES
        if self.client_id:
            self.edge.directory.client_ids.release(self.client_id, self)
        self.edge.closed(self, reason, detail)

    def taken_over(self) -> None:
        """Another connection has this one's client-id now."""
        self.fail(Code.CLIENT_ID_IN_USE, "a newer connection has taken it over (edge.client_id_in_use)")
