"""One leader's stream, at the follower's end: takes what it sends, and says when it is on the disk.

Rule: in order. What an acknowledgement or a promise does not cover any more has been said before it.
Whether a leader counts for a slot is decided in follower.py.
"""

# Example. B follows A in slots 4 and 9.
#     hello      who A is, and how long a promise is to hold
#     leads      slot 9 in epoch 5: accepts() begins it in B's journal; what B has of 9 is answered when it is synced,
#                since it counts at A at once
#     append 7   items 39 and 40 of 9: into the journal, and to the standby. "acked 7" when the disk has them
#     append 8   an item of 4 cannot be read: "broken 4", and A begins anew with 4 alone. 8 is acknowledged all the same
#     ping       answered with a promise: for so long nothing of what is followed on this stream is led here (I8)
#     epoch 6    C says on a stream of its own that it leads 9: 9 leaves this stream, A hears "stale", and what A still
#                sends of 9 is passed over (I2)

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from struct import error as StructError
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from broker.core.errors import BadItem, Code, NewerRelease
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.clock import Clock
from broker.seams.stream import Ended, Stream

from ...bodies.incoming_bodies import IncomingBodies, IncomingStore
from ...commit.io_thread import Io
from ...slots.standby import Change
from ..catchup import bodies_of
from ..replica_check import Found, QueueState, packed

log = logging.getLogger("stampede.owner")


class FollowedLog(Protocol):
    """The journal, as far as one leader's items go into it."""

    @property
    def blobs(self) -> IncomingStore: ...
    def last(self, slot: int) -> tuple[int, int]: ...
    def lineage(self, slot: int) -> list[tuple[int, int]]: ...
    def append_item(self, slot: int, data: bytes, algorithm: int) -> list[Any]: ...
    def append_seed(self, slot: int, data: bytes, algorithm: int) -> list[Any]: ...


class Home(Protocol):
    @property
    def durable(self) -> Callable[[Callable[[], None]], None]: ...


class FollowerSide(Protocol):
    """All slots followed here (follower.py): decides which leader's items count for which of them."""

    @property
    def journal(self) -> FollowedLog: ...
    @property
    def home(self) -> Home: ...

    clock: Clock
    body_io: Io

    def hello(self, stream: LeaderStream, hello: pb.Hello) -> str: ...
    def accepts(self, stream: LeaderStream, slot: int, epoch: int) -> bool: ...
    def drop_source(self, slot: int, source: LeaderStream) -> None: ...
    def resigned(self, slot: int, source: LeaderStream, epoch: int) -> None: ...
    def closed(self, stream: LeaderStream, why: Ended) -> None: ...
    def begin_seed(self, slot: int) -> None: ...
    def end_seed(self, slot: int, lineage: list[tuple[int, int]], lsn: int) -> None: ...
    def copying(self, slot: int) -> bool: ...
    def apply(self, slot: int, changes: list[Change]) -> None: ...
    def on_counted(self, slot: int, lsn: int) -> None: ...
    def look(self, slot: int, found: Found) -> None: ...


