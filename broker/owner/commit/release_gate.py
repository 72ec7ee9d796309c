"""What has to wait in one owner: engines for commits that count, dispatch for leave to hand out.

Rule: told is what is durable here and on everybody who must have it; handed out only while every in-sync follower
promises that nobody else leads the slot, and while the slot is not paused. Both are asked of `Replicas`. Must not know
the journal, commands, or why an engine waits.
"""

# Example. A durable SEND comes in a turn while commit 9 is open; B is an in-sync follower.
#     turn       the engine takes the message: logged, kept apart (gate of the queue), its receipt pending under
#                number 9
#     hold       9 → this engine
#     disk       commit 9 is here. release(9): ready(slot) is 8, for B has not acknowledged: it stays
#     B          acknowledges: on_progress wakes a turn. release(9): ready is 9, the engine lets out receipt and
#                message
#     flush      the message may be delivered if may_dispatch: B's promise runs. Else the engine is `stalled`, and
#                looked at again in every turn until it may
# Receipts need the first condition only, deliveries both: a receipt that a leader gives without a promise is still
# true (all who could be elected have the message), a delivery could be the second one (I8).

from __future__ import annotations

from collections.abc import Callable

from broker.core.effects import Turn
from broker.engine.engine import Engine

from .replication_port import Replicas

Touched = dict[Engine, None]
"""Engines in the order they were touched: a set would follow memory addresses, and no history would repeat."""


class ReleaseGate:
    """Numbers are those of commits. busy: release() has something to look at."""

    __slots__ = ("_alone", "_paused", "_replicas", "_stalled", "_waiting", "_watchers", "busy", "unfinished")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._alone = replicas.alone
        self._waiting: dict[int, Touched] = {}
        """Commit number → engines that may have something to release."""
        self._stalled: Touched = {}
        """Engines that may not dispatch now."""
        self.unfinished: Touched = {}
        """Engines that have more to hand out than one turn may."""
        self._paused: set[int] = set()
        self._watchers: list[tuple[int, int, Callable[[], None]]] = []
        self.busy = False

    @property
    def shut(self) -> bool:
        """Somebody waits."""
        return bool(self._waiting or self._stalled or self._watchers)

    def await_commit(self, touched: Touched, number: int) -> bool:
        """These engines have had a turn whose records go with the commit `number`. True: some wait for it."""
        held = False
        for engine in touched:
            # Only those of which something waits for this very commit; what is older has an earlier entry.
            pending = engine.pending
            if pending and pending[-1].number == number:  # what it held before waits under its own number
                self._waiting.setdefault(number, {})[engine] = None
                self.busy = held = True
        return held

    def watch(self, slot: int, number: int, callback: Callable[[], None]) -> None:
        """Calls back in a turn when everything of the slot up to this commit counts."""
        self._watchers.append((slot, number, callback))
        self.busy = True

    def release(self, committed: int, turn: Turn, touched: Touched) -> None:
        """Lets out what may be told by now: `committed` is on the local disk."""
        ready = self._replicas.ready
        # As many entries as commits are waited for: a few, unless a follower hangs.
        reached_by = self._waiting
        for number in list(reached_by) if len(reached_by) == 1 else [n for n in reached_by if n <= committed]:
            if number > committed:
                break
            later: Touched = {}
            for engine in self._waiting.pop(number):
                # Per slot: one slow follower of one slot holds nobody else.
                reached = committed if self._alone else ready(engine.number)
                if reached < number:
                    later[engine] = None
                    continue
                engine.release(reached, turn)
                touched[engine] = None
            if later:
                self._waiting[number] = later
        if self.unfinished:
            unfinished, self.unfinished = self.unfinished, {}
            touched.update(unfinished)
        # Into the turn's list, where flush() asks again whether it may.
        if self._stalled:
            stalled, self._stalled = self._stalled, {}
            touched.update(stalled)
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            for slot, number, callback in watchers:
                # Called within the turn, so what it does is part of this turn's records.
                if ready(slot) >= number:
                    callback()
                else:
                    self._watchers.append((slot, number, callback))
        self.busy = bool(self._waiting or self._stalled or self._watchers or self.unfinished)

    def flush(self, engine: Engine, turn: Turn) -> None:
        """Dispatches what the turn has touched, now or as soon as the slot may."""
        number = engine.number
        if number in self._paused:
            return
        if self._alone or self._replicas.may_dispatch(number):
            # More to hand out than one turn may: it goes on in the next one, after everybody else had theirs.
            if engine.flush(turn):
                self.unfinished[engine] = None
                self.busy = True
        else:
            self._stalled[engine] = None
            self.busy = True

    def may(self, slot: int) -> bool:
        """May the slot hand out now."""
        return slot not in self._paused and self._replicas.may_dispatch(slot)

    def pause(self, slot: int) -> None:
        """Hands out nothing more of it."""
        self._paused.add(slot)

    def unpause(self, slot: int) -> None:
        self._paused.discard(slot)

    def drop(self, slot: int, engine: Engine | None) -> None:
        """Forgets the slot, and the engine that led it here."""
        self._paused.discard(slot)
        if engine is not None:
            self._stalled.pop(engine, None)
            self.unfinished.pop(engine, None)
            for touched in self._waiting.values():
                touched.pop(engine, None)
        self._watchers = [watcher for watcher in self._watchers if watcher[0] != slot]
