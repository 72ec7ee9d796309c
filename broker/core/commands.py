"""What an edge asks of a slot. Commands come in batches; each names its slot.

Rule: values only. Everything a command needs is in it: the engine has no clock, no session table of the edge and no
sockets. `session`/`seq` say which session waits for the answer (`seq` 0 = nobody, but a refusal is reported all the
same).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from .address import AckMode, Outcome, Routing
from .creation import Creation, maker_of
from .ids import SLOTS
from .message import Run
from .request import Request

UNLIMITED: int = 1 << 62
"""A credit that never runs out."""


class Publish:
    """Messages for one address, in order. `run.ids` is empty: the engine numbers them.

    queue     name of one queue of the address (FQQN `address::queue`), or None for routing by type.
    create    may the address (and an anycast queue) be created by this send (see Creation).
    dedup     producer token for exactly-once over fail-over: (producer, number), or None. Numbers of a producer grow
              within a slot; one that is not above the last one taken has been taken already: it is answered like the
              original (Done when that is durable) and changes nothing.
    atomic    part of a transaction: not even a non-durable message is seen before its commit is durable.
    ttl, delay   milliseconds from when the owner takes it to run.expires and run.due, by its own clock: that of the
              edge may be hours off. 0: what the run says counts. Owners of before do not know them.
    """

    __slots__ = (
        "address", "atomic", "create", "dedup", "delay", "queue", "routing", "run", "seq", "session", "slot", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        address: str,
        routing: Routing,
        run: Run,
        queue: str | None = None,
        create: Creation = True,
        dedup: tuple[int, int] | None = None,
    ) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.address = address
        self.routing = routing
        self.run = run
        self.queue = queue
        self.create = create
        self.dedup = dedup
        self.atomic = False
        self.ttl = self.delay = 0

    @property
    def maker(self) -> str:
        """Whose the queue is that it makes; empty: nobody's."""
        return maker_of(self.create)

    def lives(self, ttl: int, delay: int, due: int, now: int) -> None:
        """Its times, of which lengths are the owner's to add to its clock. due: a moment, which counts before `delay`.
        now: by ours, for owners that do not know lengths."""
        self.run.due_at(due)
        if ttl:
            self.ttl = ttl
            self.run.expires_at(now + ttl)
        if delay and not due:
            self.delay = delay
            self.run.due_at(now + delay)

    def waited(self, ms: int) -> None:
        """So long it has waited until it is sent on: that is part of its times."""
        self.ttl = self.ttl and max(self.ttl - ms, 1)
        self.delay = self.delay and max(self.delay - ms, 1)

    def answer_to(self, seq: int) -> None:
        """Its answer goes to `seq`; 0: nobody waits for one."""
        self.seq = seq

    def numbered(self, seq: int, dedup: tuple[int, int]) -> None:
        """Its answer goes to `seq`; under `dedup` it counts once."""
        self.seq = seq
        self.dedup = dedup

    def brings(self, run: Run) -> None:
        """Only these of its messages, or the same ones as something else has made them."""
        self.run = run

    def lasts(self, ttl: int, delay: int) -> None:
        """Its times as they came from an edge."""
        self.ttl, self.delay = ttl, delay

    def route(self, routing: Routing) -> None:
        """Its address is of another type than it says."""
        self.routing = routing

    def within(self) -> Publish:
        """As a part of something that has been decided: see `atomic`."""
        self.atomic = True
        return self

    def arrive(self, now: int, ahead: int = 0) -> None:
        """The owner takes it: its times become those of the owner's clock. ahead: see Turn; call it once then."""
        run = self.run
        if self.ttl:
            run.expires_at(now + self.ttl)
            self.ttl = 0
        elif run.expires and ahead:
            run.expires_at(run.expires + ahead)
        if self.delay:
            run.due_at(now + self.delay)
            self.delay = 0
        elif run.due and ahead:
            run.due_at(run.due + ahead)


