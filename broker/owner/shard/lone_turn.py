"""A turn of one message, at once: where nothing waits there is nothing to gather, and no other turn to be fair to.

The steps are those of every turn (the same engine, the same dispatch, the same effects); left out is what a turn does
for what waits or is to be written: gate, the journal, its commit. Where the message turns out to leave any of that to
do, the shard ends the turn as it ends all others.

Rule: whether a command can be served so is decided before anything has happened. Must not know what a message means.
"""

# Example. 200 clients send a message each, now and then, to queues of consumers that wait. Gathered in the shard's
# inbox, each would have a turn of the loop for itself all the same: it comes back from there alone. Here the message is
# numbered, routed, handed out and written while its read is under way.
#     not so    something waits in the inbox or for its session (order); a turn is under way, as what an owner tells may
#               make somebody send; the disk is behind, memory is short (somebody has to rest); selectors have to be
#               asked or many queues get it (that takes long: it has a turn, in pieces)
#     a commit  has come to the disk, and nothing has gathered meanwhile: what waited for it is told the same way
#     durable   never: who writes at once writes alone, and whoever comes a moment later waits for two commits

from __future__ import annotations

from typing import Protocol

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget
from broker.seams.loop_watchdog import StepKindStats

from ..commit.release_gate import ReleaseGate, Touched
from .effect_listeners import Listener, tell_blamed
from .slot_alarm import SlotAlarm
from .slow_turns import Blame


class TurnTaker(Protocol):
    """The shard."""

    @property
    def engines(self) -> dict[int, Engine]: ...
    @property
    def listener(self) -> Listener | None: ...
    @property
    def rests(self) -> bool:
        """Nothing waits, is under way, or has to be looked at."""
        ...

    def begin_turn(self) -> Turn: ...
    def end_turn(self, turn: Turn, touched: Touched) -> None:
        """Dispatch, journal, commit, tell."""
        ...

    def wake(self) -> None: ...
    def thrown(self, error: Exception) -> None: ...


class LoneTurns:
    """busy   one is under way."""

    __slots__ = ("_alarm", "_blame", "_budget", "_gate", "_shard", "_turns", "busy")

    def __init__(
        self, shard: TurnTaker, turns: StepKindStats, gate: ReleaseGate, alarm: SlotAlarm, blame: Blame, budget: Budget
    ) -> None:
        self._shard = shard
        self._turns = turns
        self._gate = gate
        self._alarm = alarm
        self._blame = blame
        self._budget = budget
        self.busy = False

    def carry_out(self, command: Publish) -> bool:
        """Carries it out and tells what comes of it. False: nothing of it has happened."""
        shard = self._shard
        engine = shard.engines.get(command.slot)
        if engine is None or self.busy or not shard.rests or engine.wary or command.run.blob is not None:
            return False
        # Everybody else waits as long as this takes, and the read that has brought it has taken its time as well.
        if command.routing is not Routing.ANYCAST and engine.wide(command):
            return False
        turns = self._turns
        began = turns.now()
        if began > turns.mark.due:
            turns.mark.look(began)
        self.busy = True
        gate, turn = self._gate, shard.begin_turn()
        # In one method with what each turn does around its work: as two, a message would pay for the step between them.
        try:
            try:
                engine.handle(command, turn)
            except Exception:
                tell_blamed(shard.listener, command, [command])
                raise
            pending = engine.pending
            # Something of it waits for this turn's commit.
            held = bool(pending) and pending[-1].number == turn.number
            if not held:
                gate.flush(engine, turn)
            if held or gate.unfinished or turn.appends or turn.moves or turn.fetches or turn.notices or turn.decisions:
                shard.end_turn(turn, {engine: None})
            elif shard.listener is not None:
                if turn.effects:
                    shard.listener.on_effects(turn.effects)
                if engine.due:
                    self._alarm.look((engine,))
            if self._budget.graves:
                shard.wake()
        except Exception as error:
            shard.thrown(error)
        finally:
            self.busy = False
        if turns.took(began):
            turns.tell(self._blame.name([command]))
        return True

    def release(self, committed: int) -> None:
        """That commit is on the disk, and nothing else waits: tells what has waited for it."""
        shard, gate, turns = self._shard, self._gate, self._turns
        began = turns.now()
        self.busy = True
        try:
            turn, touched = shard.begin_turn(), Touched()
            gate.release(committed, turn, touched)
            for engine in touched:
                gate.flush(engine, turn)
            if gate.unfinished or turn.appends or turn.moves or turn.fetches or turn.notices or turn.decisions:
                shard.end_turn(turn, touched)
            elif shard.listener is not None:
                if turn.effects:
                    shard.listener.on_effects(turn.effects)
                for engine in touched:
                    if engine.due:
                        self._alarm.look((engine,))
        except Exception as error:
            shard.thrown(error)
        finally:
            self.busy = False
        if self._budget.graves:
            shard.wake()
        if turns.took(began):
            turns.tell(self._blame.name([]))
