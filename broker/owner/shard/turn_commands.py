"""The commands of a turn, carried out one after the other: who may go now, who waits, and who is refused before any
engine hears of it.

Rule: what one session sends stays in order (I7), whatever of it has to wait, and no turn is longer than its portion.
Must not know the journal's files, or who is told.
"""

# Example. A turn has a SEND that selectors are asked for, a SEND of another session, and a COMMIT of 5,000 parts:
#     SEND      its engine is wary: what it matches is looked for a millisecond long, then it waits (deferred.py)
#     SEND      goes: nothing of its session waits
#     COMMIT    is more than a step: it is begun, and nothing else happens before its end (Shard.in_pieces); what
#               stands behind it is put back, in front of what comes meanwhile

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Protocol

from broker.core.commands import EVERYWHERE, Command, Decide, Disconnect, Prepare, Publish, Settle, Subscribe, Transact
from broker.core.effects import Refused, Turn
from broker.core.errors import Code
from broker.core.message import Blob
from broker.engine.engine import Engine

from ..commit.full_disk import refuse_full
from ..commit.release_gate import Touched
from ..inbox.inbox import Inbox
from ..inbox.portions import WORK, beside, beside_by_slot
from ..transactions.large_commits import TurnParts
from ..transactions.transact import Engines, published, transacting, wary
from .all_slots import Slots, carry_out
from .effect_listeners import Listener, tell_blamed
from .memory_pressure import Pressure
from .slow_turns import LONG_S, Blame


class CommandHost(Slots, Engines, Protocol):
    """The shard."""

    @property
    def engines(self) -> Mapping[int, Engine]: ...
    @property
    def listener(self) -> Listener | None: ...
    def in_pieces(self, command: Command | None, work: Iterator[None], of: TurnParts) -> None:
        """The rest of this turn is carried out piece by piece."""
        ...


class TurnCommands:
    """Of one shard."""

    __slots__ = ("_alone", "_blame", "_inbox", "_now", "_pressure", "_shard")

    def __init__(
        self, shard: CommandHost, inbox: Inbox, pressure: Pressure, alone: bool, now: Callable[[], float], blame: Blame
    ) -> None:
        """alone: every slot is led here."""
        self._shard = shard
        self._inbox = inbox
        self._pressure = pressure
        self._alone = alone
        self._now = now
        self._blame = blame

    def carry_out(
        self, waiting: list[Command] | None, inbox: list[Command], turn: Turn, touched: Touched, blobs: list[Blob]
    ) -> None:
        shard, pressure, put_back = self._shard, self._pressure, self._inbox.put_back
        full, memory_full = shard.journal.full, pressure.full
        engines, deferred = shard.engines, self._inbox.deferred
        command: Any = None
        now, at = self._now, 0.0
        before, most = now(), turn.work + WORK
        try:
            commands = chain(deferred.some(waiting), inbox) if waiting else iter(inbox)
            for command in commands:
                # Order within a session (I7).
                if deferred.waiting and deferred.delays(command):
                    continue
                engine = engines.get(command.slot)
                if engine is None:
                    # The slot has moved; the edge has been told so, or will be.
                    if not self._alone:
                        self._inbox.gone(command)
                        continue
                    if command.slot == EVERYWHERE:
                        if parts := carry_out(shard, command, turn):
                            # What it means for single slots comes next, before everything that came later.
                            return put_back(commands, parts)
                        continue
                    engine = shard.engine(command.slot)
                kind = type(command)
                if kind is Publish:
                    if engine.wary and not deferred.goes((engine,), command, (command,), turn):
                        continue
                    if command.run.blob is not None:
                        blobs.append(command.run.blob)
                    if full and refuse_full(engine, command, turn):
                        continue
                    if memory_full and pressure.meets(engine, command, turn):
                        continue
                elif kind is Transact:
                    here = wary(shard, command, self._alone)
                    if here and not deferred.goes(here, command, published(command), turn):
                        continue
                    if not (memory_full and pressure.meets_parts(engine, command, turn)):
                        if begun := next(work := transacting(shard, command, turn, touched), self) is None:
                            shard.in_pieces(command, work, (turn, touched, blobs))
                        if begun or turn.work > most:
                            return put_back(commands)
                    if (at := now()) - before > LONG_S:
                        self._blame.saw(at - before, command)
                    # One look at the clock a command: it says which one was slow.
                    before = at
                    continue
                elif kind is Subscribe:
                    self._inbox.gone(command)
                elif (full or memory_full) and kind is Prepare and self._lacks_room(engine, command, turn):
                    continue
                touched[engine] = None
                if (kind is Prepare or kind is Decide) and engine.much(command):
                    shard.in_pieces(command, engine.in_pieces(command, turn), (turn, touched, blobs))
                    return put_back(commands)
                engine.handle(command, turn)
                # Begins and ends of consumers: nobody could know beforehand how many a command has (a session with
                # 10,000 of them).
                if turn.work > most:
                    rest = chain([command] if kind is Disconnect and engine.attached(command.session) else [], commands)
                    if waiting is None:  # they go on beside others already
                        return put_back(rest)
                    break
                if (at := now()) - before > LONG_S:
                    self._blame.saw(at - before, command)
                before = at
            else:
                return
        except Exception:
            tell_blamed(shard.listener, command, [*(waiting or ()), *inbox])
            raise
        # Behind the `except`: what throws there is not of this command.
        self._go_on_beside(chain(rest, self._inbox.beside()), command, (turn, touched, blobs))

    def _lacks_room(self, engine: Engine, command: Prepare, turn: Turn) -> bool:
        """Disk or memory is full, and it would bring messages: it is refused."""
        if self._shard.journal.full and any(type(part) is Publish for part in command.parts):
            turn.effects.append(Refused(command.session, command.seq, Code.DISK_FULL))
            return True
        return self._pressure.full and self._pressure.meets_parts(engine, command, turn)

    def _go_on_beside(self, rest: Iterator[Command], last: Command, of: TurnParts) -> None:
        """Enough consumers or queues have come or gone: of the rest, and of what waits, what needs no order with
        them."""
        self._inbox.deferred.puts_back()
        if self._alone:
            goes, waits = beside(rest, last.session if isinstance(last, Publish | Settle) else None)
        else:
            goes, waits = beside_by_slot(rest, getattr(last, "session", 0))
        self._inbox.put_back(waits)
        if goes:
            self.carry_out(None, goes, *of)