class Resume:
    """What an edge knows when it attaches a consumer again (a new leader, or a stream that broke).

    held     (first id, last id) …: delivered to the client and not settled: they become this consumer's again, in this
             order, before anybody is served. An id that is not in the queue any more is settled already, or was not
             durable and died with a leader: a later Settle of it succeeds and does nothing, unless another consumer
             has it (engine/recovery/already_settled.py).
    taken    (first id, last id) …: delivered to the client in AckMode.AUTO: settled now if they are still there.
    tries    id → attempts (Run.attempts) with which the client was given it, where that is not 0. Where the log of
             an earlier leader has more, that leader had given the edge up, and the message is another edge's. (What
             came back in order counts nothing, but that is never in `held`: its edge knows.)
    firm     of `held`: durable messages that open transactions acknowledge, or that nobody has acknowledged. They did
             not die with a leader: one that is not in a durable queue any more another consumer has settled. Edges of
             before name those of transactions only, or none.
    behind   which of the asker's attachments this is, said back when it has happened (effects.Resumed); 0: nobody wants
             to know.
    Everything else that an earlier attachment of the same consumer still held never arrived: back to the queue.
    """

    __slots__ = ("behind", "firm", "held", "taken", "tries")

    def __init__(
        self,
        held: list[tuple[int, int]],
        taken: list[tuple[int, int]],
        tries: dict[int, int] | None = None,
        firm: list[tuple[int, int]] | None = None,
    ) -> None:
        self.held = held
        self.taken = taken
        self.tries = tries or {}
        self.firm = firm or []
        self.behind = 0

    def comes_behind(self, opening: int) -> None:
        """It is to be told that it has happened."""
        self.behind = opening


class Subscribe(Request):
    """A consumer on a queue of one address.

    queue            explicit queue name (FQQN, or `client-id.name` of a durable subscription), or None:
                     anycast → the queue named like the address; multicast → a queue of its own that
                     dies with the consumer.
    durable          the queue outlives the consumer (durable subscription).
    selector         filter text, or None.
    credit_messages, credit_bytes   unacknowledged messages/bytes this consumer may hold (client modes);
                     given back by settling. UNLIMITED = no limit. A window of bytes may overshoot by
                     one message.
    room             bytes that may be under way to the socket; given back by `Grant`.
    confirm          AckMode.AUTO only: a delivery is settled by `Confirm`, not by being handed out (the edge is another
                     process, and what dies on the way must not be lost).
    bodies           with `confirm`: of a message with a large body the edge says so by itself, with a Settle, when it
                     has all of the body. Edges of older releases do not.
    resume           None, or what the edge knows of this consumer from an earlier leader or an earlier stream.
    overhead         bytes the edge puts in front of each message (for byte windows).
    browse           sees the messages, takes none.
    no_local         does not get what its own session publishes.
    maker            whose the queue is that it makes; empty: nobody's. Not in `create`: one of its own is made in any
                     case.
    """

    __slots__ = (
        "ack", "address", "bodies", "browse", "confirm", "consumer", "create", "credit_bytes", "credit_messages",
        "durable", "maker", "no_local", "overhead", "priority", "queue", "resume", "room", "routing", "selector", "seq",
        "session", "slot",
    )  # fmt: skip

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        consumer: int,
        address: str,
        routing: Routing,
        ack: AckMode,
        *,
        queue: str | None = None,
        durable: bool = False,
        selector: str | None = None,
        credit_messages: int = UNLIMITED,
        credit_bytes: int = UNLIMITED,
        room: int = UNLIMITED,
        overhead: int = 0,
        browse: bool = False,
        priority: int = 0,
        create: bool = True,
        no_local: bool = False,
        maker: str = "",
    ) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.consumer = consumer
        self.address = address
        self.routing = routing
        self.ack = ack
        self.queue = queue
        self.durable = durable
        self.selector = selector
        self.credit_messages = credit_messages
        self.credit_bytes = credit_bytes
        self.room = room
        self.overhead = overhead
        self.browse = browse
        self.priority = priority
        self.create = create
        self.no_local = no_local
        self.maker = maker
        self.confirm = self.bodies = False
        self.resume: Resume | None = None

    def in_slot(self, slot: int) -> Subscribe:
        """The same in another slot: the consumer of that number in its block."""
        part = copy.copy(self)
        part.slot = slot
        part.consumer += slot
        return part

    def as_model(self, first: int) -> Subscribe:
        """The same in no slot yet, asked by nobody. first: number of its block of consumers."""
        model = copy.copy(self)
        model.slot, model.seq, model.consumer, model.resume = 0, 0, first, None
        return model

    def resumes(self, known: Resume) -> None:
        """It attaches a consumer again, of which the edge knows this."""
        self.resume = known

    def attach_again(self, seq: int, create: bool, room: int) -> Subscribe:
        """The same to the owner of now.    create   what it was once allowed to have may have gone with a leader."""
        again = copy.copy(self)
        again.seq, again.create, again.room = seq, create, room
        return again

    def wait(self) -> None:
        """Nothing may come to it before it is granted something."""
        self.room = 0

    def settle_by(self, confirm: bool, bodies: bool) -> None:
        """How deliveries are settled in AckMode.AUTO: see `confirm` and `bodies`."""
        self.confirm, self.bodies = confirm, bodies

    def settle_by_edge(self, yes: bool) -> None:
        """In this release an edge sees to both, or to none."""
        self.settle_by(yes, yes)


