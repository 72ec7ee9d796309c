"""What has to wait in one owner: engines for commits that count, dispatch for leave to hand out.

Rule: told is what is durable here and on everybody who must have it; handed out only while every in-sync follower
promises that nobody else leads the slot, and while the slot is not paused. Both are asked of `Replicas`. Must not know
the journal, commands, or why somebody waits.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.effects import Turn
from broker.engine.engine import Engine

from .replication_port import Replicas

Touched = dict[Engine, None]
"""Engines in the order they were touched: a set would follow memory addresses, and no history would repeat."""


class Gates:
    """Numbers are those of commits. busy: release() has something to look at."""

    __slots__ = ("_paused", "_replicas", "_stalled", "_waiting", "_watchers", "busy", "unfinished")

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
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

    def hold(self, touched: Touched, number: int) -> bool:
        """These engines have had a turn whose records go with the commit `number`. True: some wait for it."""
        held = False
        for engine in touched:
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
        for number in [n for n in self._waiting if n <= committed]:
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
        if self.unfinished:
            unfinished, self.unfinished = self.unfinished, {}
            touched.update(unfinished)
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
        self.busy = self.shut or bool(self.unfinished)

    def flush(self, engine: Engine, turn: Turn) -> None:
        """Dispatches what the turn has touched, now or as soon as the slot may."""
        number = engine.number
        if number in self._paused:
            return
        if self._replicas.may_dispatch(number):
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
