"""The follower side of replication: whose items count for which slot, and what has been promised to whom.

Rule: the highest epoch wins, for ever: once it stands in the journal nothing of a lower one is taken, acknowledged or
promised. What an acknowledgement or a promise does not cover any more is said *before* it on the same stream.
Must not know the isr or the metadata store; which slots are followed at all is the life cycle's to say.
"""

# Example. Slot 9 is followed here, led by A in epoch 4; A is cut off, and B is elected in epoch 5.
#     leads(9, 5)   comes from B. 5 is higher than what is known: A's stream is told "stale" and its items count no
#                   more; what was promised to A stays promised (_detach). Epoch 5 is written to the log
#     answer        only when that is on the disk: what we hold. B compares lineages and sends what we lack
#     append        A's items still come, late: not in A's `slots` any more, so they are passed over (I2)
#     promise       B's pings get pongs as well. B hands out when all in-sync followers have promised; A's promise has
#                   run out before B began, since B waited for it (promised_until, I8)

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from broker.config.settings import ClusterSettings
from broker.core.errors import Code
from broker.core.heartbeat import until_look
from broker.core.metrics import Metric
from broker.core.patience import Patience, stood_still
from broker.core.records import MetaRecord, RunRecord
from broker.engine.engine import Engine
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.clock import Clock
from broker.seams.stream import Ended, EndKind, Stream, StreamEnd

from ...bodies.incoming_bodies import IncomingStore
from ...commit.io_thread import Io
from ...slots.standby import Change, Settled, Standby
from ..peer import PROTOCOL, Identity
from ..replica_check import Found, Kept
from .followed_slot import FollowedSlot
from .leader_stream import LeaderStream, refusal

log = logging.getLogger("stampede.owner")

# A process that dies keeps its slots from everybody for as long as the promises to it run.
MAX_PROMISE_MS: Final = 60_000
"""Longer ones are not given: nobody could take over."""


class FollowerLog(Protocol):
    """What it asks of the journal."""

    @property
    def blobs(self) -> IncomingStore: ...
    def last(self, slot: int) -> tuple[int, int]: ...
    def epoch(self, slot: int) -> int: ...
    def lineage(self, slot: int) -> list[tuple[int, int]]: ...
    def begin_epoch(self, slot: int, epoch: int) -> None: ...
    def append_item(self, slot: int, data: bytes, algorithm: int) -> list[Any]: ...
    def reset_slot(self, slot: int) -> None: ...
    def append_seed(self, slot: int, data: bytes, algorithm: int) -> list[Any]: ...
    def end_seed(self, slot: int, lineage: list[tuple[int, int]], lsn: int) -> None: ...
    def settled(self, record: RunRecord) -> Settled | None: ...


@dataclass(frozen=True, slots=True)
class FollowerHome:
    """Whom the follower side asks and tells, all in the loop's thread.

    durable     Shard.durable.    new_standby  an empty one.
    deposed     (slot, epoch): another owner leads the slot in this epoch, which may be news.
    lost        (owner id, why): a leader's stream broke or fell silent; why = "": it has a new one.
    released    its leader has resigned the slot: `promised_until` does not lie ahead any more.
    look        Inspector.look.
    thrown      Shard.thrown."""

    durable: Callable[[Callable[[], None]], None]
    new_standby: Callable[[int], Standby]
    deposed: Callable[[int, int], None]
    lost: Callable[[str, str], None]
    released: Callable[[int], None]
    look: Callable[[int, list[MetaRecord], Kept, Found], None]
    thrown: Callable[[Exception], None]


