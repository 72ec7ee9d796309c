"""The owner of slots in this process: takes commands, steps engines, journals, and only then tells.

Rule: one turn = take the whole inbox, step everything, append everything, seal once, tell once. Nothing of an engine
that has thrown is told. Must not know sockets or STOMP: effects go to one listener. Nor how records come to the disk
(group_commit.py), nor what may be told when (release_gate.py).
"""

# Example of a turn. The inbox has a SEND and an ACK of slot 3 and a SUBSCRIBE of slot 8; commit 9 is open, commit 8
# has just come to the disk.
#     release     what waited for commit 8 may be told: engines let out receipts and messages into this turn
#     steps       callbacks that wanted a turn (pages read, slots adopted)
#     carry out   each command changes its engine at once, and the turn gathers records, effects, moves. What is
#                 promised by a record is kept by the engine until that commit counts
#     flush       engines 3 and 8 hand out what they may, which makes records, too (watermarks before deliveries)
#     moves       dead letters: they may make others, until none is left
#     append      all records, then the commit is sealed if none is under way
#     tell        effects to the edges: all that needs no commit, and what commit 8 has made true
#
# Why all in one thread and in this order: an engine is never seen between two states, records stand in the log in the
# order in which memory changed, and nothing is told of which the log does not know. A crash between any two lines
# leaves a log whose replay is some earlier moment of this memory, and clients who have heard of nothing later.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from broker.config.settings import EngineSettings, Settings
from broker.core.commands import Command
from broker.core.effects import Turn
from broker.core.memory import Memory
from broker.core.message import Blob
from broker.core.metrics import Metric
from broker.core.records import MetaRecord
from broker.engine.address.declarations import places
from broker.engine.address.wildcards import Wildcards
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget
from broker.engine.tick import TICKED
from broker.journal.journal import Journal
from broker.seams.clock import Clock, SteadyClock
from broker.seams.loop_watchdog import QUICK_S, Steps

from ..commit.group_commit import GroupCommit, Unwritable
from ..commit.io_thread import Io
from ..commit.release_gate import ReleaseGate, Touched
from ..commit.replication_port import Alone, Replicas
from ..commit.stats import ShardStats
from ..inbox.deferred import Deferred
from ..inbox.inbox import Inbox
from ..inbox.portions import MOST, WORK
from ..transactions.large_commits import LargeCommit, TurnParts
from ..transactions.transact import Crossing, carry_moves, moving, much_moves
from . import failure_answers
from .asked_steps import AskedSteps, Step, decided
from .effect_listeners import Listener, tell_blamed
from .fault_attribution import NOBODY, at_fault
from .full_makers import FullMakers
from .lone_turn import LoneTurns
from .memory_pressure import Pressure
from .page_reads import PageReads
from .reconfiguring import Reconfiguring, beginning
from .restoring import naming, restoring
from .slot_alarm import SlotAlarm
from .slow_turns import LONG_S, Blame
from .small_state import Keeper, small_state
from .turn_commands import TurnCommands

log = logging.getLogger("stampede.owner")


