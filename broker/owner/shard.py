"""The owner of slots in this process: takes commands, steps engines, journals, and only then tells.

Rule: one turn = take the whole inbox, step everything, append everything, seal once, tell once. One commit
is under way at a time; whatever gathers meanwhile is the next one (group commit without timers).
Must not know sockets or STOMP: effects go to one listener. Nor followers: `Replicas` says what counts as durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from broker.config.settings import EngineSettings, Settings
from broker.core.commands import Command, Prepare, Publish, Transact
from broker.core.effects import Effect, Fetch, Refused, Turn
from broker.core.errors import Code, JournalError, JournalFull, RefusedError
from broker.core.message import DURABLE, Blob, Run
from broker.core.metrics import Metric
from broker.core.records import LogRecord, MetaRecord
from broker.engine.declarations import places
from broker.engine.engine import Engine
from broker.engine.slot import Budget
from broker.journal.journal import Batch, Journal
from broker.seams.clock import Clock

from . import refusing
from .io_thread import Io
from .replicas import Alone, Replicas
from .stats import ShardStats
from .transact import Crossing, move, transact

log = logging.getLogger("stampede.owner")

LAZY_S = 0.005
LAZY_BYTES = 64 * 1024
"""So long, and so much, may be kept back that nobody waits for."""
FULL_RETRY_S = 0.5
"""How soon a commit that found no space is tried again."""

Touched = dict[Engine, None]
"""Engines in the order they were touched: a set would follow memory addresses, and no history would repeat."""


class Listener(Protocol):
    """Who hears of what the shard did."""

    def on_effects(self, effects: list[Effect]) -> None: ...
    def on_relief(self) -> None:
        """The disk has caught up: paused producers may go on."""
        ...

    def on_stopped(self, why: str) -> None:
        """The shard has failed and takes nothing more."""
        ...


class Shard:
    """All slots of this process, one writer.

    schedule(callback)     run the callback soon in this thread (the loop's call_soon).
    alarm(at_ms, callback) run it at that wall time; a later call replaces an earlier one.
    later(seconds, callback)   run it after that time.
    replicas   None: alone, every slot is led here and made when first needed. Else only those that were `adopt`ed;
               commands for others are dropped (whoever sent them has been told that the slot moved).
    others     small state of slots that are only followed here, for the head of a new segment.
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
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.stats = ShardStats()
        self.stopped = ""
        self.congested = False
        self.engines: dict[int, Engine] = {}
        self._budget = Budget(settings.engine.max_queues)
        self._clock = clock
        self._commit_io = commit_io
        self._read_io = read_io
        self._prepare_io = prepare_io
        self._preparing = False
        self._schedule = schedule
        self._alarm = alarm
        self._later = later
        self._alarm_at = 0
        self._listener: Listener | None = None
        self._inbox: list[Command] = []
        self._fetched: list[tuple[Engine, Fetch, list[Run]]] = []
        self._steps: list[tuple[int, Callable[[Engine, Turn], None]]] = []
        self._paused: set[int] = set()
        self._watchers: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = False
        self._open = 1
        """Number of the commit that gathers now."""
        self._committing = False
        self._lazy = False
        self._committed = 0
        self._waiting: dict[int, Touched] = {}
        """Commit number → engines that may have something to release."""
        self._stalled: Touched = {}
        """Engines that may not dispatch now."""
        self._after: dict[int, list[Callable[[], None]]] = {}
        """Commit number → who wants to know when it is on the disk."""
        self._alone = replicas is None
        self._replicas: Replicas = replicas or Alone()
        self.others: Callable[[], Iterable[MetaRecord]] = tuple
        self.crossing: Crossing | None = None
        self._max_inflight = settings.journal.max_inflight_bytes
        self._idle: Callable[[], None] | None = None

    # ── the outside ────────────────────────────────────────────────────────────────────────────────

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def submit(self, commands: list[Command]) -> bool:
        """Takes commands in order; their turn comes once per iteration of the loop. True: the disk is behind, pause
        producers until on_relief."""
        self._inbox += commands
        self._wake()
        return self.congested

    def recover(self) -> None:
        """Gives every engine what the journal brought back. Call once, before the first submit."""
        recovered = self.journal.recovered
        turn = self._turn()
        for meta in recovered.metas:
            self.engine(meta.slot).restore_meta(meta)
        for record, settled in recovered.runs():
            self.engine(record.slot).restore_run(record, settled)
        self._declared()
        for engine in list(self.engines.values()):
            engine.restore_end(recovered.clean, turn)
        self._finish(turn, dict.fromkeys(self.engines.values()))

    def engine(self, slot: int) -> Engine:
        """The engine of a slot that is led here, made when first needed."""
        engine = self.engines.get(slot)
        if engine is None:
            assert self._alone, f"slot {slot} is not led here"
            engine = self.engines[slot] = self.new_engine(slot)
        return engine

    def new_engine(self, slot: int, first_id: int = 0) -> Engine:
        """An empty engine with the settings and the budget of all."""
        return Engine(slot, self.settings.engine, self._budget, first_id)

    # ── slots that come and go ─────────────────────────────────────────────────────────────────────

    def adopt(self, engine: Engine, begin: Callable[[Turn], None]) -> None:
        """This process leads the slot from now on. `begin` fills the first turn (restore_end)."""

        def first(led: Engine, turn: Turn) -> None:
            led.configure(self.settings.engine)  # it was made when the slot began to be followed
            begin(turn)

        self.engines[engine.number] = engine
        self.in_turn(engine.number, first)

    def drop(self, slot: int) -> Engine | None:
        """This process does not lead the slot any more: nothing of it is told, dispatched or released from now on."""
        engine = self.engines.pop(slot, None)
        self._paused.discard(slot)
        if engine is not None:
            self._stalled.pop(engine, None)
            for touched in self._waiting.values():
                touched.pop(engine, None)
        self._watchers = [watcher for watcher in self._watchers if watcher[0] != slot]
        return engine

    def pause(self, slot: int) -> None:
        """Hands out nothing more of the slot (it is being handed over)."""
        self._paused.add(slot)

    def unpause(self, slot: int) -> None:
        self._paused.discard(slot)
        self.in_turn(slot, _flushed)

    def in_turn(self, slot: int, step: Callable[[Engine, Turn], None]) -> None:
        """Has a turn of its own run soon in which `step(engine, turn)` acts on the slot, if it is still led here."""
        self._steps.append((slot, step))
        self._wake()

    def durable(self, callback: Callable[[], None]) -> None:
        """Calls back when everything appended to the journal so far is on the local disk."""
        self._after.setdefault(self._open, []).append(callback)
        self._wake()

    def when_ready(self, slot: int, callback: Callable[[], None]) -> None:
        """Calls back in a turn when everything appended so far of this slot counts: here, and on all in-sync followers.
        Never, if the slot is dropped before."""
        self._watchers.append((slot, self._open, callback))
        self._after.setdefault(self._open, [])
        self._wake()

    def on_progress(self) -> None:
        """Followers have more of it, or let us dispatch again."""
        if self._waiting or self._stalled or self._watchers:
            self._wake()
        self._check_pressure()

    def configure(self, settings: EngineSettings) -> None:
        """Other settings of addresses, from now on."""
        self.settings = replace(self.settings, engine=settings)
        for engine in self.engines.values():
            engine.configure(settings)
        self._declared()
        for slot in self.engines:
            self.in_turn(slot, Engine.declare)
        self._set_alarm(dict.fromkeys(self.engines.values()))

    def _declared(self) -> None:
        """Slots in which the settings name something exist from the start."""
        if self._alone:
            for slot in places(self.settings.engine):
                self.engine(slot)

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Calls back once nothing is under way (shutdown); at once when the owner has stopped."""
        if self.stopped:
            self._schedule(callback)
            return
        self._idle = callback
        self._wake()

    def depths(self, match: str) -> list[dict[str, Any]]:
        """What waits at an address or pattern, in the slots led here."""
        return [entry for engine in self.engines.values() for entry in engine.depths(match)]

    def survey(self) -> Iterator[None]:
        """Prepares metrics(), a slice of the queues per step: 50,000 of them take a while."""
        return self.stats.survey(self.engines.values())

    def metrics(self) -> list[Metric]:
        return self.stats.metrics(self.engines.values(), self.journal)

    # ── a turn ─────────────────────────────────────────────────────────────────────────────────────

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._run_turn)

    def _turn(self) -> Turn:
        return Turn(self._clock.wall_ms(), self._open)

    def _run_turn(self) -> None:
        self._scheduled = False
        try:
            self._step()
        except Exception as error:
            # An engine that threw is of unknown state: tell nobody anything more, replay at restart.
            log.critical("slot owner failed; restart replays the journal", exc_info=error)
            self._stop(f"internal error: {type(error).__name__}")

    def _step(self) -> None:
        if self.stopped:
            self._refuse_inbox()
            return
        turn = self._turn()
        touched: Touched = {}
        blobs: list[Blob] = []
        self._release(turn, touched)
        if self._fetched:
            fetched, self._fetched = self._fetched, []
            for reader, fetch, runs in fetched:
                if self.engines.get(fetch.slot) is reader:
                    reader.fetched(fetch.queue, runs, turn)
                    touched[reader] = None
        if self._steps:
            steps, self._steps = self._steps, []
            for slot, step in steps:
                if (led := self.engines.get(slot)) is not None:
                    step(led, turn)
                    touched[led] = None
        if self._inbox:
            inbox, self._inbox = self._inbox, []
            self.stats.turns += 1
            self._carry_out(inbox, turn, touched, blobs)
        self._finish(turn, touched)
        for blob in blobs:
            self.journal.forget_blob(blob)

    def _carry_out(self, inbox: list[Command], turn: Turn, touched: Touched, blobs: list[Blob]) -> None:
        full = self.journal.full
        engines = self.engines
        command: Any = None
        try:
            for command in inbox:
                engine = engines.get(command.slot)
                if engine is None:
                    if not self._alone:
                        continue
                    engine = self.engine(command.slot)
                kind = type(command)
                if kind is Publish:
                    if command.run.blob is not None:
                        blobs.append(command.run.blob)
                    if full and self._refuse_full(command, turn):
                        continue
                elif kind is Transact:
                    transact(self, command, turn, touched)
                    continue
                elif full and kind is Prepare and any(type(part) is Publish for part in command.parts):
                    turn.effects.append(Refused(command.session, command.seq, Code.DISK_FULL))
                    continue
                engine.handle(command, turn)
                touched[engine] = None
        except Exception:
            blamed = refusing.blamed(command, inbox)
            if blamed is not None and self._listener is not None:
                self._listener.on_effects([blamed])
            raise

    def _release(self, turn: Turn, touched: Touched) -> None:
        ready = self._replicas.ready
        for number in [n for n in self._waiting if n <= self._committed]:
            later: Touched = {}
            for engine in self._waiting.pop(number):
                reached = ready(engine.number)
                if reached < number:
                    later[engine] = None
                    continue
                engine.release(reached, turn)
                touched[engine] = None
            if later:
                self._waiting[number] = later
        if self._stalled:
            stalled, self._stalled = self._stalled, {}
            touched.update(stalled)
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            for slot, number, callback in watchers:
                if ready(slot) >= number:
                    callback()
                else:
                    self._watchers.append((slot, number, callback))

    def _finish(self, turn: Turn, touched: Touched) -> None:
        """Dispatch, journal, commit, tell: in this order."""
        for engine in touched:
            self.flush(engine, turn)
        while turn.moves:
            moves, turn.moves = turn.moves, []
            for item in moves:
                move(self, item, turn, touched)
        if turn.appends:
            self._append(turn.appends)
        for engine in touched:
            if engine.holding == turn.number:  # what it held before waits under its own number
                self._waiting.setdefault(self._open, {})[engine] = None
        self._commit()
        for fetch in turn.fetches:
            self._fetch(fetch)
        for notice in turn.notices:
            log.warning("%s", notice)
        if turn.effects and self._listener is not None:
            self._listener.on_effects(turn.effects)
        self._set_alarm(touched)

    def flush(self, engine: Engine, turn: Turn) -> None:
        """Dispatches what the turn has touched, now or as soon as the slot may."""
        number = engine.number
        if number in self._paused:
            return
        if self._replicas.may_dispatch(number):
            engine.flush(turn)
        else:
            self._stalled[engine] = None

    def _append(self, records: list[LogRecord]) -> None:
        append = self.journal.append
        for record in records:
            append(record)
            if self.journal.wants_snapshot:
                self._snapshot()

    def _snapshot(self) -> None:
        engines = self.engines.values()
        self.journal.append_snapshot([*(m for engine in engines for m in engine.snapshot()), *self.others()])

    def _refuse_full(self, command: Any, turn: Turn) -> bool:
        """Disk nearly full: whatever would be written is refused, so that settling can go on from the reserve. That
        also is what is not durable, but large or too much for the memory of its queue."""
        run = command.run
        if not (run.flags & DURABLE or run.blob is not None or self.engine(command.slot).crowded(command)):
            return False
        refused = RefusedError(Code.DISK_FULL, "retry when consumers have freed space")
        self.engine(command.slot).refuse(command, refused, turn)
        return True

    # ── the disk ───────────────────────────────────────────────────────────────────────────────────

    def _commit(self, now: bool = False) -> None:
        if self._committing:
            self._check_pressure()
            return
        if self.journal.wants_snapshot:  # a follower's items have begun a segment
            self._snapshot()
        if not now and self._nobody_waits():
            if not self._lazy:
                self._lazy = True
                self._later(LAZY_S, self._commit_lazily)
            return
        batch = self.journal.seal()
        if batch is None:
            if self._open in self._waiting or self._open in self._after:
                # Held behind an earlier commit, nothing of their own to write: durable already.
                self._committed = self._open
                self._open += 1
                self._replicas.sealed(self._committed, [])
                self._replicas.committed(self._committed)
                self._tell_durable()
                self._wake()
            if self._idle is not None and not (self._inbox or self._fetched or self._steps):
                idle, self._idle = self._idle, None
                self._schedule(idle)
            return
        number = self._open
        self._open += 1
        self._committing = True
        self._write(batch, number)
        self._replicas.sealed(number, batch.items)
        self._check_pressure()

    def _nobody_waits(self) -> bool:
        """Something is to be written that nobody wants to hear of, as after deliveries in ack mode auto: it may go
        with what comes next, and cost no commit (nor any message to followers) of its own."""
        number = self._open
        return (
            0 < self.journal.inflight_bytes < LAZY_BYTES
            and number not in self._waiting
            and number not in self._after
            and self._idle is None
        )

    def _commit_lazily(self) -> None:
        self._lazy = False
        if not self.stopped:
            self._commit(now=True)

    def _write(self, batch: Batch, number: int) -> None:
        self._commit_io.submit(partial(self.journal.write, batch), partial(self._on_committed, batch, number))

    def _on_committed(self, batch: Batch, number: int, _: Any, error: BaseException | None) -> None:
        if isinstance(error, JournalFull):
            # Nothing of the batch counts as written and the same call may be made again: sends are refused
            # meanwhile, and what waits for this batch waits until somebody has made room.
            if not self.stats.full_waits % 60:
                log.error("%s; free space on the disk of %s", error, self.settings.data)
            self.stats.full_waits += 1
            self._later(FULL_RETRY_S, partial(self._write, batch, number))
            return
        self._committing = False
        if error is not None:
            self._stop(f"journal: {error}")
            return
        self.journal.committed(batch)
        self.stats.commits += 1
        self._committed = number
        self._replicas.committed(number)
        self._tell_durable()
        self._check_pressure()
        self._prepare()
        if not self._scheduled:
            self._run_turn()

    def _tell_durable(self) -> None:
        for number in [n for n in self._after if n <= self._committed]:
            for callback in self._after.pop(number):
                callback()

    def _check_pressure(self) -> None:
        inflight = max(self.journal.inflight_bytes, self._replicas.backlog)
        if inflight > self._max_inflight:
            if not self.congested:
                self.stats.pauses += 1
            self.congested = True
        elif self.congested and inflight < self._max_inflight // 2:
            self.congested = False
            if self._listener is not None:
                self._listener.on_relief()

    def _prepare(self) -> None:
        """Has the segments to come zero-filled ahead of need."""
        if self._preparing or not self.journal.wants_prepare:
            return

        def prepared(_: Any, error: BaseException | None) -> None:
            self._preparing = False
            if error is not None:
                self._stop(f"journal: {error}")

        self._preparing = True
        self._prepare_io.submit(self.journal.prepare, prepared)

    def _fetch(self, fetch: Fetch) -> None:
        budget = self.settings.engine.page_bytes
        answer = partial(self._on_fetched, self.engines[fetch.slot], fetch)
        self._read_io.submit(partial(self.journal.read, fetch.positions, budget), answer)

    def _on_fetched(self, reader: Engine, fetch: Fetch, runs: list[Run] | None, error: BaseException | None) -> None:
        if self.engines.get(fetch.slot) is not reader:
            return  # dropped meanwhile: its log may be void by now, and the slot's next engine has asked for nothing
        if error is not None or runs is None:
            self._stop(f"journal cannot be read back: {error}")
            return
        self._fetched.append((reader, fetch, runs))
        self._wake()

    def maintain(self) -> bool:
        """One bounded step of freeing and compaction; True: there is more to do."""
        if self.stopped:
            return False
        try:
            more = self.journal.maintain()
        except JournalError as error:
            self._stop(f"journal: {error}")
            return False
        self._prepare()
        if self.journal.wants_snapshot:
            self._snapshot()
        self._commit(now=True)
        return more

    # ── time and failure ───────────────────────────────────────────────────────────────────────────

    def _set_alarm(self, touched: Touched) -> None:
        due = min((d for engine in touched if (d := engine.next_due())), default=0)
        if due and (not self._alarm_at or due < self._alarm_at):
            self._alarm_at = due
            self._alarm(due, self._tick)

    def _tick(self) -> None:
        self._alarm_at = 0
        if self.stopped:
            return
        turn = self._turn()
        due = dict.fromkeys([e for e in self.engines.values() if 0 < e.next_due() <= turn.now])
        try:
            for engine in due:
                engine.tick(turn)
            self._finish(turn, due)
        except Exception as error:
            log.critical("slot owner failed; restart replays the journal", exc_info=error)
            self._stop(f"internal error: {type(error).__name__}")
            return
        self._set_alarm(dict.fromkeys(self.engines.values()))

    def fail(self, why: str) -> None:
        """What replication found cannot be lived with."""
        self._stop(why)

    def _stop(self, why: str) -> None:
        if self.stopped:
            return
        self.stopped = why
        log.critical("owner stopped: %s", why)
        self._refuse_inbox()
        if self._listener is not None:
            self._listener.on_stopped(why)
        if self._idle is not None:
            idle, self._idle = self._idle, None
            self._schedule(idle)

    def _refuse_inbox(self) -> None:
        """In a cluster the next leader is asked, and nobody notices."""
        inbox, self._inbox = self._inbox, []
        effects = refusing.unheard(inbox) if self._alone else []
        if effects and self._listener is not None:
            self._listener.on_effects(effects)


def _flushed(_: Engine, __: Turn) -> None:
    """The turn's flush is what is wanted."""
