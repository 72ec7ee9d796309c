"""The leader side of replication: what commits count, which owners are in sync, when a slot may be dispatched.

Rule: nothing counts before it is on the disk of everybody who could be elected (isr.py has the proof). Changes of the
isr are proposed to the metadata store and relied on only when they are known; until then both the old and the new
members are waited for. Without the store everything goes on with the isr as it is.
Must not know engines, or what is in an item.
"""

# Example. A begins to lead slot 9 in epoch 5; its record says isr A, B, C.
#     lead          B and C are asked what they have. ready(9) stays below the commit that is open now
#     on_have       B has all of it; C lacks two items, which are sent from the tail (catchup.py)
#     on_acked      C has them on its disk, too: WHOLE. What waits may be told
#     sealed(12)    item 40 is put to B and C while the own disk writes it: the three do it at the same time
#     on_acked      40 by B and C, and committed(12) by the own disk: ready(9) is 12, the commit's receipts leave (I3)
#     C is silent   a record without it is proposed; until that is known to be written C is waited for (isr.py: I4)
#     may_dispatch  asked for each turn: the earliest of the promises that B and C gave with their pongs decides (I8)
#     on_stale      somebody leads in epoch 6: from this moment on nothing of 9 counts here any more

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from broker.config.settings import ClusterSettings
from broker.core.errors import Code
from broker.core.heartbeat import until_look
from broker.core.metrics import Metric
from broker.core.patience import stood_still
from broker.core.records import Item, MetaRecord
from broker.core.slots import SlotRecord
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.clock import Clock
from broker.seams.stream import Dialer, EndKind

from ..commit.io_thread import Io
from .catchup import CatchUp, Log, bodies_of
from .isr import FollowerProgress, LeaderState, LedSlot, Progress, judged
from .peer import Identity, Peer
from .replica_check import Answer, Checks, Found, QueueState, SlotCheck, unpacked
from .replication_stats import lag_metrics

log = logging.getLogger("stampede.owner")

RETRY_S: Final = 0.5
"""How soon a change of a record that was not answered, or not made, is proposed again."""
# An older release cannot read what this one writes until it is upgraded: asking it each second would be noise.
UPGRADE_S: Final = 60.0
"""A follower of an older release that cannot read our log is asked again after so long."""
LINGER_S: Final = 5.0
"""A stream that no slot needs is kept so long."""
USED_S: Final = 1.0
"""So often it is looked which those are."""

Later = Callable[[float, Callable[[], None]], Any]
Changed = Callable[[SlotRecord | None], None]


class LeaderLog(Log, Protocol):
    """What it asks of the journal."""

    def last(self, slot: int) -> tuple[int, int]: ...
    def written(self, slot: int) -> int: ...
    def lineage(self, slot: int) -> list[tuple[int, int]]: ...


@dataclass(frozen=True, slots=True)
class LeaderHome:
    """Whom the leader side asks and tells, all in the loop's thread.

    durable    Shard.durable.        progress  Shard.on_progress.
    snapshot   small state of a slot that is led (or being taken over) here, as of now.
    change     Table.change(record, new, done): compare and swap; done(None): not made, or nobody knows.
    on_record  a slot record newer than the one it was about.
    deposed    (slot, epoch): a higher epoch exists; nothing of the slot counts any more.
    lost       (owner id, why): its stream is broken or silent; why = "": it is back.
    look       Inspector.look.
    """

    durable: Callable[[Callable[[], None]], None]
    progress: Callable[[], None]
    snapshot: Callable[[int], list[MetaRecord]]
    change: Callable[[SlotRecord, SlotRecord, Changed], None]
    on_record: Callable[[int, SlotRecord], None]
    deposed: Callable[[int, int], None]
    lost: Callable[[str, str], None]
    look: Callable[[int, list[MetaRecord], None, Found], None]