class Shard:
    """All slots of this process, one writer.

    schedule(callback)     run the callback soon in this thread (the loop's call_soon).
    alarm(at_ms, callback) run it at that wall time; a later call replaces an earlier one.
    later(seconds, callback)   run it after that time.
    replicas   None: alone, every slot is led here and made when first needed. Else only those that were `adopt`ed;
               commands for others are dropped (edges that sent them have been told that the slot moved).
    steady     what counts delays and times to live, the alarm's too; None: the clock's wall.
    others     who keeps the small state of a slot that is not led here, for the head of a new segment.
    crossing   who carries out what touches several slots; None: all slots are here, one log group does.
    """

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        clock: Clock,
        commit_io: Io,
        read_io: Io,
        prepare_io: Io,
        schedule: Callable[[Callable[[], None]], Any],
        alarm: Callable[[int, Callable[[], None]], None],
        later: Callable[[float, Callable[[], None]], Any],
        replicas: Replicas | None = None,
        memory: Memory | None = None,
        steady: SteadyClock | None = None,
    ) -> None:
        self.settings = settings
        self._steady = steady
        self.journal = journal
        self.stats = ShardStats()
        self.stopped = ""
        self.slot_at_fault = NOBODY
        """The slot whose engine has thrown, if that is why it stopped."""
        self.engines: dict[int, Engine] = {}
        self._made: WeakValueDictionary[int, Engine] = WeakValueDictionary()
        """The last one of each slot, led here or followed."""
        self._budget = Budget(settings.engine.max_queues, memory, settings.engine.timed_queues)
        self.memory, self.latencies = self._budget.memory, self._budget.latencies
        self.wildcards = Wildcards()
        self._wall_ms = (steady or clock).wall_ms
        self._schedule = schedule
        self._alarm = SlotAlarm(alarm, self._tick)
        self.listener: Listener | None = None
        self.steps = Steps(clock)
        self.blame = Blame()
        self._turns = self.steps.kind("turn")
        self._ticks = self.steps.kind("tick")
        self._maintenance = self.steps.kind("maintenance")
        self._deferred = Deferred()
        self._inbox = Inbox(self._deferred, self.wake, replicas is None)
        self._large: LargeCommit | None = None
        self._behind = Reconfiguring(self.engine if replicas is None else self.engines.get, self._configured)
        self.reads = PageReads(journal, read_io, self.engines, self.wake, self._stop)
        self._steps = AskedSteps(self.wake)
        self._standing: dict[int, None] = {}
        """Slots that stand still, and go on when those have attached who came before (unpause)."""
        self._scheduled = self._in_turn = False
        self._alone = replicas is None
        durable = replicas or Alone()
        self._gate = ReleaseGate(durable)
        self.flush = self._gate.flush
        self._commits = GroupCommit(settings, journal, durable, self.stats, commit_io, prepare_io, later, self)
        self.others: Callable[[int], Keeper | None] = lambda slot: None
        self.crossing: Crossing | None = None
        self._idle: Callable[[], None] | None = None
        self._lone = LoneTurns(self, self._turns, self._gate, self._alarm, self.blame, self._budget)
        self.at_once = self._lone.carry_out
        most = settings.engine.queue_memory_bytes
        self.full_makers = FullMakers(self._budget, clock.monotonic, later)
        self.pressure = Pressure(self._budget, self.engines, most, self._alone, clock.monotonic, later, self.wake)
        self._commands = TurnCommands(self, self._inbox, self.pressure, self._alone, self._turns.now, self.blame)

    # ── the outside ────────────────────────────────────────────────────────────────────────────────

    def listen(self, listener: Listener) -> None:
        self.listener = listener

    def submit(self, commands: list[Command]) -> bool:
        """Takes commands in order; their turn comes once per iteration of the loop. True: the disk is behind, pause
        producers until on_relief."""
        # Carried out later: a caller that is called back within its own call would find itself half-way.
        inbox = self._inbox
        inbox.new.extend(commands)
        if inbox.again is not None:
            inbox.comes(commands)
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._run_turn)
        # Told to the callers with each submit, so that a producer that has not heard of it yet hears of it now.
        if (new := len(inbox.new)) > inbox.most or new + len(inbox.deferred.waiting) > MOST:
            inbox.fills()
        return inbox.throttles or self._commits.congested

    @property
    def rests(self) -> bool:
        """Nothing waits, is under way, or has to be looked at: what comes may have a turn at once (lone_turn.py)."""
        memory = self.memory
        busy = self._scheduled or self._in_turn or self._large is not None or self._idle is not None or self.stopped
        waits = busy or self._deferred.waiting or self._inbox.throttles or self._commits.congested or self.pressure.on
        return not (waits or memory.queues + memory.sessions > memory.near or self.journal.full)

    def is_one_of_several(self, crossing: Crossing, others: Callable[[int], Keeper | None]) -> None:
        """In a cluster, before the first submit. others: who keeps a slot that is not led here."""
        self.crossing = crossing
        self.others = others

    def waiting(self, after: int = 0) -> Iterator[Command]:
        """What has been submitted and not been carried out, in its order, behind so many."""
        return self._inbox.waiting(after)

    @property
    def congested(self) -> bool:
        """The disk, a follower or this owner is behind: producers are to pause."""
        return self._inbox.throttles or self._commits.congested

    def recover(self) -> None:
        """Gives every engine what the journal brought back. Call once, before the first submit."""
        for _ in self.recovering():
            pass

    def recovering(self) -> Iterator[None]:
        """The same in steps of some milliseconds, for a loop that has others to serve. Nothing else may be asked of the
        shard before its end."""
        yield from self.reading()
        recovered = self.journal.recovered
        yield from restoring(self.settings.engine, recovered, self.engine)
        turn, engines = self.begin_turn(), list(self.engines.values())
        for engine in engines:
            yield from engine.restore_ending(recovered.clean, turn)
            yield
        # What the ends have found (expired messages, watermarks) goes to the log; then one turn for each slot, so
        # that no step is longer than a slot.
        self.end_turn(turn, {})
        for engine in engines:
            self.end_turn(self.begin_turn(), {engine: None})
            yield

    def reading(self) -> Iterator[None]:
        """Reads the names in the settings, in steps, before an engine asks for one of them."""
        return naming(self.settings.engine)

    def engine(self, slot: int) -> Engine:
        """The engine of a slot that is led here, made when first needed."""
        engine = self.engines.get(slot)
        if engine is None:
            assert self._alone, f"slot {slot} is not led here"
            engine = self.engines[slot] = self.new_engine(slot)
        return engine

    def new_engine(self, slot: int, first_id: int = 0) -> Engine:
        """An empty engine with the settings and the budget of all."""
        engine = self._made[slot] = Engine(slot, self.settings.engine, self._budget, first_id, self.wildcards)
        return engine

    def every_engine(self) -> list[Engine]:
        """Led here or followed. Any thread may ask."""
        # valuerefs() is a list made in one step, whatever another thread does.
        return [engine for made in self._made.valuerefs() if (engine := made()) is not None]

    # ── slots that come and go ─────────────────────────────────────────────────────────────────────

    def adopt(self, engine: Engine, begin: Callable[[Turn], Iterator[None]]) -> None:
        """This process leads the slot from now on. `begin` fills the first turn (restore_ending), in pieces."""
        self.engines[engine.number] = engine
        self.in_turn(engine.number, beginning(lambda: self.settings.engine, begin))

    def drop(self, slot: int) -> Engine | None:
        """This process does not lead the slot any more: nothing of it is told, dispatched or released from now on."""
        # A COMMIT that is half done is done to its end: a slot must not go with half of it.
        self.finish()
        engine = self.engines.pop(slot, None)
        for blob in self._inbox.drop(slot):
            self.journal.forget_blob(blob)
        self.wildcards.drop(slot)
        self._budget.forget_slot(slot)
        self._gate.drop(slot, engine)
        self._stands_no_more(slot)
        self.wake()  # what waited may have been of this slot: who rests is to be told that there is room
        return engine

    def pause(self, slot: int) -> None:
        """Hands out nothing more of the slot (it is being handed over)."""
        self._stands_no_more(slot)
        self._gate.pause(slot)

    def unpause(self, slot: int) -> None:
        """It goes on when those have attached whose word is here: a turn begins some consumers (WORK), and what the
        others hold is not to be handed out to those."""
        self._standing[slot] = None
        self.in_turn(slot, partial(self._goes_on, slot))

    def _goes_on(self, slot: int, led: Engine, turn: Turn) -> None:
        if slot not in self._standing:
            return
        # A SEND of the same session may stand before its coming again, and wait for copies that go out only where a
        # slot goes on.
        if not led.spread and self._inbox.attaching(slot):
            self.in_turn(slot, partial(self._goes_on, slot))
            return
        self._stands_no_more(slot)
        self._gate.unpause(slot)  # the flush of this turn is what is wanted

    def _stands_no_more(self, slot: int) -> None:
        self._standing.pop(slot, None)
        if not self._standing:
            self._inbox.asks_no_more()

    def in_turn(self, slot: int, step: Step) -> None:
        """Has a turn run soon in which `step(engine, turn)` acts on the slot, if it is still led here. What it returns
        is done piece by piece, and nothing else before its end."""
        self._steps.ask(slot, step)

    def finish(self) -> None:
        """What is done in pieces is done to its end, before operators or followers look at slots outside of a turn."""
        while self._large is not None:
            self._run_turn()

    def durable(self, callback: Callable[[], None]) -> None:
        """Calls back when everything appended to the journal so far is on the local disk."""
        self._commits.after(callback)
        self.wake()

    def when_ready(self, slot: int, callback: Callable[[], None]) -> None:
        """Calls back in a turn when everything appended so far of this slot counts: here, and on all in-sync followers.
        Never, if the slot is dropped before."""
        # The open commit has everything appended so far.
        self._gate.watch(slot, self._commits.open, callback)
        self._commits.want()
        self.wake()

    def on_progress(self) -> None:
        """Followers have more of it, or let us dispatch again."""
        if self._gate.shut:
            self.wake()
        self._commits.check_pressure()

    def configure(self, settings: EngineSettings, done: Callable[[], None] | None = None) -> None:
        """Other settings of addresses; `done` is called in the turn in which all slots have them."""
        self._behind.begin(settings, done)
        self.wake()

    def _configured(self, settings: EngineSettings) -> set[int]:
        """What they say has been read: whatever is new has them, these slots follow."""
        self.settings = replace(self.settings, engine=settings)
        self.pressure.allow(settings.queue_memory_bytes)
        return (places(settings) if self._alone else set()) | self.engines.keys()

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back once nothing is under way (shutdown); at once when the owner has stopped."""
        if self.stopped:
            self._schedule(callback)
            return
        self._idle = callback
        self._commits.hurry()
        self.wake()

    def depths(self, match: str) -> Iterator[dict[str, Any] | None]:
        """What waits at an address or pattern, in the slots led here, bit by bit (engine/state/depth.py)."""
        for engine in list(self.engines.values()):
            yield from engine.depths(match)

    def survey(self) -> Iterator[None]:
        """Prepares metrics(), a slice of the queues per step: 50,000 of them take a while."""
        return self.stats.survey(self.engines.values())

    def metrics(self) -> list[Metric]:
        metrics = self.stats.metrics(self.engines.values(), self.journal)
        return [*metrics, *self.pressure.metrics(), *self.steps.metrics(), *self._budget.metrics()]

    # ── a turn ─────────────────────────────────────────────────────────────────────────────────────

    def wake(self) -> None:
        """Has a turn run soon."""
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._run_turn)

    def begin_turn(self) -> Turn:
        now, steady = self._wall_ms(), self._steady
        return Turn(now, self._commits.open, self._gate.may, 0 if steady is None else steady.ahead, WORK)

    def _run_turn(self) -> None:
        self._scheduled = False
        self._in_turn = True
        try:
            if self.stopped:
                self._refuse_inbox()
                return
            turns = self._turns
            began = turns.now()
            if began > turns.mark.due:
                turns.mark.look(began)
            carried_out: list[Command] = []
            # Two ways in one body: a turn of its own, or a piece of one that is under way. As methods they, and the
            # `try`, cost a call a turn each, which is one a message where messages come one by one
            # (tests/unit/app/test_calls.py).
            if (under_way := self._large) is None:
                now, steady = self._wall_ms(), self._steady  # begin_turn(), in line
                turn = Turn(now, self._commits.open, self._gate.may, 0 if steady is None else steady.ahead, WORK)
                touched: Touched = {}
                blobs: list[Blob] = []
                # First what is due since earlier turns, then what is new: receipts are not delayed by what came later.
                if self._gate.busy:
                    self._gate.release(self._commits.done, turn, touched)
                if self.reads.waiting:
                    self.reads.hand_in(turn, touched)
                if self._steps.asked and (work := self._steps.go_on(self.engines, turn, touched)) is not None:
                    self.in_pieces(None, work, (turn, touched, blobs))
                if self._large is None and self._behind.busy and self._behind.go_on(turn, touched):
                    self.wake()
                if self._large is None and (self._inbox.new or self._deferred.waiting):
                    waiting, new = self._inbox.drain()
                    self.stats.turns += 1
                    self._commands.carry_out(waiting, new, turn, touched, blobs)
                    carried_out = waiting + new
            else:
                turn, touched, blobs = under_way.turn, under_way.touched, under_way.blobs
                # For the log line about slow turns.
                carried_out += under_way.commands
                self._go_on(under_way)
            if self._large is None and turn.moves and much_moves(turn.moves):
                self.in_pieces(None, moving(self, turn, touched), (turn, touched, blobs))
            # While a large COMMIT goes on the turn is not over: nothing is flushed, appended or told.
            if self._large is None:
                if self._deferred.done or self._deferred.told:
                    self._deferred.end(turn)
                if self._inbox.throttles and self._inbox.eases():
                    self.relieved()
                memory = self.memory
                # Two additions and a comparison a turn, as long as there is enough.
                if self.pressure.on or memory.queues + memory.sessions > memory.near:
                    self.pressure.look(turn, touched, not (self.journal.full or self._commits.congested))
                self.end_turn(turn, touched)
                if (self.wildcards.ended and self.wildcards.tidy()) or (
                    self._deferred.waiting and self._deferred.ready
                ):
                    self.wake()
                # Bodies whose message was refused, or went to no queue: no record names them. Behind the append, or it
                # could not tell.
                for blob in blobs:
                    self.journal.forget_blob(blob)
                if self._budget.graves and self._budget.forget():
                    self.wake()
            span = turns.now() - began
            if span <= QUICK_S:
                turns.quick += 1
                turns.total += span
            elif turns.took_long(began, span):
                turns.tell(self.blame.name(carried_out))
        except Exception as error:
            # Not BaseException: what ends a process on purpose passes through.
            # An engine that threw is of unknown state: tell nobody anything more, replay at restart.
            self.thrown(error)
        finally:
            self._in_turn = False

    def _go_on(self, under_way: LargeCommit) -> None:
        """A piece of it."""
        self.wake()
        try:
            if under_way.go_on():
                return
        except Exception:
            self._large = None
            for command in under_way.commands:
                tell_blamed(self.listener, command, [])
            raise
        self._large = None
        self._commits.keep_open(False)

    def in_pieces(self, command: Command | None, work: Iterator[None], of: TurnParts) -> None:
        """The rest of this turn is carried out piece by piece; nothing else happens before its end."""
        self._large = LargeCommit(self.journal, command, work, *of)
        self._commits.keep_open(True)
        self.wake()

    def end_turn(self, turn: Turn, touched: Touched) -> None:
        """Dispatch, journal, commit, tell: in this order."""
        flush, now = self._gate.flush, self._turns.now
        before = now()
        for engine in touched:
            flush(engine, turn)
            if (at := now()) - before > LONG_S:
                self.blame.saw(at - before, engine)
            before = at
        # Before the append: dead letters are in the same commit as the settles that made them.
        if turn.moves:
            carry_moves(self, turn, touched)
        if turn.appends:
            self._commits.append(turn.appends)
        # Behind the append, as only now it is known whether something waits for this commit.
        held = False
        for engine in touched:
            if engine.pending:
                held = self._gate.await_commit(touched, turn.number)
                break
        if self._gate.unfinished:
            self.wake()
        due = held or turn.appends or self._commits.wanted or self._idle is not None or any(self.journal.unfinished)
        # Sealed before anything is told, though not waited for: effects that need it are with the engines.
        if due and self._commits.commit(self._idle is not None, held):
            self._rest()
        # Behind the append: a page may be of what has just been written.
        for fetch in turn.fetches:
            self.reads.ask(fetch, self.settings.engine.page_bytes)
        for command in turn.decisions:
            self.in_turn(command.slot, decided(command))
        for notice in turn.notices:
            log.warning("%s", notice)
        if turn.effects and self.listener is not None:
            before = now()
            self.listener.on_effects(turn.effects)
            if (at := now()) - before > LONG_S:
                self.blame.saw(at - before, f"telling {len(turn.effects)} effects")
        for engine in touched:
            if engine.due:
                self._alarm.look((engine,))

    def _rest(self) -> None:
        """Nothing is under way to the disk."""
        more = self._inbox.new or self._deferred.waiting or self.reads.waiting or self._steps.asked
        if self._idle is not None and not (more or self._gate.unfinished):
            idle, self._idle = self._idle, None
            self._schedule(idle)

    # ── the disk ───────────────────────────────────────────────────────────────────────────────────

    def snapshot(self) -> Iterator[list[MetaRecord]]:
        """Small state of all slots, led here or followed, bit by bit."""
        return small_state(lambda slot: self.engines.get(slot) or self.others(slot))

    def committed(self) -> None:
        """A commit is on the disk."""
        more = self._commits.wanted or self.reads.waiting or self._steps.asked or self._behind.busy
        # Nothing has gathered meanwhile: what has waited is told, and that is all of a turn there is.
        if not more and self.rests and self.journal.idle:
            self._lone.release(self._commits.done)
        elif not self._scheduled:
            self._run_turn()

    def relieved(self) -> None:
        """The disk has caught up, or this owner with what was sent."""
        if self.listener is not None and not self.congested:
            self.listener.on_relief()

    def maintain(self) -> bool:
        """One bounded step of freeing and compaction; True: there is more to do."""
        if self.stopped or self._large is not None:
            return False
        began = self._maintenance.begin()
        more = self._commits.maintain()
        if self._maintenance.took(began):
            self._maintenance.tell("freeing and compaction of the journal")
        return more

    # ── time and failure ───────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        self._alarm.rang()
        if self.stopped:
            return
        if self._large is not None:
            self._schedule(self._tick)  # after it: its pieces are in turns of the loop, too
            return
        began = self._ticks.begin()
        turn = self.begin_turn()
        # A dict and no set, which would follow memory addresses: no history would repeat.
        due = dict.fromkeys([e for e in self.engines.values() if 0 < e.due <= turn.now])
        try:
            share = max(TICKED // max(len(due), 1), 1)  # none waits until another one's many queues are done
            for engine in due:
                engine.tick(turn, share)
            if much_moves(turn.moves):
                self.in_pieces(None, moving(self, turn, due), (turn, due, []))
            else:
                self.end_turn(turn, due)
        except Exception as error:
            self.thrown(error)
            return
        self._alarm.look(self.engines.values())
        if self._ticks.took(began):
            self._ticks.tell(self.blame.name([]))

    def fail(self, why: str) -> None:
        """What the journal or replication found cannot be lived with."""
        self._stop(why)

    def give_up(self, why: str) -> None:
        """Asked to end before it knew all that the journal has: nothing more is written, as that would replace it."""
        self.stopped = why
        self._commits.stop()

    def thrown(self, error: Exception) -> None:
        """Nobody expected that: what an engine knows is worth nothing any more."""
        log.critical("slot owner failed; restart replays the journal", exc_info=error)
        if not self.stopped:
            self.slot_at_fault, command = at_fault(error, self.every_engine())
            tell_blamed(self.listener, command, [])
        # Nothing is written any more. In a cluster the next leader goes on from the log; alone, a restart does.
        self._stop(f"internal error: {type(error.__cause__ if isinstance(error, Unwritable) else error).__name__}")

    def _stop(self, why: str) -> None:
        if self.stopped:
            return
        self.stopped = why
        log.critical("owner stopped: %s", why)
        self._commits.stop()
        self._refuse_inbox()
        if self.listener is not None:
            self.listener.on_stopped(why)
        if self._idle is not None:
            idle, self._idle = self._idle, None
            self._schedule(idle)

    def _refuse_inbox(self) -> None:
        """In a cluster the next leader is asked, and nobody notices."""
        under_way = self._large.commands if self._large is not None else []
        self._large = None
        inbox = self._inbox.empty(under_way)
        effects = failure_answers.unheard(inbox) if self._alone else []
        if effects and self.listener is not None:
            self.listener.on_effects(effects)