class Unsubscribe(Request):
    """Ends a consumer; its unsettled messages go back to the head of the queue.

    delete_queue: also delete this durable subscription's queue (refused while others consume it).
    consumer 0 with delete_queue: delete a durable subscription nobody is attached to (`address` says whose).
    """

    __slots__ = ("address", "consumer", "delete_queue", "seq", "session", "slot")

    def __init__(
        self, slot: int, session: int, seq: int, consumer: int, address: str, delete_queue: str | None = None
    ) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.consumer = consumer
        self.address = address
        self.delete_queue = delete_queue


BLOCK: Final = 256
"""Consumer numbers of a subscription to all slots: one for each, in the order of the slots, from a multiple of it."""
EVERYWHERE: Final = -1
"""The slot of what concerns all of them."""


class SubscribeAll:
    """A subscription to a wildcard that needs no queue before its first message: in all slots at once, and in each a
    consumer only when there is something for it.

    model   what it is in slot 0, with the first number of its block of consumers; `session` and `seq` are its."""

    __slots__ = ("model", "seq", "session")
    slot = EVERYWHERE

    def __init__(self, model: Subscribe) -> None:
        self.model = model
        self.session = model.session
        self.seq = model.seq

    def parts(self) -> Iterator[Subscribe]:
        """The same, one by one."""
        for slot in range(SLOTS):
            yield self.model.in_slot(slot)


class UnsubscribeAll:
    """Ends a SubscribeAll, all its consumers with it. consumer: the first of the block."""

    __slots__ = ("address", "consumer", "seq", "session")
    slot = EVERYWHERE

    def __init__(self, session: int, seq: int, consumer: int, address: str) -> None:
        self.session = session
        self.seq = seq
        self.consumer = consumer
        self.address = address


class DisconnectAll:
    """The session is gone: whatever its SubscribeAlls have made ends. calm: as in Disconnect."""

    __slots__ = ("calm", "session")
    slot = EVERYWHERE
    seq = 0

    def __init__(self, session: int, calm: bool = False) -> None:
        self.session = session
        self.calm = calm


class Settle(Request):
    """ACK, NACK or return of deliveries. In AckMode.CLIENT each id covers all earlier ones of the consumer.

    delay     milliseconds before redelivery of a NACK, or -1 = by the address settings.
    An id that the consumer does not hold refuses the whole command; nothing is settled then.
    """

    __slots__ = ("consumer", "delay", "ids", "outcome", "seq", "session", "slot")

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        consumer: int,
        ids: Sequence[int],
        outcome: Outcome = Outcome.ACK,
        delay: int = -1,
    ) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.consumer = consumer
        self.ids = ids
        self.outcome = outcome
        self.delay = delay

    def own(self) -> None:
        """Its ids are a list of its own from now on: what is added to it is added to nothing else."""
        self.ids = list(self.ids)


class Hold(Request):
    """An ACK/NACK inside an open transaction: the messages stay the consumer's, their credit comes back
    now (else a full window could never reach its COMMIT), and no other ACK may touch them. Refused for
    ids that are not held. Undone or done by the Settle inside `Transact`, or by a Settle RETURN."""

    __slots__ = ("consumer", "ids", "seq", "session", "slot")

    def __init__(self, slot: int, session: int, seq: int, consumer: int, ids: Sequence[int]) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.consumer = consumer
        self.ids = ids


class Barrier(Request):
    """Answered when everything the slot's owner took before it is durable, asked for or not (DISCONNECT)."""

    __slots__ = ("seq", "session", "slot")

    def __init__(self, slot: int, session: int, seq: int) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq


class Grant:
    """`nbytes` of earlier deliveries have left for the socket: that much room is free again."""

    __slots__ = ("consumer", "nbytes", "slot")

    def __init__(self, slot: int, consumer: int, nbytes: int) -> None:
        self.slot = slot
        self.consumer = consumer
        self.nbytes = nbytes


class Confirm:
    """The first `count` Deliver effects of this consumer that are not confirmed yet have reached the edge
    (Subscribe.confirm): settles their messages."""

    __slots__ = ("consumer", "count", "slot")

    def __init__(self, slot: int, consumer: int, count: int) -> None:
        self.slot = slot
        self.consumer = consumer
        self.count = count


