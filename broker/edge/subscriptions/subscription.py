"""One consumer as its connection sees it: names, prefixes, and rendering of MESSAGE frames.

A frame is prefix + id + "\\n" + lines + record. The parts behind the prefix are rendered once per run and
joined with the prefix as separator; nothing is formatted per message but its number. The message-id is
`<handle>-<number>`, where the handle is unique for this consumer over restarts of the broker; the 1.2 `ack`
header has the same value. Who asked for the slot as well (`message-slot`) knows the message by slot and number, at each
delivery and in the log.

Rule: bytes of a run are never decoded on the plain path; only runs with escapes for older clients are rewritten.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.core.address import AckMode
from broker.core.commands import Grant, Subscribe
from broker.core.effects import Deliver
from broker.core.errors import Code
from broker.core.ids import SLOTS
from broker.core.message import BLOB, ESCAPED, ORIGINS, REDELIVERED, TEXT, Run, is_text
from broker.core.virtual_host import VirtualHost
from broker.seams.clock import Clock
from broker.wire.versions import Version
from broker.wire.writer import rewrite_lines, without_length

from ..access.acceptor import Entrance
from ..destinations.shown_destination import Shown
from ..quotas.meters import RatedUsage
from ..transport.timers import TimerWheel


class DeliverySink(Protocol):
    """Where a subscription's deliveries go: its session's outbound, or its order on the way there."""

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None: ...


class WritingHalf(DeliverySink, Protocol):
    """The outbound of a session."""

    @property
    def writable(self) -> bool: ...
    def write(self, data: bytes) -> None: ...


class SubscriptionParts(Protocol):
    """The parts of one SUBSCRIBE (split_subscription.SplitSubscription)."""

    @property
    def parts(self) -> list[SlotSubscription]: ...
    @property
    def whole(self) -> bool: ...
    def join(self, part: SlotSubscription) -> None: ...
    def browsed(self) -> bool: ...


class PartsOrder(DeliverySink, Protocol):
    """What keeps count over all parts (split_subscription.Order)."""

    def settle(self, sub: SlotSubscription, numbers: Sequence[int]) -> list[tuple[SlotSubscription, Sequence[int]]]: ...
    def lost(self, part: SlotSubscription) -> None: ...
    def flow(self) -> None: ...


class ConsumerDesk(Protocol):
    """The edge, as subscriptions use it."""

    @property
    def clock(self) -> Clock: ...
    @property
    def beats(self) -> TimerWheel: ...
    @property
    def consumers(self) -> dict[int, SlotSubscription]: ...

    @property
    def digits(self) -> dict[int, int]:
        """Slot → of the numbers of its messages, as last seen here."""
        ...

    def handle(self, consumer: int) -> bytes: ...
    def grant(self, sub: SlotSubscription) -> None: ...
    def submit_grants(self) -> None: ...


class Subscriber(Protocol):
    """The session, as its subscriptions use it."""

    @property
    def edge(self) -> ConsumerDesk: ...
    @property
    def entrance(self) -> Entrance: ...
    @property
    def outbound(self) -> WritingHalf: ...
    @property
    def version(self) -> Version: ...
    @property
    def principal(self) -> str: ...
    @property
    def usage(self) -> RatedUsage | None: ...
    def add_part(self, sub: SlotSubscription) -> None: ...
    def consumer_closed(self, sub: SlotSubscription, code: Code, detail: str) -> None: ...
    def fault(self) -> None: ...


CHANGES = {Version.V10: ESCAPED | TEXT, Version.V11: ESCAPED, Version.V12: 0}
"""Flags of messages whose header lines a version writes differently."""


DIGITS = 5
"""Of a message's number, in a slot of which this edge has delivered nothing yet. Else as many as its newest had when it
was last looked at: they grow with the logarithm of what was sent there (13 and 14 where the leader has changed), and a
window in bytes is small or large by what is counted wrong, twice per message in STOMP 1.2."""


class SlotSubscription:
    """A consumer of one slot.

    owed    bytes delivered whose room has not been granted back yet.
    split     the other parts of the same subscription; None: there are none.
    order   what keeps count over all parts; None: each part can be looked at alone (see split_subscription.py).
    model   what it asked its slot for; None: nobody will ask another slot for the same.
    sink    who takes what is delivered: the session's outbound, or `order`.
    operation   what its user must be allowed to do at the address (config.permissions).
    queues  that it may be attached to, as permissions name them (authorising.attached)."""

    __slots__ = (
        "_acks",
        "_changes",
        "_first",
        "_head",
        "_learns",
        "_mid",
        "_plain",
        "_special",
        "_told",
        "ack",
        "address",
        "consumer",
        "destination",
        "handle",
        "id",
        "model",
        "operation",
        "order",
        "overhead",
        "owed",
        "quarter",
        "queues",
        "session",
        "sink",
        "slot",
        "split",
    )  # fmt: skip

    def __init__(
        self,
        session: Subscriber,
        consumer: int,
        slot: int,
        address: str,
        id: str | None,
        raw_id: bytes,
        ack: AckMode,
        handle: bytes,
        room: int,
        destination: bytes,
        operation: str,
        queues: tuple[str | None, ...],
    ) -> None:
        self.session = session
        self.sink: DeliverySink = session.outbound
        self.split: SubscriptionParts | None = None
        self.order: PartsOrder | None = None
        self.model: Subscribe | None = None
        self.consumer = consumer
        self.slot = slot
        self.address = address
        self.id = id
        self.ack = ack
        self.owed = 0
        self.quarter = room // 4
        self.destination = destination
        self.operation = operation
        self.queues = queues
        self._changes = CHANGES[session.version]
        self._special = self._changes | REDELIVERED
        """Flags of messages that are not written as they are."""
        self._acks = ack is not AckMode.AUTO and session.version is Version.V12
        self._head = b"MESSAGE\nsubscription:%b\n" % raw_id if id is not None else b"MESSAGE\n"
        self._told = b""
        self._first = self._head + session.entrance.dialect.lines
        self._name(handle)
        digits = session.edge.digits.get(slot, DIGITS)
        self.overhead = len(self._plain) + digits + 1 + (len(handle) + digits + 6 if self._acks else 0)
        """Bytes in front of each message: prefix and number."""

    def _name(self, handle: bytes) -> None:
        self.handle = handle
        self._mid = b"message-id:%b-" % handle
        self._plain = self._first + self._mid
        self._learns = True

    def tell_slot(self) -> None:
        """Each message says where it is kept (`message-slot`)."""
        before = len(self._told)
        self._head = self._head.removesuffix(self._told)
        self._told = b"message-slot:%d\n" % self.slot
        self._head += self._told
        self.overhead += len(self._told) - before
        self._first = self._head + self.session.entrance.dialect.lines
        self._plain = self._first + self._mid

    def fronted(self, nbytes: int) -> None:
        """So much more stands in front of each message."""
        self.overhead += nbytes

    @property
    def browses(self) -> bool:
        """It looks, and holds nothing that could be settled."""
        return self.operation == "browse"

    @property
    def spread(self) -> bool:
        """Is it a part of one that has a part in every slot."""
        return self.split is not None and len(self.split.parts) == SLOTS and not self.split.whole

    @property
    def wide(self) -> bool:
        """Is it a part of one that is in all slots as one (wildcard_subscription.py)."""
        return self.split is not None and self.split.whole

    def join(self, split: SubscriptionParts) -> None:
        """It is one of these parts."""
        self.split = split

    @property
    def window(self) -> int:
        """Messages that it and its other parts may have unacknowledged together, as far as they said."""
        if self.ack is AckMode.AUTO:
            return 0
        parts = [self] if self.split is None else self.split.parts
        return sum([part.model.credit_messages for part in parts if part.model is not None])

    def asks(self, model: Subscribe) -> None:
        """That is what it asks its slot for, and another one when there is one (growing.py)."""
        self.model = model

    def leave_others(self) -> None:
        """It is nobody's part any more: they know their parts, and there shall be no rings of objects."""
        self.split = None

    def over(self, sink: DeliverySink) -> None:
        """Its session has ended."""
        self.split = self.order = None
        self.sink = sink

    def goes_through(self, sink: DeliverySink) -> None:
        """Its deliveries go there from now on."""
        self.sink = sink

    def gives_back_above(self, nbytes: int) -> None:
        """Room of what was delivered is given back when it is more than that."""
        self.quarter = nbytes

    def owes(self, room: int) -> None:
        """Room that it may have later."""
        self.owed += room

    def counted(self, order: PartsOrder, paced: bool) -> None:
        """From now on `order` keeps count over all parts. paced: what stands in front of it stays there."""
        self.order = order
        if not paced:
            self.sink = order

    def sibling(self, consumer: int, slot: int, quarter: int) -> SlotSubscription:
        """A part like this one for another slot, that nothing was delivered to yet."""
        other = copy.copy(self)
        other.consumer, other.slot, other.quarter, other.owed = consumer, slot, quarter, 0
        other._name(self.session.edge.handle(consumer))
        if self._told:
            other.tell_slot()
        return other

    def at(self, address: str) -> SlotSubscription:
        """It consumes the queue of that name. Returns itself."""
        self.address, self.queues = address, (address,)
        return self

    def render(self, run: Run) -> bytes:
        """All messages of the run as MESSAGE frames."""
        if len(run.records) == 1 and not (run.attempts or run.flags & self._special):
            if self._acks:
                i = run.ids[0]
                return b"%b%d\nack:%b-%d\n%b%b" % (self._plain, i, self.handle, i, run.lines, run.records[0])
            parts = run.parts
            if parts is None:
                parts = run.parts = [b"%d\n%b%b" % (run.ids[0], run.lines, run.records[0])]
            return self._plain + parts[0]
        prefix, parts = self._pieces(run)
        return prefix + prefix.join(parts)

    def frames(self, run: Run) -> list[bytes]:
        """The same, one piece per frame (WebSocket)."""
        prefix, parts = self._pieces(run)
        return [prefix + part for part in parts]

    def _pieces(self, run: Run) -> tuple[bytes, list[bytes]]:
        """What every frame of the run begins with, and what follows in each."""
        prefix = self._plain
        flags = run.flags
        if run.attempts or flags & REDELIVERED:
            prefix = self._redelivered(run)
        if flags & self._changes:
            run = self._rewritten(run)
        tail = b"\n" + run.lines
        if self._acks:
            ack = b"\nack:%b-" % self.handle
            return prefix, [b"%d%b%d%b%b" % (i, ack, i, tail, r) for i, r in zip(run.ids, run.records, strict=True)]
        parts = run.parts
        if parts is None:
            # Shared by every subscriber of the run: ten of them cost one rendering and ten joins.
            parts = run.parts = [b"%d%b%b" % (i, tail, r) for i, r in zip(run.ids, run.records, strict=True)]
        return prefix, parts

    def browse_end(self) -> bytes:
        """The frame that tells a browser that it has seen everything (ActiveMQ's end marker)."""
        return b"%b0\nbrowser:end\ndestination:%b\n\n\0" % (self._plain, self.destination)

    def covered(self, numbers: Sequence[int]) -> list[tuple[SlotSubscription, Sequence[int]]]:
        """What an acknowledgement of these messages settles: ids by part. Raises RefusedError(NO_SUCH_DELIVERY)."""
        return [(self, numbers)] if self.order is None else self.order.settle(self, numbers)

    def lacking(self, slots: Sequence[int]) -> Sequence[int]:
        """Those of these slots in which the subscription has no part for this address."""
        if self.wide or (self.split is None and list(slots) == [self.slot]):
            return ()
        parts = [self] if self.split is None else self.split.parts
        there = {part.slot for part in parts if part.address == self.address}
        return [slot for slot in slots if slot not in there]

    def addresses(self) -> Iterable[SlotSubscription]:
        """A part for each address of a composite destination."""
        return (self,) if self.split is None else {part.address: part for part in self.split.parts}.values()

    def owe(self, effect: Deliver) -> bool:
        """Books a delivery; True when it is time to grant the room back."""
        if self._learns:
            self._learns = False
            self.session.edge.digits[self.slot] = len(str(effect.run.ids[-1]))
        self.owed += effect.cost
        return self.owed > self.quarter

    def grant(self) -> Grant:
        """The command that gives the room of what was delivered back."""
        owed, self.owed = self.owed, 0
        return Grant(self.slot, self.consumer, owed)

    def give_room(self) -> None:
        """Room that was held back may be granted now."""
        edge = self.session.edge
        edge.grant(self)
        edge.submit_grants()

    def _redelivered(self, run: Run) -> bytes:
        count = b"delivery-count:%d\n" % (run.attempts + 1) if run.attempts else b""
        return b"%bredelivered:true\n%b%b" % (self._head, count, self._mid)

    def _rewritten(self, run: Run) -> Run:
        """Header lines as this client's STOMP version writes them."""
        version = self.session.version
        if run.flags & TEXT and version is Version.V10:
            run = _text(run)
        if not run.flags & ESCAPED:
            return run
        if run.flags & BLOB:
            records = [rewrite_lines(run.lines + run.records[0], version)]
        else:
            records = [rewrite_lines(run.lines + record, version) for record in run.records]
        return Run(run.ids, b"", records, run.nbytes, run.flags, attempts=run.attempts, blob=run.blob)


