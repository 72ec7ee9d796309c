"""The leader's end of a stream to one follower: hello, pings, promises, what is under way and not acknowledged.

One stream carries all slots that are led here and followed there. It is dialled while some slot needs it, and dialled
anew when it breaks: nothing of an old stream counts for a new one.

Rule: knows one follower and whether it answers; which slot has what is its user's affair (leader.py).
No asyncio: time is a clock and `later`.
"""

# Example of the promise. promise_ms is 3,000. The leader sends ping 7 at 100.000 s of its clock; the follower gets it
# at 200.040 s of its own, promises not to lead before 203.040, and answers; the pong is here at 100.050.
#     leader      may hand out until 100.000 + 0.95 × 3 = 102.850: counted from before the question, and 5 % less.
#                 Were its clock 1 % slow, that is 2.88 s after the ping was sent
#     follower    leads, if elected, at 203.040 of its clock. Were that 1 % fast, it is 2.97 s after the ping came,
#                 which was not before it was sent
# So there is always a moment in which nobody hands out, and never one in which two do (I8). No clock is compared with
# another, only spans; a pong that is lost costs nothing but the time until the next.

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from google.protobuf.message import DecodeError

from broker.core.errors import CODES, Code
from broker.core.heartbeat import Heartbeat, pause
from broker.core.patience import Patience
from broker.core.slots import SlotRecord
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.clock import Clock
from broker.seams.stream import REPLICA_SERVICE, Dialer, Ended, EndKind, Stream

from .isr import FollowerProgress

log = logging.getLogger("stampede.owner")

PROTOCOL: Final = 1
BROKEN_S: Final = 0.3
"""A follower whose stream broke and that could not be dialled for so long is lost."""
FIRST_S: Final = 2.0
"""The same for one that never answered since this process began: it may be starting as well."""
# A refused connection is an answer of the kernel: nobody listens. That is quicker and surer than silence.
REFUSALS: Final = 3
"""A follower whose stream broke and at whose address nobody listens, so many times in a row, is lost at once."""
# It answers pings, so it lives; a disk that hangs is found by what it does not acknowledge.
STUCK_S: Final = 2.0
"""A follower that acknowledges nothing for so long holds up nobody any more."""
DIAL_AGAIN_S: Final = (0.0, 0.02, 0.05, 0.1, 0.1, 0.2, 0.5, 1.0)
"""Pauses before the first, second … attempt; the last one goes on."""
ABSENT: Final = frozenset((EndKind.REFUSED, EndKind.UNREACHED))
"""So ends a stream to which nothing was ever said."""
MISSED: Final = ABSENT | {EndKind.LOST}
"""The same, where nobody said no: a process that does not want our stream can be reached."""
STEADY_S: Final = 5.0
"""A stream that broke sooner was no success: the pauses go on growing,"""
BRISK: Final = 4
"""but not beyond this one: within BROKEN_S there shall be an attempt or two."""
MESSAGE_BYTES: Final = 256 * 1024
"""Of items in one Append; larger single items go alone."""
MESSAGE_ITEMS: Final = 256
"""In one Append: each costs the follower some time, and a ping behind it waits."""
WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Sent and not acknowledged: above it a follower is given what it lacks later, from the log's tail."""
PROMISE_SHARE: Final = 0.95
"""Of a promise the leader relies on: monotonic clocks of two machines may differ in rate (by 1 % at most, each)."""


class PeerUser(Protocol):
    """The leader and the follower, as a stream sees them."""

    def on_have(self, peer: Peer, have: pb.Have) -> None: ...
    def on_stale(self, peer: Peer, slot: int, epoch: int) -> None: ...
    def on_broken(self, peer: Peer, slot: int, why: str, code: Code | None) -> None:
        """It takes nothing for the slot until it is asked again; what was wrong with what was sent."""
        ...

    def on_acked(self, peer: Peer, followers: list[tuple[FollowerProgress, int]]) -> None:
        """The follower has them on its disk, each up to that lsn. Called for every acknowledgement."""
        ...

    def on_taken(self, peer: Peer, taken: pb.BlobTaken) -> None: ...
    def on_checked(self, peer: Peer, checked: pb.Checked) -> None: ...
    def on_promise(self, peer: Peer) -> None: ...
    def on_down(self, peer: Peer) -> None:
        """The stream broke; the next one is dialled."""
        ...

    def on_lost(self, peer: Peer) -> None:
        """`peer.lost` has changed."""
        ...


