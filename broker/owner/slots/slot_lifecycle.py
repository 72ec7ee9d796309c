"""The life of the slots in one owner: follow, lead, hand over, step down, leave. Slot records in, roles out.

Rule: a record says what shall be, this makes it so, step by step; whatever step is under way, a newer record wins.
Nothing is led before (1) the promise given to the old leader has run out, (2) the epoch stands in the log, and (3)
every in-sync follower has everything. Must not know where records come from, nor how followers are reached.
"""

# Example. A led slot 9 in epoch 4 and is cut off; the controller writes: leader B, epoch 5. On B:
#     FOLLOWING → UNPROMISED    the record comes. B had promised A not to lead before 12.4 s: it waits, or until A
#                               resigns
#     → TAKING_OVER             epoch 5 is written (begin_epoch): from now on B takes nothing of A. All of the isr are
#                               asked what they have, and are given what they lack. Nothing is taken or handed out
#     → LEADING                 everything counts on all of them (when_ready): the standby becomes the engine. Messages
#                               that may have been delivered say `redelivered`
#     gather                    edges attach the consumers that held something of the slot: for 0.2 s, or until all
#                               live edges have come, nothing is handed out, or what they hold would be given to
#                               others
# On A, when it hears of epoch 5 from the store or from a follower: STEPPING_DOWN, its log is read back into a standby,
# then FOLLOWING. What A has told stands on B; what it has not may be lost, and its edges ask B.

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from broker.core.effects import Turn
from broker.core.records import MetaRecord
from broker.core.slots import SlotRecord
from broker.journal.journal import Journal
from broker.seams.clock import Clock

from ..commit.io_thread import Io
from ..shard.shard import Shard
from .edge_gathering import EdgeGathering
from .lifecycle_ports import Crossings, EdgeServer, FollowerPort, Leading, SlotRecords
from .read_back import ReadBack
from .recovered_slots import recovered_standbys
from .slot_role import BEFORE, LED, RETRY_S, RoleState, SlotRole
from .standby import LastState, Standby

log = logging.getLogger("stampede.owner")

# 2^40 messages an epoch, 2^24 epochs. Ids of transient messages stand in no log, so a new leader could not know the
# last.
EPOCH_SHIFT = 40
"""Ids of messages begin at (epoch - 1) << 40 in a new epoch: an id is never given twice, durable or not."""
ROUSE_RUNS = 1000
"""Of a slot that is taken over, given to its engine in one go (some 10 ms); meanwhile others are served."""