class Leaders:
    """replication_port.Replicas of an owner in a cluster, for all slots it leads.

    backlog   bytes sealed that do not count yet.
    shrinks, grows   changes of an isr that were made."""

    alone: ClassVar[bool] = False

    def __init__(
        self,
        identity: Identity,
        settings: ClusterSettings,
        journal: LeaderLog,
        dialer: Dialer,
        clock: Clock,
        later: Later,
        seed_io: Io,
    ) -> None:
        self.backlog = 0
        self.shrinks = 0
        self.grows = 0
        self._identity = identity
        self._settings = settings
        self._journal = journal
        self._dialer = dialer
        self._clock = clock
        self._later = later
        self._seed_io = seed_io
        self._home: LeaderHome
        self._catch_up: CatchUp
        self._leads: dict[int, LedSlot] = {}
        self._peers: dict[str, Peer] = {}
        # Slots move: a stream that was just needed mostly will be again, and a new one costs a hello and a promise.
        self._unused_since: dict[str, float] = {}
        self._addresses: dict[str, str] = {}
        self._sealed = 0
        self._committed = 0
        self._stalled = False
        """Somebody asked whether it may dispatch, and may not."""
        self._dispatches = False
        """Somebody has asked whether it may, since the last tick."""
        self._leaving: frozenset[str] = frozenset()
        self._checks = Checks(later)
        self._asked: dict[int, Answer] = {}
        """Slots to be looked at as soon as all followers have been sent everything."""
        self._ticked = self._looked = 0.0
        self._slept = 0.0
        """Seconds that we stood still since we began: they are nobody's silence."""
        self._stopped = False

    def start(self, home: LeaderHome) -> None:
        """Before the first lead()."""
        self._home = home
        self._ticked = self._clock.monotonic()
        self._catch_up = CatchUp(
            self._journal, self._seed_io, self._clock, self._later, self._settings.seed_bytes_per_s,
            home.snapshot, home.durable, self._consider,
        )  # fmt: skip
        self._tick()

    def stop(self) -> None:
        """Ends all streams; nothing is dialled any more."""
        self._stopped = True
        for peer in self._peers.values():
            peer.close("the owner ends")

    def reach(self, owner: str, address: str) -> None:
        """`owner` listens at `address` (host:port) now; "" = nobody knows where."""
        self._addresses[owner] = address
        peer = self._peers.get(owner)
        if peer is not None:
            peer.moved(address)

    def misses(self, owner: str) -> bool:
        """Does a follower of ours count as lost."""
        peer = self._peers.get(owner)
        return peer is not None and bool(peer.lost)

    def waits_for(self, slot: int) -> str:
        """Who keeps what is written in the slot from counting, for people; "" = nobody that is known to."""
        lead = self._leads.get(slot)
        if lead is None:
            return ""
        needed = sorted(lead.needed)
        silent = [m for m in needed if (peer := self._peers.get(m)) is None or peer.lost]
        if len(lead.record.isr) < self._settings.min_in_sync:
            return f"{self._settings.min_in_sync} in-sync replicas, has {len(lead.record.isr)}"
        if silent:
            return f"{', '.join(silent)} (silent)"
        return "" if lead.state is not LeaderState.BEGUN else ", ".join(needed)

    def missed(self, owner: str) -> float:
        """When the last attempt began to reach a follower of ours that counts as lost; 0 = it does not."""
        peer = self._peers.get(owner)
        return peer.missed if peer is not None and peer.lost else 0.0

    def members(self, staying: Collection[str], leaving: Collection[str]) -> None:
        """Owners that are registered, and which of them are about to end: those are let go before a commit has to wait
        for them, where others suffice. One that said so and is not registered any more has not ended yet: its streams
        still live, but no commit shall wait for it until it has registered anew."""
        # Whoever has said that it ends counts as leaving until it registers anew.
        owners = self._leaving.union(leaving).difference(staying)
        if owners != self._leaving:
            self._leaving = owners
            for lead in list(self._leads.values()):
                self._consider(lead)

    # ── for the life cycle ─────────────────────────────────────────────────────────────────────────

    def lead(self, record: SlotRecord) -> None:
        """Begins to lead the slot. Its epoch has begun in the journal, and nothing was appended in it yet. Until every
        member of the isr has what we have, `ready` stays below the commit that is open now."""
        slot = record.slot
        self.resign(slot)
        # `_next()` stands for what we begin with: `ready` stays below it until all who are needed have that.
        lead = LedSlot(record, self._identity.id, self._settings.min_in_sync, self._journal.last(slot)[1], self._next())
        self._leads[slot] = lead
        for progress in lead.followers.values():
            self._ask(lead, progress)
        # With one replica nobody is asked: everything counts at once.
        self._advance(lead)

    def _next(self) -> int:
        return max(self._sealed, self._committed) + 1

    def update(self, record: SlotRecord) -> None:
        """The record of a slot led here is this now (same epoch)."""
        lead = self._leads.get(record.slot)
        # Records come from two sides, the answer to our change and the watch of the store: the older of them changes
        # nothing.
        if lead is None or record.epoch != lead.record.epoch or record.revision <= lead.record.revision:
            return
        before = lead.record.isr
        known = set(lead.followers)
        lead.adopt(record)
        # Something has changed: what was not possible a moment ago may be.
        lead.retry(0.0)
        self.shrinks += len(set(before) - set(record.isr))
        self.grows += len(set(record.isr) - set(before))
        if before != record.isr:
            log.debug("slot %d: in sync: %s", record.slot, ", ".join(record.isr))
        for member, progress in lead.followers.items():
            if member not in known:
                self._ask(lead, progress)
        self._consider(lead)
        if self._advance(lead):
            self._home.progress()

    def resign(self, slot: int) -> None:
        """The slot is led here no more: followers' promises are void, nothing of it counts from now on."""
        lead = self._leads.pop(slot, None)
        if lead is not None:
            lead.is_deposed()
            # Bytes that will never count must not keep producers waiting.
            self.backlog -= sum(nbytes for _, _, nbytes in lead.pending)
            for member in lead.followers:
                self._peers[member].resign(lead.record)

    def check(self, slot: int, answer: Answer) -> None:
        """Asks all replicas that keep up what lives in the slot, as of one point of its log.

        answer(None): it is not led here, or asked for already."""
        if slot not in self._leads or slot in self._asked:
            answer(None)
            return
        self._asked[slot] = answer
        self._ask_replicas()

    def _ask_replicas(self) -> None:
        for slot in list(self._asked):
            lead = self._leads.get(slot)
            if lead is None:
                self._asked.pop(slot)(None)
            elif lead.state is LeaderState.WHOLE and self._journal.last(slot)[1] == lead.last and all(
                progress.sent == lead.last for progress in lead.live
            ):  # fmt: skip
                self._ask_all(lead, self._asked.pop(slot))

    def _ask_all(self, lead: LedSlot, answer: Answer) -> None:
        record, lsn, me = lead.record, lead.last, self._identity.id

        def done(found: dict[str, list[QueueState]], failed: dict[str, str]) -> None:
            failed |= {one: "it does not keep up" for one in record.replicas if one not in {*found, *failed}}
            answer(SlotCheck(record.slot, record.epoch, lsn, me, found, failed))

        live = [progress.member for progress in lead.live]
        number = self._checks.begin([me, *live], done)
        for member in live:
            self._peers[member].check(pb.Check(number=number, slot=record.slot, epoch=record.epoch, lsn=lsn))
        mine = partial(self._checks.answered, number, me)
        self._home.look(record.slot, self._home.snapshot(record.slot), None, mine)

    # ── replication_port.Replicas ──────────────────────────────────────────────────────────────────

    def sealed(self, number: int, items: list[Item]) -> None:
        self._sealed = number
        leads = self._leads
        touched: dict[LedSlot, None] = {}
        for slot, lsn, data in items:
            lead = leads.get(slot)
            if lead is None:
                continue
            touched[lead] = None
            lead.sealed(number, lsn, len(data))
            self.backlog += len(data)
            bodies = bodies_of(data)
            for progress in lead.live:
                # A follower may have been caught up from the tail in this very turn, with items that were appended
                # and not yet sealed.
                if lsn <= progress.sent:
                    continue  # went with the tail already
                peer = self._peers[progress.member]
                # Back to the tail: a live follower gets everything at once or it is not live. Its window bounds what
                # is under way.
                if bodies or not peer.room:
                    progress.falls_behind()
                    lead.renew_live()
                    self._catch_up.pump(peer, lead, progress)
                else:
                    peer.put(progress, lsn, data)
        if touched:
            for peer in self._peers.values():
                peer.flush()
            for lead in touched:
                # A follower that came back meanwhile may have acknowledged what gathered, before it was sealed: then
                # it says nothing more of it.
                self._advance(lead)
        if self._asked:
            self._ask_replicas()

    def committed(self, number: int) -> None:
        self._committed = number

    def ready(self, slot: int) -> int:
        lead = self._leads.get(slot)
        return 0 if lead is None else lead.ready(self._committed)

    def counted(self, slot: int) -> int:
        """The last item of a slot led here that everybody needed has; 0 = it is not led here, or nobody knows yet."""
        lead = self._leads.get(slot)
        return 0 if lead is None or lead.state is not LeaderState.WHOLE else lead.reached

    def leads(self, slot: int) -> bool:
        """Is it led here, and everything that was told before known to be here."""
        lead = self._leads.get(slot)
        return lead is not None and lead.state is LeaderState.WHOLE

    def may_dispatch(self, slot: int) -> bool:
        lead = self._leads.get(slot)
        if lead is None or lead.state is not LeaderState.WHOLE:
            return False
        self._dispatches = True
        now = self._clock.monotonic()
        if now < lead.until:
            return True
        # I8. The earliest of all promises decides; an isr of one needs none. Worked out when the last one has run
        # out, so mostly a comparison of two numbers.
        lead.promised(min((self._promised(lead, member) for member in lead.needed), default=float("inf")))
        if now < lead.until:
            return True
        self._stalled = True
        return False

    def _promised(self, lead: LedSlot, member: str) -> float:
        """Up to when this member promises not to lead the slot. A pong speaks of the slots it had accepted before."""
        peer, progress = self._peers.get(member), lead.followers.get(member)
        # A pong that was on its way when the slot was asked for does not cover it: the follower had not accepted it
        # then.
        if peer is None or progress is None or progress.state is Progress.ASKED or peer.pongs <= progress.answered:
            return 0.0
        return peer.promise

    # ── what followers say (peer.PeerUser) ─────────────────────────────────────────────────────────

    def on_have(self, peer: Peer, have: pb.Have) -> None:
        lead = self._leads.get(have.slot)
        progress = None if lead is None else lead.followers.get(peer.id)
        # An answer to an earlier question, or to an earlier leader here.
        if lead is None or progress is None or have.epoch != lead.record.epoch or progress.state is not Progress.ASKED:
            return
        theirs = list(zip(have.epochs, have.firsts, strict=False))
        last = self._journal.last(have.slot)[1]
        state = judged(self._journal.lineage(have.slot), last, theirs, have.lsn)
        # It could not go on from what we sent although the lineages agree: something is wrong with its log or with
        # ours. A copy.
        if peer.id in lead.doubtful and have.lsn != last:
            state = Progress.UNFIT
        lead.doubtful.discard(peer.id)
        if state is Progress.AHEAD and (lead.state is not LeaderState.BEGUN or peer.id not in lead.record.isr):
            # What it has beyond ours was never told of: else it would be in sync, and known before we began.
            state = Progress.UNFIT
        progress.answers(state, have.lsn, last, peer.pongs)
        if progress.fit():
            self._catch_up.pump(peer, lead, progress)
            if self._advance(lead):
                self._home.progress()
        self._consider(lead)

    def on_stale(self, peer: Peer, slot: int, epoch: int) -> None:
        lead = self._leads.get(slot)
        # At once, before the record has come: from this moment on somebody else may be leading (I8).
        if lead is not None and epoch > lead.record.epoch and lead.state is not LeaderState.DEPOSED:
            lead.is_deposed()
            self._home.deposed(slot, epoch)

    def on_broken(self, peer: Peer, slot: int, why: str, code: Code | None) -> None:
        lead = self._leads.get(slot)
        if lead is None or peer.id not in lead.followers:
            return
        if lead.followers[peer.id].state is Progress.ASKED:
            # The answer to the question was given up while it was on its way, or crosses this: once more is harmless.
            self._ask(lead, lead.followers[peer.id])
            return
        if why:
            log.warning("slot %d: follower %s cannot go on: %s", slot, peer.id, why)
        # Items that wait to be sent were chosen by its old answer.
        peer.drop(lead.followers[peer.id])
        progress = lead.restart(peer.id)
        if code is Code.WRONG_RELEASE:
            # What it has is good. Only another release of it goes on, and that comes with a stream of its own.
            self._later(UPGRADE_S, partial(self._ask_again, lead, progress))
            return
        if why:
            lead.doubtful.add(peer.id)
        self._ask(lead, progress)

    def _ask_again(self, lead: LedSlot, progress: FollowerProgress) -> None:
        slot = lead.record.slot
        if not self._stopped and self._leads.get(slot) is lead and lead.followers.get(progress.member) is progress:
            self._ask(lead, progress)

    def on_acked(self, peer: Peer, followers: list[tuple[FollowerProgress, int]]) -> None:
        told = False
        for progress, lsn in followers:
            progress.acks(lsn)
            lead = self._leads.get(progress.slot)
            if lead is None:
                continue
            told = self._advance(lead) or told
            # It may have come up to what it needs to join. Those who are in need no look for each acknowledgement.
            if progress.member not in lead.needed:
                self._consider(lead)
        self._catch_up.on_room(peer)
        if told:
            self._home.progress()

    def on_taken(self, peer: Peer, taken: pb.BlobTaken) -> None:
        self._catch_up.on_taken(peer, taken)

    def on_checked(self, peer: Peer, checked: pb.Checked) -> None:
        self._checks.answered(checked.number, peer.id, unpacked(checked), checked.why)

    def on_promise(self, peer: Peer) -> None:
        if self._stalled:
            self._stalled = False
            self._home.progress()

    def on_down(self, peer: Peer) -> None:
        self._catch_up.on_down(peer)
        self._checks.down(peer.id)
        for lead in self._leads.values():
            if peer.id in lead.followers:
                self._ask(lead, lead.restart(peer.id))

    def on_lost(self, peer: Peer) -> None:
        self._home.lost(peer.id, peer.lost)
        for lead in list(self._leads.values()):
            if peer.id in lead.followers:
                self._consider(lead)

    # ── what counts, and who is in ─────────────────────────────────────────────────────────────────

    def _ask(self, lead: LedSlot, progress: FollowerProgress) -> None:
        """What does it have?"""
        peer = self._peers.get(progress.member)
        if peer is None:
            peer = self._peers[progress.member] = Peer(
                progress.member, self._addresses.get(progress.member, ""), self._identity, self, self._dialer,
                self._clock, self._later, self._settings.dead_after_ms, self._settings.promise_ms,
                self._settings.ping_ms,
            )  # fmt: skip
        # Seconds that we stood still are taken out of all times here, or each pause of ours would look like its
        # silence.
        progress.ask(self._clock.monotonic() - self._slept)
        peer.lead(progress.slot, lead.record.epoch)
        peer.dial()

    def _advance(self, lead: LedSlot) -> bool:
        """Does more count now."""
        taken = lead.advance()
        if taken < 0:
            return False
        self.backlog -= taken
        return True

    def _consider(self, lead: LedSlot) -> None:
        """Proposes the isr that should be; seeds who must not be in it and needs it."""
        if lead.state is LeaderState.DEPOSED or self._stopped:
            return
        now = self._clock.monotonic()
        # Not again so soon: the tick asks once more.
        if now < lead.retry_at:
            return
        for member, progress in lead.followers.items():
            if progress.state in (Progress.UNFIT, Progress.AHEAD) and member not in lead.needed:
                # Not before it is out of the isr, and no proposal may bring it in: a copy begins with forgetting what
                # is there, and an election could fall on a follower that has just forgotten (I4).
                self._catch_up.seed(self._peers[member], lead, lead.forget(member))
        # One proposal at a time: what it becomes decides the next one.
        if lead.busy:
            return
        # It has items of ours that nobody was told of, or of a leader before us that we lack: with it as leader
        # nothing is lost, whichever it is.
        ahead = [m for m in lead.record.isr if m in lead.followers and lead.followers[m].state is Progress.AHEAD]
        if ahead:
            self._give_way(lead, ahead[0])
            return
        isr = lead.wanted([m for m, progress in lead.followers.items() if self._fails(progress, now)])
        if isr is not None:
            # Before it is sent: from here on both sets are needed.
            lead.propose(isr)
            self._home.change(lead.record, lead.record.with_isr(isr), partial(self._proposed, lead, lead.record))

    def _fails(self, progress: FollowerProgress, now: float) -> bool:
        """Nobody should wait for this follower: it is lost, its disk hangs, or it does not say what it has (it may
        be reading a long log)."""
        peer = self._peers[progress.member]
        waited = now - self._slept - progress.asked
        silent = progress.state is Progress.ASKED and waited > peer.patience.silence(now)
        return bool(peer.lost) or silent or peer.stuck(now) or progress.member in self._leaving

    def _proposed(self, lead: LedSlot, before: SlotRecord, record: SlotRecord | None) -> None:
        lead.answered()
        if record is not None:
            self.update(record)
            self._home.on_record(record.slot, record)
        elif lead.record is before:
            # Nobody knows whether it was written: until a newer record comes both are waited for.
            lead.retry(self._clock.monotonic() + RETRY_S)
        # What came meanwhile, somebody else's change too or the news of this one, found a proposal on its way.
        self._consider(lead)

    def _give_way(self, lead: LedSlot, owner: str) -> None:
        """A member in sync has more than we have, and we have written nothing: it leads, then nothing is lost."""
        # Busy meanwhile: nothing else is proposed for a slot that is about to be led elsewhere.
        lead.proposes()
        record = lead.record
        log.info("slot %d: %s has more of it than we have: it shall lead", record.slot, owner)

        def done(new: SlotRecord | None) -> None:
            lead.answered()
            if new is not None:
                self._home.on_record(new.slot, new)
            elif lead.state is not LeaderState.DEPOSED:
                lead.retry(self._clock.monotonic() + RETRY_S)

        self._home.change(record, replace(record, leader=owner, epoch=record.epoch + 1, target=""), done)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        if self._stopped:
            return
        now, period = self._clock.monotonic(), self._settings.ping_ms / 1000
        self._later(until_look(now, period, self._settings.dead_after_ms / 1000), self._tick)
        self._ask_replicas()
        slept = stood_still(self._ticked, now, period)
        self._ticked = now
        self._slept += slept
        self._tell_counted()
        rest, self._dispatches = not self._dispatches, False
        for peer in list(self._peers.values()):
            peer.tick(slept, rest)
        if now - self._looked > USED_S:
            self._looked = now
            self._let_go(now)
        stuck = any(peer.stuck(now) for peer in self._peers.values())
        # At rest are nearly all; a hanging disk of one follower concerns those that are at rest, too.
        for lead in list(self._leads.values()):
            if stuck or not lead.at_rest:
                self._consider(lead)

    def _let_go(self, now: float) -> None:
        """Of peers that no slot needs any more."""
        used = {member for lead in self._leads.values() for member in lead.followers}
        for id, peer in list(self._peers.items()):
            if id in used:
                self._unused_since.pop(id, None)
            elif now - self._unused_since.setdefault(id, now) > LINGER_S:
                peer.close("no slot needs it", EndKind.ALIVE)
                del self._peers[id], self._unused_since[id]

    def _tell_counted(self) -> None:
        """Followers in sync hear with the next ping what counts by now: so far they may be read (docs/adr/0010).
        What is not on our own disk yet does not count: alone, we would not have it."""
        for slot, lead in self._leads.items():
            if lead.told == lead.reached or lead.state is not LeaderState.WHOLE:
                continue
            lsn = min(lead.reached, self._journal.written(slot))
            for member in lead.tell(lsn):
                self._peers[member].tell(slot, lsn)

    def metrics(self) -> Iterable[Metric]:
        return lag_metrics(self, self._leads.values(), self._peers.values(), self._catch_up)