class ShownSubscription(SlotSubscription):
    """A subscription that has a name of its own for where its messages come from."""

    __slots__ = ("_shown",)

    def shows(self, shown: Shown) -> None:
        """From the first message on."""
        self._shown = shown
        self.overhead += shown.nbytes

    def render(self, run: Run) -> bytes:
        return super().render(self._shown.run(run))

    def frames(self, run: Run) -> list[bytes]:
        return super().frames(self._shown.run(run))


class HostedSubscription(SlotSubscription):
    """A subscription of a virtual host: where a dead letter was is told as its clients know it."""

    __slots__ = ("_shown",)

    def begins(self, shown: Shown | None) -> None:
        """Before the first message."""
        self._shown = shown
        self.overhead += 0 if shown is None else shown.nbytes

    def render(self, run: Run) -> bytes:
        return super().render(self._plainly(run))

    def frames(self, run: Run) -> list[bytes]:
        return super().frames(self._plainly(run))

    def _plainly(self, run: Run) -> Run:
        lines, records, host = run.lines, run.records, self.session.entrance.dialect.host
        if ORIGINS[0] in lines:
            lines = host_told(lines, host)
        if not run.lines.endswith(b"\n\n") and any([ORIGINS[0] in record for record in records]):
            records = [host_told(record, host) for record in records]
        if lines is not run.lines or records is not run.records:
            run = Run(run.ids, lines, records, run.nbytes, run.flags, attempts=run.attempts, blob=run.blob)
        return run if self._shown is None else self._shown.run(run)


def host_told(text: bytes, host: VirtualHost) -> bytes:
    """Header lines, alone or with the body behind them, with the names of the host as its clients know them."""
    if text.startswith(b"\n"):
        return text
    end = text.find(b"\n\n")
    lines, rest = (text, b"") if end < 0 else (text[:end], text[end:])
    told = [
        host.told(line.decode()).encode() if line.startswith(ORIGINS) else line for line in lines.split(b"\n")
    ]  # fmt: skip
    return b"\n".join(told) + rest


def _text(run: Run) -> Run:
    """Texts without content-length: 1.0 clients know by that whether a body was sent as text or as bytes (Artemis)."""
    lines, records = run.lines, run.records
    if lines.endswith(b"\n\n"):
        lines = without_length(lines)
    else:
        records = [without_length(record) if is_text(record) else record for record in records]
    return Run(run.ids, lines, records, run.nbytes, run.flags, attempts=run.attempts, blob=run.blob)