class SlotLifecycle:
    """`me`: this owner's id. All calls in the loop's thread."""

    def __init__(
        self,
        me: str,
        shard: Shard,
        journal: Journal,
        leaders: Leading,
        followers: FollowerPort,
        serving: EdgeServer,
        table: SlotRecords,
        crossings: Crossings,
        clock: Clock,
        survey_io: Io,
        later: Callable[[float, Callable[[], None]], Any],
        min_in_sync: int,
        edges: Callable[[], Collection[str]],
    ) -> None:
        """`edges`: ids of those that live."""
        self.me = me
        self._shard = shard
        self._journal = journal
        self._leaders = leaders
        self._followers = followers
        self._serving = serving
        self._table = table
        self._crossings = crossings
        self._clock = clock
        self._read_back = ReadBack(journal, survey_io, shard.durable)
        self._later = later
        self._min_in_sync = min_in_sync
        self._gathering = EdgeGathering(serving, edges, self._gathered, clock.monotonic, later)
        self._roles: dict[int, SlotRole] = {}
        self._records: dict[int, SlotRecord] = {}
        self._recovered: dict[int, Standby] = {}
        self._claiming: set[int] = set()
        self._ending = False
        self._leaving = False
        # A process that was registered, died and came back must not lead from what it remembers before the store
        # knows that it lives.
        self._suspended = True
        """Until the process is registered it leads nothing."""

    # ── the outside ────────────────────────────────────────────────────────────────────────────────

    def recovering(self) -> Iterator[None]:
        """Takes what the journal brought back of all slots, before the first record: in steps of some milliseconds, for
        a loop that has others to serve."""
        yield from self._shard.reading()
        self._recovered = yield from recovered_standbys(self._journal.recovered, self._shard.new_engine)

    def on_record(self, slot: int, record: SlotRecord | None) -> None:
        """The slot's record is this now. None: it is gone; that is nobody's plan, so nothing is done."""
        if record is None:
            log.error("slot %d: its record is gone from the metadata store; going on as before", slot)
            return
        known = self._records.get(slot)
        # Records come by the watch and by our own changes, in any order.
        if known is not None and known.revision >= record.revision:
            return
        self._records[slot] = record
        if self._ending:
            return
        self._apply(record)

    def led(self) -> list[int]:
        """Slots that are led (or just being taken over) here."""
        return [slot for slot, role in self._roles.items() if role.state in LED]

    def serving(self) -> int:
        """How many slots take commands here."""
        return sum([role.state is RoleState.LEADING for role in self._roles.values()])

    def duties(self) -> dict[int, RoleState]:
        """Slots that this owner shall lead → what it is to them."""
        found: dict[int, RoleState] = {}
        for slot, record in self._records.items():
            if record.leader == self.me:
                role = self._roles.get(slot)
                state = RoleState.FOLLOWING if role is None else role.state
                waits = self._suspended and state is not RoleState.UNPROMISED
                found[slot] = RoleState.SUSPENDED if waits else state
        return found

    def lagging(self) -> list[int]:
        """Slots of which this owner shall be an in-sync replica and is not (yet); nobody leads a shelved one there."""
        return [
            slot
            for slot, record in self._records.items()
            if self.me in record.replicas and self.me not in record.isr and not record.shelved
        ]

    def state_of(self, slot: int) -> list[MetaRecord]:
        """Small state of a slot that is led here, or about to be."""
        self._shard.finish()
        engine = self._shard.engines.get(slot)
        if engine is not None:
            return engine.snapshot()
        role = self._roles.get(slot)
        return role.standby.snapshot() if role is not None and role.standby is not None else []

    def keeper(self, slot: int) -> Standby | LastState | None:
        """Which owner keeps the small state of a slot neither led nor followed yet."""
        # What an engine that has gone left; else the standby that is about to become one, or what the start found.
        role = self._roles.get(slot)
        if role is not None and role.kept is not None:
            return role.kept
        taking = role.standby if role is not None and role.state in BEFORE else None
        return taking or self._recovered.get(slot)

    def deposed(self, slot: int, epoch: int) -> None:
        """A follower has seen a higher epoch: whatever the record we know says, we lead no more."""
        role = self._roles.get(slot)
        # Only a higher epoch, and only what could still be leading.
        if role is None or role.epoch >= epoch or role.state in (RoleState.FOLLOWING, RoleState.STEPPING_DOWN):
            return
        log.warning("slot %d: epoch %d exists, ours is %d: stepping down", slot, epoch, role.epoch)
        self._step_down(slot, role, epoch)

    def leave(self) -> None:
        """The process is about to end: slots that are handed over are not followed any more."""
        self._leaving = True

    def needed(self) -> list[int]:
        """Slots whose in-sync replica this is, where others suffice: their leaders are about to let it go."""
        enough = self._min_in_sync
        return [slot for slot, r in self._records.items() if self.me in r.isr and len(r.isr) > enough and not r.shelved]

    def suspend(self) -> None:
        """This process was declared dead: lead nothing until go_on().

        What is led stands still and stays as it is: another owner leads it in a newer epoch, which ends it
        here. When a store has stood still everybody is declared dead at once, and nobody leads instead: to read all of
        it back from the disk first would take half a minute."""
        self._suspended = True
        for slot in self.led():
            role = self._roles[slot]
            # Nothing was told in it yet, and its standby is whole: stepping down costs nothing.
            if role.state in BEFORE:
                self._step_down(slot, role, role.epoch)
                continue
            role.suspends()
            self._gathering.forget(slot)
            self._serving.unserve(slot)
            self._shard.pause(slot)

    def go_on(self) -> None:
        """It is registered (again)."""
        self._suspended = False
        for record in list(self._records.values()):
            if not self._ending:
                self._apply(record)

    def end(self) -> None:
        """The process ends: nothing is begun any more."""
        self._ending = True
        for slot in self.led():
            self._serving.unserve(slot)

    # ── what shall be ──────────────────────────────────────────────────────────────────────────────

    def _apply(self, record: SlotRecord) -> None:
        slot = record.slot
        role = self._roles.get(slot)
        if role is not None and role.state is RoleState.STEPPING_DOWN:
            return  # applied when the standby stands
        if record.leader == self.me:
            if not self._suspended:
                self._lead(record, role)
            elif role is None:
                self._follow(record, role)
        elif self.me in record.replicas:
            self._follow(record, role)
        else:
            self._leave(record, role)

    def _lead(self, record: SlotRecord, role: SlotRole | None) -> None:
        slot = record.slot
        # The same leadership under a newer record: a changed isr, a target to hand over to, or none any more.
        if role is not None and role.epoch == record.epoch and role.state is not RoleState.FOLLOWING:
            self._leaders.update(record)
            if role.state is RoleState.SUSPENDED:
                self._go_on(slot, role)
            if record.target and record.target != self.me:
                self._hand_over(record, role)
            elif role.state is RoleState.HANDING_OVER:
                self._go_on(slot, role)
            return
        # I1 on our own disk: an epoch is begun once.
        if record.epoch <= self._journal.epoch(slot):
            # Led in that epoch before this process began, or by a log that went further: followers may have records
            # of it that we lost. Only a new epoch makes one history of it.
            self._claim(record)
            return
        if role is not None and role.state is not RoleState.FOLLOWING:
            self._step_down(slot, role, record.epoch)
            return
        role = self._roles[slot] = SlotRole.is_named(role, record.epoch)
        # I8: whoever got that promise may hand out until then.
        wait = self._followers.promised_until(slot) - self._clock.monotonic()
        role.starts_from(self._standby(slot))
        if wait > 0:
            self._later(wait, partial(self._take_over, slot, role))
        else:
            self._take_over(slot, role)

    def _claim(self, record: SlotRecord) -> None:
        """Ask for a new epoch of a slot that is ours already."""
        slot = record.slot
        if slot in self._claiming:
            return
        self._claiming.add(slot)
        epoch = max(record.epoch, self._journal.epoch(slot)) + 1

        def done(new: SlotRecord | None) -> None:
            self._claiming.discard(slot)
            if new is not None:
                self.on_record(slot, new)
                return
            current = self._records.get(slot)
            if current is not None and current.leader == self.me and not self._ending:
                self._later(RETRY_S, partial(self._claim_again, slot))

        # A comparison with the record we know: if somebody else was named meanwhile, this fails, and their record
        # comes.
        self._table.change(record, replace(record, epoch=epoch, target=""), done)

    def _claim_again(self, slot: int) -> None:
        # Perhaps the record has changed meanwhile in something else: then nobody has claimed it yet.
        if not self._ending:
            self._apply(self._records[slot])

    def _follow(self, record: SlotRecord, role: SlotRole | None) -> None:
        slot = record.slot
        if role is None:
            standby = self._standby(slot)
            self._roles[slot] = SlotRole.follows(record.epoch)
            self._followers.follow(standby, record.epoch)
        elif role.state is RoleState.FOLLOWING:
            role.follows_on(record.epoch)
        elif role.epoch < record.epoch:
            self._step_down(slot, role, record.epoch)

    def _leave(self, record: SlotRecord, role: SlotRole | None) -> None:
        """Not a replica (any more). The log of the slot goes when enough others certainly have it."""
        slot = record.slot
        if role is not None and role.state is not RoleState.FOLLOWING:
            self._step_down(slot, role, record.epoch)
            return
        # As long as the others are not enough this copy may be the one that is needed.
        if len(record.isr) < min(self._min_in_sync, len(record.replicas)) or not record.isr:
            return
        if self._journal.epoch(slot) > record.epoch:
            # The store knows less than this log: it was restored or lost. Nobody's data goes for that.
            log.error(
                "slot %d: the metadata store is in epoch %d, the log here in %d: the log is kept",
                slot, record.epoch, self._journal.epoch(slot),
            )  # fmt: skip
            return
        standby = self._followers.unfollow(slot) if role is not None else self._recovered.pop(slot, None)
        self._roles.pop(slot, None)
        if standby is not None:
            standby.discard()
        if self._journal.last(slot) != (0, 0):
            log.info("slot %d: not a replica any more, its log here goes", slot)
            self._journal.reset_slot(slot)
            self._journal.end_seed(slot, [], 0)  # empty, not half a copy: it may be followed again
            self._shard.durable(_nothing)

    def _standby(self, slot: int) -> Standby:
        """What we have of the slot; an empty one if nothing."""
        role = self._roles.get(slot)
        standby = role.take_standby() if role is not None else None
        if standby is not None:
            return standby
        return (
            self._followers.unfollow(slot) or self._recovered.pop(slot, None) or Standby(self._shard.new_engine(slot))
        )

    # ── taking over ────────────────────────────────────────────────────────────────────────────────

    def _current(self, slot: int, role: SlotRole, state: RoleState) -> bool:
        return self._roles.get(slot) is role and role.state is state and not self._ending

    def released(self, slot: int) -> None:
        """The old leader has resigned: no promise stands in our way any more."""
        role = self._roles.get(slot)
        if role is not None and role.state is RoleState.UNPROMISED:
            self._take_over(slot, role)

    def _take_over(self, slot: int, role: SlotRole) -> None:
        """The promise has run out: fence, then reach everybody in isr."""
        if not self._current(slot, role, RoleState.UNPROMISED):
            return
        role.fences()
        # The fence. Appended, not waited for: what is written later stands behind it, and when_ready waits for this
        # commit.
        self._journal.begin_epoch(slot, role.epoch)
        self._journal.replicated.add(slot)
        self._leaders.lead(self._records[slot])
        # Called back when the commit with the epoch counts: on our disk, and on those of all needed, with everything
        # before it.
        self._shard.when_ready(slot, partial(self._activate, slot, role))

    def _activate(self, slot: int, role: SlotRole) -> None:
        """Everybody in isr has everything: the engine lives."""
        if not self._current(slot, role, RoleState.TAKING_OVER):
            return
        standby = role.standby
        assert standby is not None
        # In steps: a queue of a million messages is 10 s of restoring, and other slots of this owner have clients.
        if not standby.rouse(self._journal, (role.epoch - 1) << EPOCH_SHIFT, ROUSE_RUNS):
            self._later(0, partial(self._activate, slot, role))
            return
        role.take_standby()
        role.leads()

        def begin(turn: Turn) -> Iterator[None]:
            yield from standby.promote(turn)
            self._crossings.resume(standby.engine)

        self._shard.adopt(standby.engine, begin)
        self._gather(slot, role)
        log.debug("slot %d: leading in epoch %d", slot, role.epoch)
        record = self._records[slot]
        if record.epoch == role.epoch and record.target and record.target != self.me:
            self._hand_over(record, role)

    def _gather(self, slot: int, role: SlotRole) -> None:
        """Nothing leaves before the edges are there."""
        self._shard.pause(slot)
        self._gathering.begin(slot, role.epoch)

    def _gathered(self, slot: int) -> None:
        """Everybody is there who will be waited for."""
        role = self._roles.get(slot)
        if role is None or role.state is not RoleState.LEADING:
            return
        role.gathers()
        self._serving.let_in(slot)
        self._shard.unpause(slot)

    # ── handing over ───────────────────────────────────────────────────────────────────────────────

    def _hand_over(self, record: SlotRecord, role: SlotRole) -> None:
        """Planned: take nothing new, hand out nothing, let the target have everything, then make it the leader."""
        slot = record.slot
        if role.state is not RoleState.LEADING:
            return
        # A target that lacks something would lead without it (I4).
        if record.target not in record.isr:
            log.info("slot %d: %s is not in sync: not handed over", slot, record.target)
            return
        role.hands_over()
        self._gathering.forget(slot)
        self._serving.unserve(slot)
        self._shard.pause(slot)
        # Everything told and everything taken is with all in-sync members, the target among them; since the slot
        # stands still, nothing comes after that.
        self._shard.when_ready(slot, partial(self._pass_on, slot, role))

    def _pass_on(self, slot: int, role: SlotRole) -> None:
        record = self._records[slot]
        if not self._current(slot, role, RoleState.HANDING_OVER) or record.epoch != role.epoch:
            return
        if not record.target or record.target not in record.isr:
            self._go_on(slot, role)
            return

        def done(new: SlotRecord | None) -> None:
            if new is not None:
                self.on_record(slot, new)
            elif self._current(slot, role, RoleState.HANDING_OVER):
                # Perhaps the store is away, for hours. Leading goes on meanwhile: if it was written after all, promises
                # and epochs keep the target from going on beside us.
                self._go_on(slot, role)
                self._later(role.waits_longer(), partial(self._hand_over_again, slot, role))

        # The next leader need not wait for us: our log has to be read first, or we are about to end. Nothing is told
        # here any more, and whatever was told is with the others.
        others = tuple(member for member in record.isr if member != self.me)
        # One write does both, or the next leader would first wait for a member that is reading its log.
        isr = others if len(others) >= self._min_in_sync else record.isr
        new = replace(record, epoch=record.epoch + 1, leader=record.target, target="", isr=isr)
        self._table.change(record, new, done)

    def _hand_over_again(self, slot: int, role: SlotRole) -> None:
        record = self._records[slot]
        if (
            self._current(slot, role, RoleState.LEADING)
            and record.epoch == role.epoch
            and record.target not in ("", self.me)
        ):
            self._hand_over(record, role)

    def _go_on(self, slot: int, role: SlotRole) -> None:
        """The transfer was called off, or we were taken for dead and nobody leads instead."""
        # Back to where it was: engine and edges have not noticed.
        role.leads()
        if not role.gathered:
            self._gather(slot, role)
            return
        self._shard.unpause(slot)
        self._serving.serve(slot, role.epoch)

    # ── stepping down ──────────────────────────────────────────────────────────────────────────────

    def _step_down(self, slot: int, role: SlotRole, epoch: int) -> None:
        """Another owner leads (or shall): from now on nothing of the slot is told here. Its log becomes a standby."""
        self._serving.unserve(slot, over=True)
        # From here on nothing of it is told or written, whatever callbacks still come.
        engine = self._shard.drop(slot)
        if engine is None and role.standby is not None and role.standby.roused:
            engine = role.standby.engine
        self._leaders.resign(slot)
        self._journal.replicated.discard(slot)
        # A new role: callbacks of the old one compare identities, and find that theirs is over.
        stepping = self._roles[slot] = role.steps_down(epoch)
        if engine is None:
            # It had not begun: the standby is as it was.
            standby = role.standby or Standby(self._shard.new_engine(slot))
            self._stepped_down(slot, standby, epoch)
            return
        # Small state from memory, messages from the log: the engine may have taken messages that were never sealed,
        # and they must not come to life in a follower.
        metas = engine.hand_over() if role.standby is None else role.standby.snapshot()
        producers = engine.producers()
        engine.discard()
        stepping.keeps(LastState(metas))
        if self._leaving:
            return  # what is on the disk is read at the next start
        standby = Standby(self._shard.new_engine(slot))
        standby.restore(metas, (), producers)

        def done(error: BaseException | None) -> None:
            if error is not None:
                self._shard.fail(f"journal cannot be read back: {error!r}")
            elif self._roles.get(slot) is stepping:
                self._stepped_down(slot, standby, epoch)
            else:
                standby.discard()

        self._read_back.begin(slot, standby, done)

    def _stepped_down(self, slot: int, standby: Standby, epoch: int) -> None:
        self._roles[slot] = self._roles[slot].stands(epoch)
        self._followers.follow(standby, epoch)
        record = self._records.get(slot)
        if record is not None and not self._ending:
            # A newer record may have come while the log was being read.
            self._apply(record)


def _nothing() -> None:
    """Only that it is committed matters."""
