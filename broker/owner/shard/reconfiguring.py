"""Other settings for what is led here: slot by slot, some queues a turn.

Rule: the latest settings count; a slot that is led anew has them already. Must not know what they say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.config.settings import EngineSettings
from broker.core.effects import Turn
from broker.engine.address.declarations import Named, keep
from broker.engine.engine import Engine
from broker.engine.routing.declare import Reshaping

from .asked_steps import Step

PIECE: Final = 300
"""Queues and addresses looked at in one turn: a millisecond, with what they have to hand out somewhat more."""
_SLOT: Final = 20
"""What a slot counts beside: it may have to be made."""


def beginning(settings: Callable[[], EngineSettings], begin: Callable[[Turn], Iterator[None]]) -> Step:
    """The first step of a slot that is led from now on: it was made when it began to be followed, maybe days ago."""

    def first(led: Engine, turn: Turn) -> Iterator[None]:
        yield from led.configuring(settings(), PIECE)
        yield from begin(turn)

    return first


class Reconfiguring:
    """engine       the one of a slot that is led here, None: it is not (any more).
    configured   called when the new settings have been read, before the first slot has them; the slots there are then.
    busy         not everything has the latest settings."""

    __slots__ = ("_change", "_configured", "_done", "_engine", "_engine_of", "_named", "_settings", "_slots", "busy")

    def __init__(
        self, engine: Callable[[int], Engine | None], configured: Callable[[EngineSettings], Iterable[int]]
    ) -> None:
        self._engine_of = engine
        self._configured = configured
        self._named: Named | None = None
        """Settings that are still being read."""
        self._slots: deque[int] = deque()
        """Slots that still do what earlier settings said."""
        self._engine: Engine | None = None
        self._change: Reshaping | None = None
        """Of the first of them, once it is begun."""
        self._settings = EngineSettings()
        self._done: list[Callable[[], None]] = []
        self.busy = False

    def begin(self, settings: EngineSettings, done: Callable[[], None] | None = None) -> None:
        """All slots are to have these; `done` is called in the turn in which they have, or have later ones."""
        if done is not None:
            self._done.append(done)
        self._settings = settings
        self._named = Named(settings)
        self.busy = True

    def go_on(self, turn: Turn, touched: dict[Engine, None]) -> bool:
        """A piece. True: there is more to do."""
        named = self._named
        if named is not None:
            if not named.grow(PIECE):
                self._named = None
                keep(named)
                self._slots = deque(self._configured(self._settings))
                self._change = None
            return True
        most = PIECE
        while self._slots and most > 0:
            engine = self._engine_of(self._slots[0])
            if engine is not None:
                most = self._reshape(engine, turn, most)
                touched[engine] = None
                if most <= 0:
                    return True
            self._slots.popleft()
            self._change = None
        self.busy = bool(self._slots)
        if not self.busy:
            done, self._done = self._done, []
            for callback in done:
                callback()
        return self.busy

    def _reshape(self, engine: Engine, turn: Turn, most: int) -> int:
        # A slot that was led again meanwhile began with the new settings, and is looked at from its beginning:
        # harmless.
        if self._change is None or self._engine is not engine:
            self._engine, self._change = engine, engine.reconfigure(self._settings)
        return engine.reshape(self._change, turn, max(most - _SLOT, 1))