class Followers:
    """All slots followed here. An Acceptor of REPLICA_SERVICE; see slots/lifecycle_ports.py."""

    def __init__(
        self,
        identity: Identity,
        journal: FollowerLog,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], Any],
        body_io: Io,
        settings: ClusterSettings,
    ) -> None:
        """`body_io`: where large bodies are written."""
        self.identity = identity
        self.journal = journal
        self.clock = clock
        self.body_io = body_io
        self.home: FollowerHome
        self.seeded = 0
        self._later = later
        self._tick_s = settings.ping_ms / 1000
        self._dead_after_s = settings.dead_after_ms / 1000
        # Promises are not written down. A process that comes back does not know what it promised, so for so long it
        # acts as if it had promised everything.
        self._born = clock.monotonic() + settings.promise_ms / 1000
        """What an earlier life of this process promised has run out by then."""
        self._streams: dict[str, LeaderStream] = {}
        """Leader's id → its stream."""
        self._patience: dict[str, Patience] = {}
        """Leader's id → ours with it."""
        self._followed: dict[int, FollowedSlot] = {}
        self._asked: dict[int, tuple[LeaderStream, int]] = {}
        """Leads that wait until the slot is followed here."""
        self._known: dict[int, int] = {}
        """Slot → highest epoch that the life cycle or a leader has named."""
        self._promised: dict[int, float] = {}
        self._led_in: dict[int, tuple[str, str, int]] = {}
        """Slot → (leader, its boot id, epoch) that the last promise was given to."""
        self._ticked = 0.0
        self._stopped = False

    def start(self, home: FollowerHome) -> None:
        """Before the first stream and the first follow()."""
        self.home = home
        self._ticked = self.clock.monotonic()
        self._tick()

    def stop(self) -> None:
        self._stopped = True
        for stream in list(self._streams.values()):
            stream.stream.close("the owner ends")

    def accept(self, service: str, stream: Stream) -> StreamEnd:
        return LeaderStream(self, stream)

    # ── for the life cycle ─────────────────────────────────────────────────────────────────────────

    def follow(self, standby: Standby, epoch: int) -> None:
        """Follows the slot from where the standby is, whoever leads it in this epoch or a later one."""
        slot = standby.slot
        if (followed := self._followed.get(slot)) is not None:
            followed.starts_from(standby)
        else:
            self._followed[slot] = FollowedSlot(standby)
        # An epoch that is known is never forgotten, wherever it was heard.
        self._known[slot] = max(epoch, self._known.get(slot, 0))
        waiting = self._asked.pop(slot, None)
        # Its leader asked while the log was being read. The answer is given now, as if it asked now.
        if waiting is not None:
            stream, asked = waiting
            if stream.leads([(slot, asked)]):
                stream.answer([slot])

    def unfollow(self, slot: int) -> Standby | None:
        """Takes nothing more for the slot; promises that were given stay. The standby, if it was followed."""
        followed = self._followed.pop(slot, None)
        if followed is None:
            return None
        source = followed.source
        if source is not None:
            self._detach(slot, source)
            # Else the leader would wait for acknowledgements that never come.
            source.send(pb.ToLeader(broken=pb.Broken(slot=slot)))
        if followed.partial:
            self._forget(slot, followed)
        return followed.standby

    def promised_until(self, slot: int) -> float:
        """Monotonic time before which no higher epoch of the slot may be activated here."""
        followed = self._followed.get(slot)
        kept = max(self._born, self._promised.get(slot, 0.0))
        # The stream's promise covers all slots on it; those that have left it keep what it was by then.
        return kept if followed is None or followed.source is None else max(kept, followed.source.promised)

    def known(self, slot: int) -> bool:
        """Was follow() called for it (and not unfollow())."""
        return slot in self._followed

    def counted(self, slot: int) -> int | None:
        """The last item of a slot followed here that is known to count; None: nobody has said so yet."""
        followed = self._followed.get(slot)
        return followed.counted if followed is not None and not followed.partial else None

    def engine(self, slot: int) -> Engine | None:
        """Of a slot followed here, to be looked at only."""
        followed = self._followed.get(slot)
        return followed.standby.engine if followed is not None else None

    def keeper(self, slot: int) -> Standby | None:
        """Who keeps the small state of a slot followed here."""
        followed = self._followed.get(slot)
        return followed.standby if followed is not None else None

    # ── for the streams ────────────────────────────────────────────────────────────────────────────

    def hello(self, stream: LeaderStream, hello: pb.Hello) -> str:
        """Takes the stream; or why not."""
        me, owner = self.identity, getattr(hello, "from")
        if hello.cluster != me.cluster:
            return refusal(Code.WRONG_CLUSTER, f"this is {me.cluster}, not {hello.cluster}")
        if hello.version != PROTOCOL:
            return refusal(Code.WRONG_RELEASE, f"it speaks version {hello.version}, this release {PROTOCOL}")
        if hello.to != me.id or not owner or owner == me.id:
            return refusal(Code.DUPLICATE_IDENTITY, f"{owner} looks for {hello.to}, this is {me.id}")
        if (names := stream.stream.names) and owner.lower() not in names:
            return refusal(Code.DUPLICATE_IDENTITY, f"the certificate of {owner} is for {', '.join(sorted(names))}")
        if not 0 < hello.promise_ms <= MAX_PROMISE_MS:
            return refusal(Code.BAD_COMPONENT_MESSAGE, f"promises of {hello.promise_ms} ms are not given")
        old = self._streams.get(owner)
        if old is not None:
            # Two processes under one id would both get promises, and both hand out. The newer one is refused as long
            # as the older one is heard of.
            if old.boot != hello.boot and self.clock.monotonic() - old.heard < self._dead_after_s:
                return refusal(Code.DUPLICATE_IDENTITY, f"another process is {owner}")
            self._streams.pop(owner)
            self.gone(old)
            old.stream.abort("replaced by a newer stream")
        self._streams[owner] = stream
        now = self.clock.monotonic()
        patience = self._patience.setdefault(owner, Patience(self._dead_after_s))
        if patience.answered(now, hello.boot):
            log.info("%s was only slow: it may be silent for %.3g s now", owner, patience.silence(now))
        # A leader that dials is alive: whoever suspects it hears that.
        self.home.lost(owner, "")
        return ""

    def accepts(self, stream: LeaderStream, slot: int, epoch: int) -> bool:
        """Does the leader of this stream lead the slot, as far as is known here? If so the epoch is in the journal."""
        # Of the same epoch there is one leader (I1): the same number on another stream is an impostor, or a
        # repetition.
        highest = max(self.journal.epoch(slot), self._known.get(slot, 0))
        followed = self._followed.get(slot)
        old = followed.source if followed is not None else None
        if epoch < highest or (old is not None and old is not stream and old.slots[slot] == epoch):
            stream.stale(slot, max(highest, epoch))
            return False
        # From here on, though the journal may not know it for a while: an older leader's question that comes late
        # must not take the place of this one's.
        self._known[slot] = epoch
        if followed is None:
            # It is led here, or its log is being read: the life cycle makes it a followed one.
            self._asked[slot] = (stream, epoch)
            self.home.deposed(slot, epoch)
            return False
        if old is not None and old is not stream:
            self._detach(slot, old)
            old.stale(slot, epoch)
        # Half a copy of the old leader and half of the new one would be of no moment at all.
        if followed.partial:
            self._forget(slot, followed)
        if epoch > self.journal.epoch(slot):
            # I2: from here on nothing older is taken, also after a crash: what we answer waits until it is on the
            # disk.
            self.journal.begin_epoch(slot, epoch)
        followed.led_by(stream)
        self._led_in[slot] = (stream.owner, stream.boot, epoch)
        return True

    def _forget(self, slot: int, followed: FollowedSlot) -> None:
        """A copy that was not finished is worth nothing: the slot is empty."""
        self.journal.reset_slot(slot)
        self.journal.end_seed(slot, [], 0)
        followed.empties(self._anew(slot, followed))

    def _anew(self, slot: int, followed: FollowedSlot) -> Standby:
        """An empty standby, once the present one has given up what it counts in."""
        followed.standby.discard()
        return self.home.new_standby(slot)

    def _detach(self, slot: int, source: LeaderStream) -> None:
        source.left(slot)
        # A promise is a word about time, not about a stream.
        self._promised[slot] = max(self._promised.get(slot, 0.0), source.promised)

    def drop_source(self, slot: int, source: LeaderStream) -> None:
        """Items of this stream count no more for the slot; what was promised stays."""
        followed = self._followed.get(slot)
        if followed is not None and followed.source is source:
            followed.left_alone()
            self._detach(slot, source)

    def resigned(self, slot: int, source: LeaderStream, epoch: int) -> None:
        """The leader of this epoch will not dispatch the slot any more. Nor will those before it: they needed the
        promise of this leader, who waited for its end."""
        if self._asked.get(slot) == (source, epoch):
            del self._asked[slot]
        # Only the leader to whom the promise was given can give it back, in the same life and the same epoch.
        if self._led_in.get(slot) == (source.owner, source.boot, epoch):
            self.drop_source(slot, source)
            self._promised.pop(slot, None)
            self.home.released(slot)

    def gone(self, stream: LeaderStream) -> None:
        """The stream is over."""
        for slot in list(stream.slots):
            self.drop_source(slot, stream)
        for slot in [slot for slot, (asked, _) in self._asked.items() if asked is stream]:
            del self._asked[slot]

    def closed(self, stream: LeaderStream, why: Ended) -> None:
        if self._streams.get(stream.owner) is stream:
            del self._streams[stream.owner]
            self.gone(stream)
            # A stream that ends with ALIVE says that its owner lives and needs it no more.
            if not self._stopped and why.kind is not EndKind.ALIVE:
                self.home.lost(stream.owner, why.detail)

    def begin_seed(self, slot: int) -> None:
        self.seeded += 1
        self.journal.reset_slot(slot)
        followed = self._followed[slot]
        followed.copies(self._anew(slot, followed))

    def end_seed(self, slot: int, lineage: list[tuple[int, int]], lsn: int) -> None:
        self.journal.end_seed(slot, lineage, lsn)
        self._followed[slot].is_whole()

    def copying(self, slot: int) -> bool:
        return self._followed[slot].partial

    def apply(self, slot: int, changes: list[Change]) -> None:
        """What the journal has taken. A standby that throws has a hole and would lead with it, for the log is whole and
        nobody sends the item again: the owner stops, and a restart reads the log anew (ADR 8)."""
        try:
            self._followed[slot].standby.apply(changes, self.journal)
        except Exception as error:
            self.home.thrown(error)
            raise

    def on_counted(self, slot: int, lsn: int) -> None:
        """Its leader says so."""
        # Followers may be read up to there (docs/adr/0010).
        self._followed[slot].counts(lsn)

    def look(self, slot: int, found: Found) -> None:
        """At what is followed, for its leader."""
        standby = self._followed[slot].standby
        self.home.look(slot, standby.snapshot(), standby.kept(), found)

    def _tick(self) -> None:
        if self._stopped:
            return
        now = self.clock.monotonic()
        self._later(until_look(now, self._tick_s, self._dead_after_s), self._tick)
        slept = stood_still(self._ticked, now, self._tick_s)
        self._ticked = now
        for owner, stream in list(self._streams.items()):
            # A pause of this process (a suspended machine, a long step) is not the leader's silence.
            stream.excuse(slept, now)
            patience = self._patience[owner]
            if now - stream.heard > patience.silence(now):
                patience.judged(now, stream.boot)
                stream.stream.abort("silent")
        for slot, (asked, epoch) in list(self._asked.items()):
            # It asked, and somebody higher came before the slot was followed here.
            if epoch < self.journal.epoch(slot):
                del self._asked[slot]
                asked.stale(slot, self.journal.epoch(slot))

    def metrics(self) -> Iterable[Metric]:
        runs = sum([followed.standby.size for followed in self._followed.values()])
        led = sum([followed.source is not None for followed in self._followed.values()])
        yield Metric("stomp_followed_slots", "gauge", "Slots that follow a leader now.", [({}, led)])
        yield Metric("stomp_shadow_runs", "gauge", "Runs of messages known of followed slots.", [({}, runs)])
        yield Metric("stomp_seeded_total", "counter", "Copies of slots begun here.", [({}, self.seeded)])
