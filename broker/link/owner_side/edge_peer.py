"""One edge process as an owner sees it, over all its streams.

Rule: a delivery is confirmed to the engine when the edge has taken it, and only for the attachment it was made to; what
is told to the edge in one turn leaves as one message. Must not know engines.
"""

# Example. An AUTO consumer of edge E gets message 4 in Down batch 12.
#     deliver   4 is in the batch; `_given` notes one delivery of this attachment
#     flush     the batch leaves; `_flight` has (12, what was given)
#     taken 12  the edge has handed it on: Confirm(consumer, 1) to the engine, which settles 4 (C41). Not before: a
#               batch that is lost with its stream would else be consumed by nobody (I6)
#     gone      the edge says that the consumer had ended when it came: nothing is confirmed, 4 goes to others
#
# What an Open divides. The edge says all it knows behind it, as of that moment. But the shard still has in its inbox
# what came before (it carries out so much a turn), and the log has not yet taken what that has done. All of it is
# carried out, as if it had come a little earlier; none of it may be told any more, since what is said behind the Open
# does not know of it. So every effect counts for one Open:
#     Deliver, ConsumerClosed, BrowseEnd   from when the shard says (Resumed) that it has attached the consumer anew
#     Done, Refused    by the Open that stands above the request's number; what it was asked before is asked again
#     … of a Publish or Transact   any: both happen once, by their number, and are answered alike each time
#     AddressBlocked            any: it says how things are, and its end comes when they are not so any more
#     SlotState        by the Open's own number, at the edge: two may be on their way in one epoch
# Told early, a delivery is taken back by the Resume that knows nothing of it, and its client's ACK refused; a refusal
# of a SUBSCRIBE leaves the consumer that its second time attaches; an end, the one of a new attachment.

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

from broker.core.commands import Command, Confirm, Disconnect, Prepare, Publish, Settle, Subscribe, Unsubscribe
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Effect, Refused, Resumed
from broker.core.errors import Code
from broker.core.heartbeat import Heartbeat
from broker.core.message import BLOB, Blob
from broker.core.patience import Patience
from broker.core.request import Request
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.stream import Stream

from ..bodies.owner_bodies import FindBody, Found, NewBody, OpenBody, OwnerBodies
from ..codec.codec import (
    CONGESTED,
    DOWN_PING,
    MOVED,
    NUMBER_BITS,
    NUMBER_MASK,
    OPENED,
    RELIEVED,
    SLOT_MASK,
    Open,
    SlotState,
    Unknown,
    malformed,
)
from ..codec.command_codec import read_commands
from ..codec.effect_codec import DownBuilder
from ..codec.flat import FlatBuilder, joined, read_flat
from ..stats import LinkStats
from .attach_barrier import AttachBarrier, Waiting
from .attachments import NOT_YET, Attached, Attachments

SWEPT = 10_000
"""Consumers forgotten in one step, about."""
SEQ_BITS: Final = 64
"""Of a request's number on the link; above them stands, inside of the owner, which Open it came behind."""
SEQ_MASK: Final = (1 << SEQ_BITS) - 1