class Disconnect:
    """The session is gone: all its consumers of this slot end, unsettled messages go back.

    calm: not because the client failed, so it does not count as an attempt to deliver them."""

    __slots__ = ("calm", "session", "slot")

    def __init__(self, slot: int, session: int, calm: bool = False) -> None:
        self.slot = slot
        self.session = session
        self.calm = calm


class Transact:
    """COMMIT: all parts happen or none. Parts are Publish and Settle commands, of any slots, in frame order.

    `slot` is the slot of the first part (the coordinator). dedup: as in Publish, counted in that slot. One that reaches
    into other slots takes its time, and others overtake it: it is numbered in a sequence in which it is alone."""

    __slots__ = ("dedup", "parts", "seq", "session", "slot")

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        parts: list[Publish | Settle],
        dedup: tuple[int, int] | None = None,
    ) -> None:
        self.dedup: tuple[int, int] | None = dedup
        self.slot = slot
        self.session = session
        self.seq = seq
        self.parts = parts

    def answer_to(self, seq: int) -> None:
        """Its answer goes to `seq`; 0: nobody waits for one."""
        self.seq = seq

    def counts_as(self, dedup: tuple[int, int]) -> None:
        """Under that number it counts once."""
        self.dedup = dedup


class Prepare(Request):
    """First half of a transaction over several slots: this slot's parts are checked and kept, durable and unseen, until
    `Decide`. Done: it can be committed whatever happens. Refused: it cannot, and nothing is kept.

    tx            unique text of the transaction.    coordinator   the slot whose log holds the decision.
    epoch         in which that slot is led by who asks: what a deposed leader asked for late is refused (OWNER_MOVED),
                  because the transaction may have been carried out under the same name since.
    """

    __slots__ = ("coordinator", "epoch", "parts", "seq", "session", "slot", "tx")

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        tx: str,
        coordinator: int,
        parts: list[Publish | Settle],
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch
        self.slot = slot
        self.session = session
        self.seq = seq
        self.tx = tx
        self.coordinator = coordinator
        self.parts = parts


class Decide(Request):
    """Second half: what was prepared under `tx` happens, or is forgotten. Done when that is durable, also when there is
    nothing prepared under that name (it has been decided before).

    calm: it is forgotten, and not because its client failed: see Disconnect."""

    __slots__ = ("calm", "commit", "seq", "session", "slot", "tx")

    def __init__(self, slot: int, session: int, seq: int, tx: str, commit: bool, calm: bool = False) -> None:
        self.calm = calm
        self.slot = slot
        self.session = session
        self.seq = seq
        self.tx = tx
        self.commit = commit


class Inquire(Request):
    """Asks the coordinator slot what became of `tx`. Done: committed. Refused(NO_SUCH_TRANSACTION): aborted, or never
    decided, and from now on it never will be. Refused(OWNER_UNAVAILABLE): it is being decided, ask again."""

    __slots__ = ("seq", "session", "slot", "tx")

    def __init__(self, slot: int, session: int, seq: int, tx: str) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.tx = tx


class Act(Enum):
    """What an operator has done to a queue. The values travel between processes."""

    CREATE = "create"
    DELETE = "delete"
    """With everything in it; consumers are told."""
    PURGE = "purge"
    """Everything in it goes, also what consumers hold: what they say of that is accepted and does nothing."""
    PAUSE = "pause"
    """It hands out nothing until RESUME; over restarts too, if it is durable."""
    RESUME = "resume"
    CANCEL = "cancel"
    """Of those that are sent again and again these do not come again: `selector` has their ids."""


class Manage(Request):
    """An operator acts on one queue. Done when that is durable; refused by name, with nothing changed.

    routing, selector   of a queue that is to be created.
    force   delete it though it has consumers."""

    __slots__ = ("act", "address", "force", "queue", "routing", "selector", "seq", "session", "slot")

    def __init__(
        self,
        slot: int,
        session: int,
        seq: int,
        act: Act,
        address: str,
        queue: str,
        routing: Routing = Routing.ANYCAST,
        selector: str | None = None,
        force: bool = False,
    ) -> None:
        self.slot = slot
        self.session = session
        self.seq = seq
        self.act = act
        self.address = address
        self.queue = queue
        self.routing = routing
        self.selector = selector
        self.force = force


Wide = SubscribeAll | UnsubscribeAll | DisconnectAll
"""What concerns all slots; a port takes each apart as its owners need it."""
Command = (
    Publish
    | Subscribe
    | SubscribeAll
    | UnsubscribeAll
    | DisconnectAll
    | Unsubscribe
    | Settle
    | Hold
    | Barrier
    | Grant
    | Confirm
    | Disconnect
    | Transact
    | Prepare
    | Decide
    | Inquire
    | Manage
)
