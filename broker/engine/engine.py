"""The brain of one slot: commands in, effects, log records, fetches and moves out.

Rule: deterministic. No clock, no IO, no logging, no randomness; the owner's Turn is all it knows of the world.
This file is the table of who does what: subscribe.py, publishing/ (numbered.py is its door), dispatch/, routing/, for
clusters prepared.py, reattach.py and tx_decisions.py.
"""

# Example. Queue "orders" exists and is empty, consumer 7 of session 2 has credit; session 1 sends two durable messages
# with one receipt (seq 5).
#     turn 2   handle(Publish)   they become 1 and 2 of "orders" and wait at its gate. turn.appends: MetaRecord "ids"
#                                (numbers to 1,048,578 may be in use, where a restart goes on) and one RunRecord
#              flush             nothing: `pending` has the run, and the receipt behind it
#     turn 4   release(2)        the log has turn 2. turn.effects: Done(1, 5); the run enters its queue
#              flush             Deliver(7, run of 1 and 2). No record more: the RunRecord already said `dispatched`,
#                                since a consumer was waiting when it was written (watermark.py)
#     turn 5   handle(Settle)    ids 1 and 2 leave the consumer's ledger. turn.appends: SettleRecord of the span (1, 2);
#                                its receipt waits for turn 5 as the other one did for turn 2
# Had the Settle come in turn 3, when 7 held nothing: Refused(2, 6, NO_SUCH_DELIVERY, "message 1 is not held …") in
# turn.effects, no record, and no state has changed. Only a defect raises out of handle().

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from broker.config.settings import EngineSettings
from broker.core.commands import (
    Barrier,
    Command,
    Confirm,
    Decide,
    Disconnect,
    Grant,
    Hold,
    Inquire,
    Manage,
    Prepare,
    Publish,
    Settle,
    Subscribe,
    SubscribeAll,
    Transact,
    Unsubscribe,
)
from broker.core.effects import Done, Move, Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import Run
from broker.core.records import MetaRecord, Row, RunRecord
from broker.core.spans import Span

from . import manage, subscribe, tick
from .address.wildcards import Wildcards
from .at_work import Work, stated, stated_pieces
from .dispatch import attach, page_in, settle
from .end_of_turn import hand_out
from .publishing import admission, numbered, prefilter, prepared, recurring
from .publishing.publish import is_wide
from .queue.queue import Queue
from .recovery import slot_restore
from .routing import addresses, declare, redelivery
from .routing.routing import check_publish
from .state import commit_release, duplicates, limits, page_out
from .state.budget import Budget
from .state.depth import depths
from .state.slot import Slot