class LeaderStream:
    """One leader's stream.

    slots     slot → epoch it leads it in, as far as its items count.
    heard     monotonic time of its last message.    promised   up to when nothing in `slots` is led here."""

    def __init__(self, user: FollowerSide, stream: Stream) -> None:
        self.stream = stream
        self.owner = ""
        self.boot = ""
        self.slots: dict[int, int] = {}
        self.heard = user.clock.monotonic()
        self.promised = 0.0
        self._user = user
        self._promise_s = 0.0
        self._checksum = 0
        self._over = False
        self._bodies = IncomingBodies(user.journal.blobs, user.body_io, self._acknowledge_body, self._failed)

    def excuse(self, slept: float, now: float) -> None:
        """So long this process stood still: no silence of the leader."""
        self.heard = min(now, self.heard + slept)

    def on_message(self, data: bytes) -> None:
        if self._over:
            return
        self.heard = self._user.clock.monotonic()
        try:
            message = pb.ToFollower.FromString(data)
        except DecodeError:
            # As an empty message: refused below by name, like everything that this release does not know.
            message = pb.ToFollower()
        what = message.WhichOneof("what")
        # Rides on any message, mostly on a ping.
        if message.HasField("counted"):
            self._counted(message.counted)
        if not self.owner:
            self._hello(message.hello if what == "hello" else pb.Hello(), what == "hello")
        elif what == "append":
            self._append(message.append)
        elif what == "ping":
            self._ping(message.ping)
        elif what == "leads":
            taken = self.leads([(lead.slot, lead.epoch) for lead in message.leads.leads])
            self.answer(taken)
        elif what == "seed":
            self._seed(message.seed)
        elif what == "chunk":
            chunk = message.chunk
            self._chunk(chunk)
        elif what == "check":
            self._check(message.check)
        elif what == "resign":
            self._user.resigned(message.resign.slot, self, message.resign.epoch)
        else:
            self._close(refusal(Code.BAD_COMPONENT_MESSAGE))

    def on_closed(self, why: Ended) -> None:
        self._over = True
        self._bodies.abort()
        self._user.closed(self, why)

    def left(self, slot: int) -> None:
        """The slot is not followed on this stream any more."""
        self.slots.pop(slot, None)
        self._bodies.left(slot)

    def send(self, message: pb.ToLeader) -> None:
        self.stream.send(message.SerializeToString())

    def stale(self, slot: int, epoch: int) -> None:
        self.send(pb.ToLeader(stale=pb.SlotEpoch(slot=slot, epoch=epoch)))

    def _close(self, why: str) -> None:
        log.warning("stream of a leader at %s refused: %s", self.stream.peer, why)
        self._over = True
        self.stream.close(why)

    def _hello(self, hello: pb.Hello, is_one: bool) -> None:
        why = self._user.hello(self, hello) if is_one else refusal(Code.BAD_COMPONENT_MESSAGE)
        if why:
            self._close(why)
            return
        self.owner = getattr(hello, "from")
        self.boot = hello.boot
        self._checksum = hello.checksum
        self._promise_s = hello.promise_ms / 1000

    # ── epochs and promises ────────────────────────────────────────────────────────────────────────

    def leads(self, leads: list[tuple[int, int]]) -> list[int]:
        """The slots that are followed on this stream from now on."""
        taken: list[int] = []
        for slot, epoch in leads:
            if self._user.accepts(self, slot, epoch):
                self.slots[slot] = epoch
                taken.append(slot)
        return taken

    def answer(self, slots: list[int]) -> None:
        """What is held of them, once their epochs and everything before are on the disk."""
        if slots:
            # Before the wait, and compared behind it: what is answered is certainly on the disk, and nothing less
            # than what is there.
            held = {slot: self._user.journal.last(slot) for slot in slots}
            self._user.home.durable(partial(self._answer, held))

    def _answer(self, held: dict[int, tuple[int, int]]) -> None:
        """More may have come meanwhile, of what the leader had sent before it asked: that is not on the disk yet, and
        what is said to be held counts at once."""
        journal = self._user.journal
        haves = pb.Haves()
        grown: list[int] = []
        for slot, last in held.items():
            if slot not in self.slots:
                continue
            # Saying less than we hold would have the leader send it again; saying more than is synced would make it
            # count.
            if journal.last(slot) != last:
                grown.append(slot)
                continue
            lineage = journal.lineage(slot)
            have = haves.haves.add(slot=slot, epoch=self.slots[slot], lsn=last[1])
            have.epochs.extend(epoch for epoch, _ in lineage)
            have.firsts.extend(first for _, first in lineage)
        if haves.haves and not self._over:
            self.send(pb.ToLeader(haves=haves))
        self.answer(grown)

    def _ping(self, number: int) -> None:
        # The promise begins before the answer leaves: the leader counts from when it asked, which is earlier still.
        self.promised = self._user.clock.monotonic() + self._promise_s
        self.send(pb.ToLeader(pong=number))

    def _counted(self, counted: pb.Counted) -> None:
        for slot, lsn in zip(counted.slots, counted.lsns, strict=False):
            if slot in self.slots:
                self._user.on_counted(slot, lsn)

    # ── items ──────────────────────────────────────────────────────────────────────────────────────

    def _append(self, append: pb.Append) -> None:
        journal, slots = self._user.journal, self.slots
        for slot, data in zip(append.slots, append.items, strict=False):
            # Others on this stream go on: one slot's trouble is not the stream's.
            if slot not in slots:
                continue  # said so before: stale, broken, or not followed any more
            try:
                self._check_bodies(data)
                changes = journal.append_item(slot, data, self._checksum)
            except NewerRelease as error:
                # Before BadItem, of which it is one: what is here is good, and only a newer release of this process
                # can go on.
                self._broken(slot, refusal(Code.WRONG_RELEASE, str(error)), Code.WRONG_RELEASE)
                continue
            except (BadItem, StructError) as error:
                self._broken(slot, str(error))
                continue
            self._user.apply(slot, changes)
        # Also when a slot of it was passed over: the leader has been told so before, on the same stream, and takes
        # the acknowledgement as one of the others.
        self._acknowledge(append.seq)

    def _seed(self, seed: pb.Seed) -> None:
        user, slot = self._user, seed.slot
        if slot in self.slots:
            try:
                if seed.first:
                    user.begin_seed(slot)
                elif not user.copying(slot):
                    # Its beginning was lost with another stream: a copy without a beginning would be taken for a
                    # whole one.
                    raise BadItem(f"slot {slot}: a part of a copy that was not begun")
                for data in seed.items:
                    self._check_bodies(data)
                    user.apply(slot, user.journal.append_seed(slot, data, self._checksum))
                if seed.last:
                    user.end_seed(slot, list(zip(seed.epochs, seed.firsts, strict=False)), seed.lsn)
            except NewerRelease as error:
                self._broken(slot, refusal(Code.WRONG_RELEASE, str(error)), Code.WRONG_RELEASE)
            except (BadItem, StructError) as error:
                self._broken(slot, str(error))
        self._acknowledge(seed.seq)

    def _check(self, check: pb.Check) -> None:
        """What lives in the slot now: the leader has sent everything up to its lsn, and asks itself the same."""

        def found(queues: list[QueueState] | None, why: str) -> None:
            if not self._over:
                self.send(packed(check.number, queues, why))

        if self.slots.get(check.slot) != check.epoch:
            found(None, "it follows another leader")
        elif self._user.journal.last(check.slot)[1] != check.lsn:
            found(None, f"it has the log up to {self._user.journal.last(check.slot)[1]}, not {check.lsn}")
        else:
            self._user.look(check.slot, found)

    def _chunk(self, chunk: pb.BlobChunk) -> None:
        slot = chunk.slot - 1
        if chunk.first and slot >= 0 and slot not in self.slots:
            # Said so before, as of the items: nobody will name it here, so there would be nobody to remove it either.
            self._acknowledge_body(chunk.id, chunk.length, True)
        elif chunk.first:
            self._bodies.begin(chunk.id, chunk.length, slot)
        else:
            self._bodies.chunk(chunk.id, chunk.data)

    def _check_bodies(self, data: bytes) -> None:
        for id, _ in bodies_of(data):
            if not self._bodies.whole(id):
                raise BadItem(f"large body {id:016x} has not come before its message")

    def _broken(self, slot: int, why: str, code: Code = Code.BAD_COMPONENT_MESSAGE) -> None:
        log.error("slot %d: what %s sent cannot be used: %s", slot, self.owner, why)
        self._user.drop_source(slot, self)
        self.send(pb.ToLeader(broken=pb.Broken(slot=slot, why=why, code=code.number)))

    def _acknowledge(self, seq: int) -> None:
        # Acknowledgements go out in order, for durable() calls back in order: the leader takes one as all before it.
        self._user.home.durable(partial(self._durable, seq))

    def _durable(self, seq: int) -> None:
        if not self._over:
            self.send(pb.ToLeader(acked=seq))

    def _acknowledge_body(self, id: int, nbytes: int, whole: bool) -> None:
        if not self._over:
            self.send(pb.ToLeader(taken=pb.BlobTaken(id=id, bytes=nbytes, whole=whole)))

    def _failed(self, why: str) -> None:
        if not self._over:
            self._close(f"a large body cannot be written: {why}")


def refusal(code: Code, detail: str = "") -> str:
    """The reason of a closed stream."""
    return f"{code.name}: {code.text}" + (f": {detail}" if detail else "")