class Resting:
    """A slot that is not served for the moment and may be again, in the same epoch. ends: of sessions whose edge has
    ended meanwhile, for then."""

    __slots__ = ("ends", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ends: list[Command] = []


class EdgePeerUser(Protocol):
    """The server."""

    batch_bytes: int
    served: dict[int, int]
    """Slot → epoch in which it is led here."""
    resting: dict[int, Resting]
    stats: LinkStats
    silence_s: float
    """After which an edge is given up, as long as nothing was learned of it."""
    new_body: NewBody
    open_body: OpenBody
    find_body: FindBody
    attach_barrier: AttachBarrier[EdgePeer]
    flat: bool
    """Edges speak codec/flat.py."""

    def flush_soon(self, peer: EdgePeer) -> None: ...
    def published(self, slot: int, dedup: tuple[int, int]) -> bool: ...
    def opening(self) -> int:
        """A number for an Open, unlike all others that any edge here has had."""
        ...

    def heartbeat(self) -> Heartbeat:
        """Of what is said to one edge."""
        ...

    def told(self, token: int, slot: int) -> bool:
        """Has the edge of that token said all it knows of the slot since it is led here."""
        ...


class EdgePeer:
    """See the head of this file. `token` is its name space here."""

    def __init__(self, hello: pb.Hello, user: EdgePeerUser) -> None:
        self.edge: str = hello.edge
        self.boot: str = hello.boot
        self.token: int = hello.token
        self.stream: Stream | None = None
        self.opened: dict[int, int] = {}
        """Slot → epoch, on the present stream."""
        self.told: dict[int, int] = {}
        """Slot → epoch in which it has said all it knows of earlier ones."""
        # A counter, not the epoch: the same leader may be opened twice in one epoch, and what was handed out before
        # the second Open is told by the Resumes behind it.
        self._openings: dict[int, int] = {}
        """Slot → number of its Open. What was attached before it knows nothing of what is handed out behind it."""
        self.consumers = Attachments()
        self.bodies = OwnerBodies(self, user.new_body, user.open_body)
        self.streams = 0
        self.patience = Patience(user.silence_s)
        self.quiet = True
        self.dirty = False
        self._beat = user.heartbeat()
        self._user = user
        self._reset()

    def _reset(self) -> None:
        self._builder = self._new_builder()
        self._frames: list[pb.Body] = []
        self._pressure = 0
        self._taken = 0
        self._told = 0
        self._batch = 0
        self._given: dict[Attached, tuple[int, int]] = {}
        """Attachment → (consumer, deliveries) of the message that is being built."""
        self._flight: deque[tuple[int, dict[Attached, tuple[int, int]]]] = deque()

    def _new_builder(self) -> DownBuilder | FlatBuilder:
        return FlatBuilder() if self._user.flat else DownBuilder()

    # ── streams ────────────────────────────────────────────────────────────────────────────────────

    def begin(self, stream: Stream) -> None:
        """A new stream of this process: nothing of an earlier one counts."""
        self.end()
        self.stream = stream
        self.streams += 1
        self.quiet = True

    def end(self) -> None:
        self.stream = None
        self.opened = {}
        self.told = {}
        self._openings = {}
        self.bodies.lost()
        self._reset()

    def epoch(self, slot: int) -> int | None:
        epoch = self.opened.get(slot)
        return epoch if epoch is not None and self._user.served.get(slot) == epoch else None

    def find(self, slot: int, consumer: int, message: int, found: Found) -> None:
        self._user.find_body(slot, self.token << NUMBER_BITS | consumer & NUMBER_MASK, message, found)

    def leads(self, slot: int) -> bool:
        """Has the edge opened this slot on its present stream, and is it led here."""
        return self.epoch(slot) is not None

    # ── in ─────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, up: pb.Up, flat: memoryview | None = None) -> list[Command]:
        """What the message asks of the shard, in order. flat: its commands (codec/flat.py). Raises ProtocolViolation:
        then nothing of it may happen."""
        asked = read_commands(up, self.token) if flat is None else read_flat(flat, self.token)
        # Batches count on without a gap. A gap means a bug or another stream's message: nothing of it is used.
        if up.batch and up.batch != self._taken + 1:
            raise malformed(f"batch {up.batch} behind batch {self._taken}")
        if up.taken > self._batch:
            raise malformed(f"batch {up.taken} was never sent")
        # Bodies first: a Publish in this message may name one that is complete with it.
        for body in up.bodies:
            self.bodies.on_body(body)
        commands: list[Command] = []
        # Before `taken`, which would confirm them.
        if up.gone:
            for number in up.gone:
                attached = self.consumers.get(self.token << NUMBER_BITS | number)
                if attached is not None:
                    attached.lost()
        if up.taken:
            self._confirm(up.taken, commands)
        if up.batch:
            self._taken = up.batch
        moved: dict[int, None] = {}
        waiting, served, opened = self._user.attach_barrier.waiting, self._user.served, self.opened
        # In order. An Open changes what those behind it find.
        for command in asked:
            slot = command.slot
            if isinstance(command, Open):
                self._open(command)
            elif (epoch := opened.get(slot)) is None or served.get(slot) != epoch:  # leads(), in line
                # Not happened, and said so once for each slot: the edge replays it to whoever leads.
                moved[slot] = None
            elif isinstance(command, Unknown):
                self._refuse(command)
            elif slot in waiting and self._waits(command):
                continue
            elif type(command) is Publish and command.run.blob is None:
                commands.append(command)  # _admit() has nothing to note of it
            elif self._admit(command):
                commands.append(command)
        for slot in moved:
            self.moved(slot)
        return commands

    def _waits(self, command: Waiting) -> bool:
        """The slot does not take everything yet. True: this waits, or has been answered here."""
        attach_barrier, opening = self._user.attach_barrier, self._openings[command.slot]
        if attach_barrier.passes(self, opening, command):
            return False
        # Behind what the edges of its consumers have told by now, or not at all.
        if not isinstance(command, Prepare) or self._admit_settles(command):
            attach_barrier.keep_back(self, opening, command)
        return True

    def let_in(self, opening: int, command: Waiting) -> Command | None:
        """What waited for the slot is to be carried out now. None: the edge has asked for it anew since, or somewhere
        else; or it has been answered here."""
        # It waited so long that the edge has begun anew: it is in that replay.
        if self._openings.get(command.slot) != opening or not self.leads(command.slot):
            return None
        if isinstance(command, Open):
            self.bodies.told(command.slot)
            return None
        return command if self._admit(command) else None

    def _confirm(self, taken: int, commands: list[Command]) -> None:
        flight, opened, served = self._flight, self.opened, self._user.served
        while flight and flight[0][0] <= taken:
            for attached, (consumer, count) in flight.popleft()[1].items():
                # By identity: a consumer that attached again since has told what it holds. Nor behind an Open that it
                # has not attached behind yet: what it was handed before, its edge has taken, but perhaps thrown away.
                if (
                    attached.confirm
                    and self.consumers.get(consumer) is attached
                    and (epoch := opened.get(attached.slot)) is not None
                    and served.get(attached.slot) == epoch  # leads(), in line
                    and self._openings.get(attached.slot) == attached.opening
                ):
                    commands.append(Confirm(attached.slot, consumer, count))

    def _open(self, command: Open) -> None:
        epoch = self._user.served.get(command.slot)
        if command.told:
            if self.leads(command.slot) and epoch == command.epoch:
                self.told[command.slot] = epoch
                self._user.attach_barrier.told(command.slot)
                if not (command.slot in self._user.attach_barrier.waiting and self._waits(command)):
                    self.bodies.told(command.slot)
        elif epoch == command.epoch:
            # Equal, not "at least": edge and owner must mean the same leadership, or the one would tell and the other
            # give what only holds in another.
            self.told.pop(command.slot, None)  # it says all again, on the same stream: a hand-over was taken back
            self.opened[command.slot] = epoch
            self._openings[command.slot] = self._user.opening()
            # Which of its Opens: there may be one more on its way, in the same epoch.
            self._builder.other(SlotState(command.slot, epoch, OPENED, command.opening))
        else:
            self.moved(command.slot)

    def _refuse(self, command: Unknown) -> None:
        """By name: only who asked hears of it, and the stream goes on."""
        why = f"{command.what} is unknown to the owner of this destination, of an earlier release; upgrade owners first"
        self._builder.other(Refused(command.session, command.seq, Code.WRONG_RELEASE, why))
        self.bodies.refused(command.bodies)

    def moved(self, slot: int) -> None:
        """Tells the edge that it asks the wrong one; it must open the slot anew."""
        self.opened.pop(slot, None)
        self._user.stats.found_moved()
        self._builder.other(SlotState(slot, self._user.served.get(slot, 0), MOVED))

    def _admit(self, command: Command) -> bool:
        """Notes what the command means for consumers and bodies. False: it has been answered here."""
        kind = type(command)
        if kind is Publish:
            blob = command.run.blob  # type: ignore[union-attr]
            return blob is None or self._admit_body(command, blob, command.dedup)  # type: ignore[arg-type,union-attr]
        if isinstance(command, Prepare):
            if not self._admit_settles(command):
                return False
            # One that an earlier leader has prepared is refused as well: no decision is possible then but "no".
            blobs = [part.run.blob for part in command.parts if isinstance(part, Publish)]
            if not all([blob is None or self._admit_body(command, blob, None) for blob in blobs]):
                return False
        elif isinstance(command, Subscribe):
            slot = command.slot
            self.consumers.add(command.consumer, Attached(command, self.opened[slot], self._openings[slot]))
            if command.resume is not None:
                command.resume.comes_behind(self._openings[slot])
        elif isinstance(command, Unsubscribe):
            self.consumers.end(command.consumer)
        elif isinstance(command, Disconnect):
            self.consumers.end_session(command.slot, command.session)
        if isinstance(command, Request) and command.seq:
            command.asked_as(command.seq | self._openings[command.slot] << SEQ_BITS)
        return True

    def _admit_settles(self, command: Prepare) -> bool:
        """Whose consumers it settles for must have attached these first, and have held what the transaction names: the
        Prepare comes over another owner's stream, and may be faster."""
        # Of all edges whose consumers are concerned: a coordinator passes on parts of any.
        edges = {edge_of(part.consumer) for part in command.parts if isinstance(part, Settle)}
        if all([self._user.told(token, command.slot) for token in edges]):
            return True
        self._builder.other(
            Refused(
                command.session, command.seq, Code.OWNER_UNAVAILABLE, "the consumer's edge has not come back; ask again"
            )
        )
        return False

    def _admit_body(self, command: Publish | Prepare, blob: Blob, dedup: tuple[int, int] | None) -> bool:
        """Its body must be here: an id that an earlier owner gave says nothing to our journal."""
        if self.bodies.publish(blob):
            return True
        # A Publish that comes again has been taken, by whoever led the slot then, and the engine will say so; or it was
        # refused or dropped, and its body went with it.
        if self._user.published(command.slot, dedup) if dedup is not None else self.bodies.known(blob):
            return True
        self._builder.other(
            Refused(
                command.session,
                command.seq,
                Code.OWNER_MOVED,
                "the owner changed while the large message was on its way; send it again",
            )
        )
        return False

    # ── out ────────────────────────────────────────────────────────────────────────────────────────

    def deliver(self, effect: Deliver) -> None:
        consumer = effect.consumer
        attached = self.consumers.get(consumer)
        if attached is None:
            return
        slot = attached.slot
        epoch = self.opened.get(slot)  # leads(), in line
        if epoch is None or self._user.served.get(slot) != epoch or self._openings.get(slot) != attached.opening:
            return  # made by an earlier leader of the slot here, or for what the edge knew before its last Open
        builder = self._builder
        builder.deliver(consumer, effect.run, effect.cost)
        if attached.confirm and not (attached.bodies and effect.run.flags & BLOB):
            given = self._given.get(attached)
            self._given[attached] = (consumer, 1 if given is None else given[1] + 1)
        # A message of a bounded size, whatever a turn hands out.
        if builder.nbytes >= self._user.batch_bytes:
            self.flush()

    def done(self, session: int, seq: int) -> None:
        # Without a stream nothing is kept for it: the edge asks anew on the next one.
        if self.stream is not None:
            if seq > SEQ_MASK:
                if not self._asked_now(seq):
                    return
                seq &= SEQ_MASK
            self._builder.done(session, seq)

    def _asked_now(self, seq: int) -> bool:
        """Is it of what was asked behind the present Open of its slot. Else it is asked again behind that, and what
        came of the first time may not be what comes of the second."""
        return self._openings.get(seq & SLOT_MASK) == seq >> SEQ_BITS

    def other(self, effect: Effect | SlotState) -> None:
        if isinstance(effect, Resumed):
            if (attached := self.consumers.get(effect.consumer)) is not None:
                attached.happened(effect.behind)
            return
        if isinstance(effect, ConsumerClosed | BrowseEnd):
            attached = self.consumers.get(effect.consumer)
            # Of an earlier attachment: another one is asked for already, whatever became of that.
            if attached is not None and attached.opening == NOT_YET:
                return
            if isinstance(effect, ConsumerClosed):
                self.consumers.end(effect.consumer)
            # … or will be.
            if attached is not None and self._openings.get(attached.slot) != attached.opening:
                return
        elif isinstance(effect, Refused) and effect.seq > SEQ_MASK:
            if not self._asked_now(effect.seq):
                return
            effect = Refused(effect.session, effect.seq & SEQ_MASK, effect.code, effect.detail)
        if self.stream is not None:
            self._builder.other(effect)  # type: ignore[arg-type]

    def send_body(self, body: pb.Body) -> None:
        if self.stream is None:
            return
        self._frames.append(body)
        if body.data:
            # Each piece of a body in a message of its own, so that what is small comes between.
            self.flush()
        else:
            self._user.flush_soon(self)

    def press(self, congested: bool) -> None:
        """Tells the edge whether it may go on sending."""
        self._pressure = CONGESTED if congested else RELIEVED
        self._user.flush_soon(self)

    def has_news(self) -> bool:
        """It will have something to send, by a flush() to come. False: one is on its way already."""
        if self.dirty:
            return False
        self.dirty = True
        return True

    def ping_if_quiet(self, now: float) -> None:
        """A period is over: where nothing was sent for long, a heart-beat is."""
        if self._beat.due(not self.quiet, now):
            self.send_bytes(DOWN_PING)
        self.quiet = True

    def flush(self) -> None:
        """Sends what has gathered, if anything has."""
        self.dirty = False
        stream, builder = self.stream, self._builder
        if stream is None or not (builder.count or self._frames or self._pressure or self._taken > self._told):
            return
        down, flat = builder.finish(), builder.flat() if self._user.flat else b""
        self._builder = FlatBuilder() if self._user.flat else DownBuilder()
        if builder.count:
            self._batch += 1
            down.batch = self._batch
            if self._given:
                self._flight.append((self._batch, self._given))
                self._given = {}
        if self._taken > self._told:
            # Rides on what is sent anyway.
            down.taken = self._told = self._taken
        if self._pressure:
            down.pressure = pb.Pressure.Name(self._pressure)
            self._pressure = 0
        if self._frames:
            down.bodies.extend(self._frames)
            self._frames = []
        data = down.SerializeToString()
        if flat:
            data = joined(flat, data)
        self.quiet = False  # send_bytes(), in line
        self._user.stats.sent(len(data))
        stream.send(data)

    def send_bytes(self, data: bytes) -> None:
        assert self.stream is not None
        self.quiet = False
        stats = self._user.stats
        stats.sent(len(data))
        self.stream.send(data)

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def sweep(self, most: int = SWEPT) -> bool:
        """Forgets consumers and bodies of slots that are led elsewhere now. False: there are more."""
        served = self._user.served
        self.bodies.sweep(served)
        return self.consumers.keep(self._led(), most)

    def _led(self) -> dict[int, int]:
        """Slot → epoch, of those that are led here or may be again."""
        return {**{slot: resting.epoch for slot, resting in self._user.resting.items()}, **self._user.served}

    def farewell(self) -> Iterator[Disconnect]:
        """The process is gone: the end of each of its sessions that consumes here."""
        self.bodies.sweep(self._user.served)
        self.bodies.gone()
        return (Disconnect(slot, session) for slot, session in self.consumers.sessions(self._led()))


def edge_of(number: int) -> int:
    """The token in front of a session or consumer; 0: the owner's own."""
    return number >> NUMBER_BITS