class Identity:
    """Who we are in this cluster, for Hello."""

    __slots__ = ("boot", "checksum", "cluster", "id")

    def __init__(self, cluster: str, id: str, boot: str, checksum: int) -> None:
        self.cluster = cluster
        self.id = id
        self.boot = boot
        self.checksum = checksum


class Peer:
    """See the head of this file.

    promise   monotonic time up to which the follower has promised not to lead what it follows of us.
    pongs     how many came on this stream.
    unacked   bytes sent and not acknowledged.
    late      items that were put after their time, and are not acknowledged.
    lost      why it counts as lost, "" = it does not.
    missed    when the last attempt to reach it began that has failed since it spoke last; 0 = none has."""

    __slots__ = (
        "_again", "_append_seq", "_attempt", "_beat", "_clock", "_counted", "_dialer", "_dialled", "_down_since",
        "_flight", "_gathered", "_gathered_bytes", "_gathered_late", "_heard", "_identity", "_known", "_later",
        "_leads", "_leads_due", "_over", "_pings", "_promise_s", "_refused", "_seq", "_stream", "_up", "_user",
        "address", "id", "late", "lost", "missed", "patience", "pongs", "promise", "unacked",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        address: str,
        identity: Identity,
        user: PeerUser,
        dialer: Dialer,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], Any],
        dead_after_ms: int,
        promise_ms: int,
        ping_ms: int,
    ) -> None:
        """`address`: host:port, "" = not known now."""
        self.id = id
        self.address = address
        self.promise = 0.0
        self.pongs = 0
        self.unacked = 0
        self.late = 0
        self.lost = ""
        self.missed = 0.0
        self.patience = Patience(dead_after_ms / 1000)
        self._promise_s = promise_ms / 1000
        self._beat = Heartbeat(ping_ms / 1000, pause(ping_ms / 1000, dead_after_ms / 1000, promise_ms / 1000))
        self._identity = identity
        self._user = user
        self._dialer = dialer
        self._clock = clock
        self._later = later
        self._stream: Stream | None = None
        self._up: _Link | None = None
        self._heard = 0.0
        self._dialled = 0.0
        self._down_since = clock.monotonic()
        self._attempt = 0
        self._again = False
        self._refused = 0
        self._known = False
        """It has answered once."""
        self._append_seq = 0
        """Number of the last Append, while it is not acknowledged."""
        self._seq = 0
        self._flight: deque[tuple[int, float, int, int, list[tuple[FollowerProgress, int]]]] = deque()
        """(sequence number, when it was sent, bytes, late items, followers and lsns) of what is not acknowledged."""
        self._pings: dict[int, float] = {}
        """Number of a ping → when it was sent."""
        self._gathered: list[tuple[FollowerProgress, int, bytes]] = []
        self._gathered_bytes = self._gathered_late = 0
        self._leads: dict[int, int] = {}
        self._leads_due = False
        self._counted: dict[int, int] = {}
        """Slot → up to where it counts: goes with the next ping."""
        self._over = False

    # ── the stream ─────────────────────────────────────────────────────────────────────────────────

    @property
    def connected(self) -> bool:
        """Has it answered on this stream."""
        return self._stream is not None and self._heard > 0

    def stuck(self, now: float) -> bool:
        """Does it answer, but not acknowledge: its disk hangs."""
        # The oldest of what is under way: one look.
        return bool(self._flight) and now - self._flight[0][1] > STUCK_S

    def dial(self) -> None:
        """Opens the stream unless it is open or about to be."""
        if self._stream is not None or self._again or self._over:
            return
        pause = DIAL_AGAIN_S[min(self._attempt, len(DIAL_AGAIN_S) - 1)]
        self._attempt += 1
        self._again = True
        self._later(pause, self._dial)

    def _dial(self) -> None:
        self._again = False
        if self._stream is not None or not self.address or self._over:
            return
        self._up = link = _Link(self)
        self._heard = 0.0
        self._dialled = self._clock.monotonic()
        self.pongs = 0
        self._stream = self._dialer.dial(self.address, REPLICA_SERVICE, link)
        me = self._identity
        hello = pb.Hello(
            cluster=me.cluster, version=PROTOCOL, **{"from": me.id}, boot=me.boot, to=self.id, checksum=me.checksum,
            promise_ms=round(self._promise_s * 1000),
        )  # fmt: skip
        self._send(pb.ToFollower(hello=hello))
        self._user.on_down(self)  # every slot asks anew
        # At once, not with the next tick: without a promise nothing is handed out.
        self.ping()

    def closed(self, link: _Link, why: Ended) -> None:
        # Callbacks of a stream that was given up may still come.
        if link is not self._up:
            return
        if self._heard:
            log.info("stream to follower %s is over: %s", self.id, why)
            now = self._down_since = self._clock.monotonic()
            # A stream that breaks right after its hello, over and over, must not be dialled without a pause.
            self._attempt = 0 if now - self._dialled >= STEADY_S else min(self._attempt, BRISK)
        elif why.kind in MISSED:
            self.missed = self._dialled
        if not self._heard and why.kind not in ABSENT:
            log.warning("follower %s does not take our stream: %s", self.id, why)
        if why.kind is EndKind.REFUSED:
            self._refused += 1
            self.patience.ended()
        else:
            self._refused = 0
        if self._refused >= REFUSALS and self._known:
            self._mark("nobody listens at its address")
        # Nothing of an old stream counts: what was sent on it and not acknowledged is asked for anew.
        self._drop()
        self._user.on_down(self)
        self.dial()

    def _drop(self) -> None:
        self._stream = self._up = None
        self._heard = 0.0
        self._flight.clear()
        self._append_seq = 0
        self._pings.clear()
        self._gathered.clear()
        self._leads.clear()
        self._counted.clear()
        self._gathered_bytes = self._gathered_late = self.unacked = self.late = self.pongs = 0

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        """Nobody needs it any more; it is not dialled again."""
        self._over = True
        stream = self._stream
        if stream is not None:
            self._drop()
            stream.close(why, kind)

    def moved(self, address: str) -> None:
        """It is reached elsewhere now ("" = nowhere that is known)."""
        if address == self.address:
            return
        self.address = address
        self._attempt = 0
        self.patience.ended()
        if self._stream is not None and not self._heard:
            self._stream.abort("it has another address now")
        self.dial()

    def tick(self, slept: float, rest: bool = False) -> None:
        """Every ping_ms: pings, and finds out whether it is lost. `slept`: patience.stood_still. `rest`: nobody has
        asked for its promise since the last time."""
        now, patience = self._clock.monotonic(), self.patience
        self._down_since = min(now, self._down_since + slept)
        self._dialled = min(now, self._dialled + slept)
        if self._heard:
            self._heard = min(now, self._heard + slept)
        if self._stream is None:
            self.dial()
        elif self._heard and now - self._heard > patience.silence(now):
            # Patience grows with a follower that turned out to be slow only (core/patience.py).
            patience.judged(now)
            self._mark(f"silent for {now - self._heard:.3f} s")
            self._give_up()
        elif not self._heard and now - self._dialled > patience.answer(now):
            patience.judged(now)
            self._stream.abort("unreachable: no answer", EndKind.UNREACHED)
        # A promise that nobody needs is renewed while it lasts, not as often as possible; who does not answer, or has
        # news to hear, is not left alone.
        elif self._beat.due(not rest, now) or not rest or self._counted or self._pings or not self._heard:
            self.ping()
        bound = patience.stretched(BROKEN_S, now) if self._known else FIRST_S
        if not self._heard and not self.lost and now - self._down_since >= bound:
            patience.judged(now)
            self._mark(f"not reached for {now - self._down_since:.3f} s")

    def _give_up(self) -> None:
        """If it lives after all it must hear that we do: a stream of ours that breaks without a word is our death."""
        stream, link = self._stream, self._up
        if stream is not None and link is not None:
            stream.close("you were silent", EndKind.ALIVE)
            self.closed(link, Ended("silent"))

    def _mark(self, lost: str) -> None:
        if bool(lost) != bool(self.lost):
            log.warning("follower %s: %s", self.id, lost or "answers again")
            self.lost = lost
            self._user.on_lost(self)

    # ── sending ────────────────────────────────────────────────────────────────────────────────────

    def _send(self, message: pb.ToFollower) -> None:
        if self._stream is not None:
            self._stream.send(message.SerializeToString())

    def ping(self) -> None:
        if self._stream is not None:
            self._seq += 1
            self._pings[self._seq] = self._clock.monotonic()
            message = pb.ToFollower(ping=self._seq)
            if self._counted:
                counted, self._counted = self._counted, {}
                message.counted.slots.extend(counted)
                message.counted.lsns.extend(counted.values())
            self._send(message)

    def tell(self, slot: int, lsn: int) -> None:
        """Everything of the slot up to there counts: said with the next ping."""
        self._counted[slot] = lsn

    def lead(self, slot: int, epoch: int) -> None:
        """Asks what it has of the slot. Slots asked for in one go travel together."""
        if self._stream is None:
            return  # asked when it is dialled
        self._leads[slot] = epoch
        if not self._leads_due:
            self._leads_due = True
            # A process that begins to lead 100 slots asks once, not 100 times.
            self._later(0, self._send_leads)

    def _send_leads(self) -> None:
        self._leads_due = False
        if self._leads:
            leads, self._leads = self._leads, {}
            self._send(pb.ToFollower(leads=pb.Leads(leads=[pb.SlotEpoch(slot=s, epoch=e) for s, e in leads.items()])))

    def resign(self, record: SlotRecord) -> None:
        """The slot is led here no more: its promise is void."""
        self._leads.pop(record.slot, None)
        self._counted.pop(record.slot, None)
        self._send(pb.ToFollower(resign=pb.Resign(slot=record.slot, epoch=record.epoch)))

    @property
    def room(self) -> bool:
        """May more be sent now."""
        return self.unacked + self._gathered_bytes < WINDOW_BYTES

    def put(self, progress: FollowerProgress, lsn: int, data: bytes, late: bool = False) -> None:
        """An item for the next Append; `flush` sends it. `late`: others have it already."""
        gathered = self._gathered
        # Sent before it is added, so a message has either some small items or one large one.
        if gathered and (self._gathered_bytes + len(data) > MESSAGE_BYTES or len(gathered) >= MESSAGE_ITEMS):
            self._send_gathered()
        self._gathered.append((progress, lsn, data))
        self._gathered_bytes += len(data)
        if late:
            self._gathered_late += 1
            self.late += 1
        progress.sent_to(lsn)

    def drop(self, progress: FollowerProgress) -> None:
        """Its follower is asked anew what it has: what waits here for the older answer must not come behind that."""
        kept = [entry for entry in self._gathered if entry[0] is not progress]
        if len(kept) < len(self._gathered):
            self.late -= self._gathered_late
            self._gathered, self._gathered_late = kept, 0
            self._gathered_bytes = sum(len(data) for _, _, data in kept)

    def flush(self) -> None:
        """Sends what has gathered, unless an Append is on its way: then it goes when that one is acknowledged, with
        whatever comes meanwhile. A message costs far more than what is in it, and so does the follower's commit."""
        # One Append on its way: the follower's commit is the clock, as in group_commit.py.
        if self._append_seq == 0:
            self._send_gathered()

    def _send_gathered(self) -> None:
        gathered = self._gathered
        if not gathered:
            return
        self._gathered = []
        nbytes, self._gathered_bytes = self._gathered_bytes, 0
        covered: dict[FollowerProgress, int] = {}
        slots: list[int] = []
        items: list[bytes] = []
        for progress, lsn, data in gathered:
            # The last one of each: an acknowledgement says "up to there".
            covered[progress] = lsn
            slots.append(progress.slot)
            items.append(data)
        late, self._gathered_late = self._gathered_late, 0
        seq = self._append_seq = self._flown(nbytes, late, list(covered.items()))
        self._send(pb.ToFollower(append=pb.Append(seq=seq, slots=slots, items=items)))

    def seed(self, seed: pb.Seed, nbytes: int, followers: list[tuple[FollowerProgress, int]]) -> None:
        """A piece of a seed; `followers`: what is acknowledged with it."""
        self._send_gathered()
        seed.seq = self._flown(nbytes, 0, followers)
        self._send(pb.ToFollower(seed=seed))

    def _flown(self, nbytes: int, late: int, followers: list[tuple[FollowerProgress, int]]) -> int:
        # One sequence for everything on the stream that is acknowledged, so that "all up to" is one comparison.
        self._seq += 1
        self.unacked += nbytes
        self._flight.append((self._seq, self._clock.monotonic(), nbytes, late, followers))
        return self._seq

    def check(self, check: pb.Check) -> None:
        """Asks what lives there, behind everything that was put."""
        self._send_gathered()
        self._send(pb.ToFollower(check=check))

    def body(self, id: int, length: int, slot: int) -> None:
        """A large body begins."""
        self._send(pb.ToFollower(chunk=pb.BlobChunk(id=id, first=True, length=length, slot=slot + 1)))

    def chunk(self, id: int, data: bytes) -> None:
        """A piece of it."""
        self._send(pb.ToFollower(chunk=pb.BlobChunk(id=id, data=data)))

    # ── answers ────────────────────────────────────────────────────────────────────────────────────

    def received(self, link: _Link, data: bytes) -> None:
        if link is not self._up:
            return
        try:
            message = pb.ToLeader.FromString(data)
        except DecodeError:
            message = pb.ToLeader()
        what = message.WhichOneof("what")
        now = self._clock.monotonic()
        if not self._heard and self.patience.answered(now):
            log.info("%s was only slow: it may be silent for %.3g s now", self.id, self.patience.silence(now))
        self._heard = now
        self._known = True
        self.missed = 0.0
        if what == "acked":
            self._acked(message.acked)
        elif what == "pong":
            self._pong(message.pong, now)
        elif what == "haves":
            for have in message.haves.haves:
                self._user.on_have(self, have)
            if self._stream is not None:
                self.ping()  # its promise covers them from now on
        elif what == "taken":
            self._user.on_taken(self, message.taken)
        elif what == "checked":
            self._user.on_checked(self, message.checked)
        elif what == "stale":
            self._user.on_stale(self, message.stale.slot, message.stale.epoch)
        elif what == "broken":
            self._broken(message.broken)
        else:
            self._refuse()
        if self._up is link and self.lost:
            self._mark("")

    def _broken(self, broken: pb.Broken) -> None:
        # Until 0.3: a follower older than 0.2 says the code in the text only.
        code = CODES.get(broken.code)
        if code is None and broken.why.partition(":")[0] == Code.WRONG_RELEASE.name:
            code = Code.WRONG_RELEASE
        self._user.on_broken(self, broken.slot, broken.why, code)

    def _refuse(self) -> None:
        if self._stream is not None:
            self._stream.close(f"{Code.BAD_COMPONENT_MESSAGE.name}: {Code.BAD_COMPONENT_MESSAGE.text}")

    def _acked(self, seq: int) -> None:
        flight = self._flight
        followers: list[tuple[FollowerProgress, int]] = []
        while flight and flight[0][0] <= seq:
            _, _, nbytes, late, covered = flight.popleft()
            self.unacked -= nbytes
            self.late -= late
            followers += covered
        if self._append_seq <= seq:
            self._append_seq = 0
        self._user.on_acked(self, followers)
        self.flush()

    def _pong(self, number: int, now: float) -> None:
        sent = self._pings.pop(number, None)
        if sent is None:
            return
        self._beat.late(now - sent, now)
        # Answers come in order; what was not answered before this one never will be.
        for older in [n for n in self._pings if n < number]:
            del self._pings[older]
        self.pongs += 1
        # Counted from when the ping was sent, which was before the promise was given.
        self.promise = max(self.promise, sent + self._promise_s * PROMISE_SHARE)
        self._user.on_promise(self)


class _Link:
    """One stream's callbacks; those of an older stream find that it is not the peer's any more."""

    __slots__ = ("_peer",)

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def on_message(self, message: bytes) -> None:
        self._peer.received(self, message)

    def on_closed(self, why: Ended) -> None:
        self._peer.closed(self, why)