class Engine:
    """See docs/adr/0001 for how it is used.

    number    which slot this is.    pending   what waits for commits, the latest last.
    at_work   what it is carrying out.    fault   what it has thrown (at_work.py)."""

    __slots__ = (
        "__weakref__", "_accepted", "_handlers", "_restore", "_slot", "at_work", "changes", "fault", "number",
        "pending",
    )  # fmt: skip

    def __init__(
        self,
        slot: int,
        settings: EngineSettings,
        budget: Budget | None = None,
        first_id: int = 0,
        wildcards: Wildcards | None = None,
    ) -> None:
        """budget     of queues, shared with the other engines of the process; None: one of its own.
        first_id   ids begin here, or behind those announced: ids of two leaders never meet.
        wildcards  shared like the budget."""
        self._slot = Slot(slot, settings, budget or Budget(settings.max_queues), first_id, wildcards or Wildcards())
        self.number = slot
        self.at_work: Work | None = None
        self.fault: Exception | None = None
        self.pending = self._slot.pending
        self._restore: slot_restore.Restore | None = None
        self._accepted = 0
        """Messages, when it was dispatched last."""
        self.changes = 0
        """Grows whenever something here may be other than before; but for what release() lets out of `pending`."""
        self._handlers: dict[type, Callable[[Any, Turn], None]] = {
            Publish: partial(numbered.accept, self._slot),
            Settle: partial(settle.settle, self._slot),
            Grant: partial(subscribe.grant, self._slot),
            Confirm: partial(settle.confirm, self._slot),
            Subscribe: partial(subscribe.subscribe, self._slot),
            SubscribeAll: partial(subscribe.subscribe_all, self._slot),
            Unsubscribe: partial(subscribe.unsubscribe, self._slot),
            Hold: partial(settle.hold, self._slot),
            Barrier: self._barrier,
            Disconnect: partial(subscribe.disconnect, self._slot),
            Prepare: partial(prepared.prepare, self._slot),
            Decide: partial(prepared.decide, self._slot),
            Inquire: self._inquire,
            Manage: partial(manage.manage, self._slot),
        }

    # ── commands ───────────────────────────────────────────────────────────────────────────────────

    def handle(self, command: Command, turn: Turn) -> None:
        """Carries out any command but Transact; a refusal becomes a Refused effect."""
        self.changes += 1
        self.at_work = command
        try:
            self._handlers[type(command)](command, turn)
        except RefusedError as refused:
            # Only this one: whatever else is raised is a fault, and the owner's affair.
            session: int = getattr(command, "session", 0)
            turn.effects.append(Refused(session, getattr(command, "seq", 0), refused.code, refused.detail))
        except Exception as error:
            self.fault = error
            raise
        finally:
            self.at_work = None

    @stated
    def much(self, command: Prepare | Decide) -> bool:
        """Is it more than may be handled in one step: in_pieces()."""
        return prepared.much(self._slot, command)

    @stated_pieces
    def in_pieces(self, command: Prepare | Decide, turn: Turn) -> Iterator[None]:
        """handle() in steps of a few milliseconds. Between them nothing may happen in this slot."""
        try:
            yield from prepared.in_pieces(self._slot, command, turn)
        except RefusedError as refused:
            turn.effects.append(Refused(command.session, command.seq, refused.code, refused.detail))
        finally:
            self.changes += 1

    @property
    def more(self) -> bool:
        """Has the part of a transaction that was handled last a rest()."""
        return self._slot.rest is not None

    @stated_pieces
    def rest(self) -> Iterator[None]:
        """The rest of that, in steps of a few milliseconds. Between them nothing may happen in this slot."""
        return self._slot.take_rest()

    @stated
    def check(self, part: Publish | Settle, asked: limits.Asked) -> None:
        """Raises RefusedError if handle() would refuse it as a part of a transaction. asked: one for all its parts."""
        if isinstance(part, Publish):
            check_publish(self._slot, part)
            admission.check(self._slot, part, asked)
        else:
            settle.check_settle(self._slot, part)
            # It has been asked: handle() in this turn may take what the transaction holds. flush() forgets it, since
            # what is so now need not be so in the next turn.
            self._slot.approved.add(part)

    @stated
    def would_page(self, part: Publish) -> bool:
        """Would it, though not durable, be written because the memory of a queue is full."""
        return admission.would_page(self._slot, part)

    @property
    def wary(self) -> bool:
        """Is a message to be looked at before it is published: filtered, spread, or drowsy."""
        slot = self._slot
        asleep = slot.patterns is not None or slot.wildcards.some
        return slot.filtered > 0 or slot.copies.many or (asleep > 0 and attach.drowsy(slot))

    @property
    def drowsy(self) -> bool:
        """May a message have to wait for wake_some()."""
        return attach.drowsy(self._slot)

    @stated
    def wake_some(self, part: Publish, turn: Turn) -> bool:
        """Some of those who sleep and are to get it are awake now. True: there may be more."""
        self.changes += 1
        return attach.wake_some(self._slot, part, turn)

    @property
    def spread(self) -> bool:
        """Do so many copies wait to be handed out that what may make many more has to wait: wide()."""
        return self._slot.copies.many

    @stated
    def wide(self, part: Publish) -> bool:
        """Is it that."""
        return is_wide(self._slot, part)

    @property
    def filtered(self) -> bool:
        """Has some queue a selector: look() first."""
        return self._slot.filtered > 0

    @stated
    def look(self, parts: Sequence[Publish], turn: Turn, most: int) -> int:
        return prefilter.go_on(self._slot, parts, turn, most)

    @stated
    def looked(self, parts: Sequence[Publish]) -> None:
        prefilter.forget(self._slot, parts)

    @stated
    def after(self, effect: Done, turn: Turn) -> None:
        """Tells `effect` when all that was appended so far in this turn is durable, and all this slot waits for: the
        dead letters of its session, too, which may be those of the COMMIT that it answers."""
        self._slot.behind_all(effect, turn)

    def _barrier(self, command: Barrier, turn: Turn) -> None:
        done = Done(command.session, command.seq)
        # Also when this turn writes nothing, and nothing waits here: an earlier commit, of other slots, may be under
        # way.
        if not self._slot.returning.tells_later(command.session, done):
            self._slot.barrier(done, turn)

    def attached(self, session: int) -> bool:
        """Has the session consumers here."""
        return session in self._slot.sessions

    @stated
    def held(self, consumer: int, coming: Iterable[Command]) -> list[int]:
        """What the consumer will hold when these commands have been carried out, of what it has been given."""
        known = self._slot.consumers.get(consumer)
        if known is None:
            return []
        mine = (each for each in coming if isinstance(each, Settle | Hold) and each.consumer == consumer)
        return known.left([each.ids for each in mine])

    # ── transactions over several slots ────────────────────────────────────────────────────────────

    def _inquire(self, command: Inquire, turn: Turn) -> None:
        slot, tx = self._slot, command.tx
        decisions = slot.decisions
        # A participant asks what became of a transaction. Three answers: committed; ask again; never. "Never" is
        # written before it is told (abort), so that no later leader of this slot can decide otherwise (I9).
        if tx in decisions.decided:
            slot.barrier(Done(command.session, command.seq), turn)
        elif tx in decisions.deciding:
            turn.effects.append(Refused(command.session, command.seq, Code.OWNER_UNAVAILABLE, "it is being decided"))
        else:
            self.abort(tx, turn)
            refused = Refused(command.session, command.seq, Code.NO_SUCH_TRANSACTION, "it was never committed")
            slot.barrier(refused, turn)

    @stated
    def in_doubt(self, now: int) -> list[tuple[str, int]]:
        """(transaction, coordinator slot) of what was prepared here and has waited long for its decision."""
        return prepared.in_doubt(self._slot, now)

    @stated
    def deciding(self, tx: str) -> None:
        """This slot coordinates `tx`; call before participants prepare it. Ended by decide(), abort() or abandon()."""
        self._slot.decisions.deciding.add(tx)

    @stated
    def abandon(self, tx: str) -> None:
        """Nobody asks for its decision under this name again."""
        self._slot.decisions.deciding.discard(tx)

    @stated
    def abort(self, tx: str, turn: Turn) -> None:
        """It will never be committed, whichever owner leads: participants may be told so when that is durable."""
        decisions = self._slot.decisions
        decisions.deciding.discard(tx)
        # Asked by several participants: one record.
        if tx not in decisions.aborted:
            decisions.abort(tx, turn.now)
            turn.appends.append(MetaRecord(self._slot.number, "aborted", {"tx": tx, "at": turn.now}))

    @stated
    def decide(self, tx: str, participants: list[int], turn: Turn) -> None:
        """`tx` is committed; `participants`: the other slots, to be told when it is durable. Goes into the group of
        this slot's own part. Raises RefusedError, with nothing changed, if it was rolled back meanwhile."""
        self._slot.decisions.decide(tx, participants)
        turn.appends.append(MetaRecord(self._slot.number, "decided", {"tx": tx, "participants": participants}))

    def undecided(self) -> list[tuple[str, list[int]]]:
        """(transaction, participants) of what is committed here and not yet carried out by all of them."""
        return list(self._slot.decisions.decided.items())

    @stated
    def forget(self, tx: str, turn: Turn) -> None:
        """All participants of `tx` have carried it out."""
        if self._slot.decisions.decided.pop(tx, None) is not None:
            turn.appends.append(MetaRecord(self._slot.number, "told", {"tx": tx}))

    @stated
    def repeated(self, part: Publish) -> bool:
        """Has the transaction of this part happened before, by the duplicate ids of its messages."""
        return duplicates.repeated(self._slot, part)

    # ── producers ──────────────────────────────────────────────────────────────────────────────────

    def duplicate(self, dedup: tuple[int, int]) -> bool:
        """Has that number of that producer been dealt with before. Then: again()."""
        return self._slot.producers.seen(dedup)

    @stated
    def again(self, command: Publish | Transact, turn: Turn) -> None:
        """Answers a duplicate like the original."""
        numbered.again(self._slot, command, turn)

    @stated
    def remember(self, dedup: tuple[int, int], turn: Turn) -> None:
        """Counts the number as taken; for a transaction, in its log group."""
        numbered.remember(self._slot, dedup, turn)

    @stated
    def refuse(self, command: Publish | Transact, refused: RefusedError, turn: Turn) -> None:
        """The owner refuses a command for reasons of its own: a replay of it is refused as well."""
        numbered.refuse(self._slot, command, refused, turn)

    def producers(self) -> dict[int, int]:
        """Token → last number."""
        return self._slot.producers.last()

    # ── the owner's calls ──────────────────────────────────────────────────────────────────────────

    @property
    def carrying(self) -> Settle | None:
        """What came long ago, and a piece of it is carried out, or has thrown."""
        returning = self._slot.carrying
        return None if returning is None else returning.command

    @property
    def unfinished(self) -> bool:
        """What the last flush() has returned."""
        # Asked between turns as well; flush() alone would have to run to know it.
        return bool(self._slot.unfinished or self._slot.browsing)

    @stated
    def moved(self, move: Move, turn: Turn) -> None:
        """The owner has published the run of `move` (or nobody takes it): the source is settled."""
        self.changes += 1
        redelivery.moved(self._slot, move, turn)
        recurring.moved(self._slot, move, turn)
        move.ends(turn)

    @stated
    def waits(self, move: Move, turn: Turn) -> None:
        """Nobody takes the run of `move` now; it is tried again, for as long as it takes: no client waits for that."""
        move.ends(turn)

    def release(self, number: int, turn: Turn) -> None:
        """Every record of turns <= number is durable."""
        self.at_work = turn
        try:
            commit_release.release(self._slot, number, turn)
        except Exception as error:
            self.fault = error
            raise
        finally:
            self.at_work = None

    @stated
    def fetched(self, queue: int, runs: list[Run], turn: Turn) -> None:
        """The answer to a Fetch."""
        self.changes += 1
        page_in.fetched(self._slot, queue, runs, turn)

    def flush(self, turn: Turn) -> bool:
        """Dispatches every queue this turn has touched, and goes on with those that had too much for the last one.
        True: it has left something that could go out, and wants a turn soon."""
        slot, counters = self._slot, self._slot.counters
        self.changes += 1
        assert slot.rest is None, "a part of a transaction is not done"
        # What was accepted and waits for the log was counted off (`entered` < 0), and is counted on when it enters:
        # each message counts in the turn in which it can go out.
        slot.fresh = max(slot.entered + counters.accepted - self._accepted, 0)
        slot.entered, self._accepted = 0, counters.accepted
        if slot.touched or slot.unfinished or slot.overran or slot.browsing:
            self.at_work = turn
            try:
                hand_out(slot, turn)
            except Exception as error:
                self.fault = error
                raise
            finally:
                self.at_work = None
        elif slot.copies.due:
            # Nothing to hand out means that all copies are out, also those of queues that were deleted.
            slot.copies.all_out()
        if slot.approved:
            # Here, at the turn's end: parts of one transaction are checked and carried out in one turn.
            slot.approved.clear()
        return bool(slot.unfinished or slot.browsing)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    due: int = property(attrgetter("_slot.due"))  # type: ignore[assignment]
    """Epoch milliseconds of the next tick wanted; 0 = none. Read without a call of Python: every turn asks."""

    @stated
    def tick(self, turn: Turn, most: int = tick.TICKED) -> None:
        """Delayed redelivery, expiry, auto-delete. Touched queues are dispatched by the flush that follows."""
        self.changes += 1
        tick.tick(self._slot, turn, most)

    @stated
    def configure(self, settings: EngineSettings) -> None:
        """New settings, for what exists too. Queues stay, whatever their addresses match now."""
        for _ in self.configuring(settings, sys.maxsize):
            pass

    @stated_pieces
    def configuring(self, settings: EngineSettings, most: int) -> Iterator[None]:
        """The same, so many queues at a time; nothing may happen in the slot in between."""
        self.changes += 1
        self._slot.configure(settings)
        yield from declare.configuring(self._slot, most)
        yield from limits.recounting(self._slot, most)

    @stated
    def reconfigure(self, settings: EngineSettings) -> declare.Reshaping:
        """The same in pieces, of reshape(), between which anything may happen."""
        self._slot.configure(settings)
        return declare.Reshaping(self._slot)

    @stated
    def reshape(self, change: declare.Reshaping, turn: Turn, most: int) -> int:
        """A piece of that, declare() included; what is left of `most`, 0: there may be more to do."""
        self.changes += 1
        return change.go_on(self._slot, turn, most)

    @stated
    def declare(self, turn: Turn) -> None:
        """Makes what the settings name, and lets go what they name no more. Call it in a turn of its own after
        configure(); restore_ending() has done it."""
        declare.declare(self._slot, turn)

    # ── recovery ───────────────────────────────────────────────────────────────────────────────────

    def small_state(self) -> Iterator[list[MetaRecord]]:
        """All of it (kinds: slot_restore.py), bit by bit: what changes in between is in the log behind it."""
        return slot_restore.small_state(self._slot)

    @stated
    def snapshot(self) -> list[MetaRecord]:
        """All of it at once."""
        return [record for piece in self.small_state() for record in piece]

    @stated
    def restore_meta(self, record: MetaRecord) -> None:
        """All of them first, in log order."""
        self._restoring().meta(record)

    @stated
    def restore_run(self, record: RunRecord, settled: dict[int, list[tuple[int, int]]]) -> None:
        """Then the runs with live messages, by ascending id."""
        self._restoring().run(record, settled)

    @stated
    def restore_stretch(self, queue: int, rows: list[Row]) -> None:
        """The same for plain runs of one queue, of which every message lives."""
        self._restoring().stretch(queue, rows)

    @stated
    def restore_settled(self, queue: int, spans: list[Span]) -> None:
        """A follower only: messages of a queue left it."""
        self._restoring().settled(queue, spans)

    def restore_dedup(self, token: int, number: int) -> None:
        """A run of that producer's was in the log."""
        self._slot.producers.accepted((token, number), 0)

    @stated
    def restore_producers(self, last: dict[int, int]) -> None:
        """Producer → last number, of all runs that were in the log."""
        for token, number in last.items():
            self.restore_dedup(token, number)

    @stated
    def hand_over(self) -> list[MetaRecord]:
        """The small state for the standby that follows the next leader; nothing may be handled after that. What may
        have been delivered is marked in it, or in the log (`dispatched`)."""
        return self.snapshot()

    @stated
    def make_room(self) -> None:
        """Budget.room has changed."""
        self._slot.make_room()

    @stated
    def put_away(self, queue: Queue, most: int, turn: Turn, spill: bool, again: bool) -> int:
        """Puts the youngest of what the queue has in memory out of it (page_out.py)."""
        self.changes += 1
        return page_out.put_away(self._slot, queue, most, turn, spill, again)

    @stated
    def discard(self) -> None:
        """It is not used any more: its queues do not count."""
        self.changes += 1
        for queue in list(self._slot.queues.values()):
            addresses.unbind(self._slot, queue)

    @stated_pieces
    def restore_ending(self, clean: bool, turn: Turn) -> Iterator[None]:
        """Then this, once, in steps of some milliseconds. Not clean: what may have been delivered is REDELIVERED."""
        self.changes += 1
        yield from self._restoring().end(clean, turn)
        self._restore = None

    def _restoring(self) -> slot_restore.Restore:
        if self._restore is None:
            self._restore = slot_restore.Restore(self._slot)
        return self._restore

    # ── for metrics ────────────────────────────────────────────────────────────────────────────────

    def counters(self) -> dict[str, int]:
        """Totals since the start of the process."""
        counters = self._slot.counters
        return {name: getattr(counters, name) for name in counters.__slots__}

    def subscriptions(self) -> dict[str, str]:
        """Durable subscriptions and their addresses."""
        return {name: queue.address for name, queue in self._slot.subscriptions.items()}

    def depths(self, match: str) -> Iterator[dict[str, Any] | None]:
        """What waits at an address, or at all that a pattern stands for (depth.py)."""
        return depths(self._slot, match)

    def queues(self) -> list[Queue]:
        """All there are, to be looked at only."""
        return list(self._slot.queues.values())

    @property
    def shown(self) -> Slot:
        """Its state, to be looked at only."""
        return self._slot
