"""At an owner: when a durable message whose trace is wanted counts, here and on all followers that must have it.

Rule: looks at what comes and passes it on; asks the shard for no more than to be told. Read back from the log, runs are
looked at by the thread that reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from broker.core.commands import Command, Prepare, Publish, Transact
from broker.core.message import DURABLE, TRACED, Run
from broker.core.traceparent import contexts

from .span_notes import Notes, SpanNote

PIECE: Final = 64
"""Runs noted of those that come together."""


class Keeps(Protocol):
    """The shard."""

    def submit(self, commands: list[Command]) -> bool: ...
    def when_ready(self, slot: int, callback: Callable[[], None]) -> None: ...


class Stored:
    """In front of a shard."""

    def __init__(self, shard: Keeps, notes: Notes) -> None:
        self._shard = shard
        self._notes = notes

    def submit(self, commands: list[Command]) -> bool:
        """See Shard.submit."""
        noted = 0
        for command in commands:
            kind = type(command)
            if kind is Publish:
                if command.run.flags & TRACED and noted < PIECE:  # type: ignore[union-attr]
                    noted += 1
                    self._comes(command)  # type: ignore[arg-type]
            elif kind is Transact or kind is Prepare:
                for part in command.parts:  # type: ignore[union-attr]
                    if type(part) is Publish and part.run.flags & TRACED and noted < PIECE:
                        noted += 1
                        self._comes(part)
        return self._shard.submit(commands)

    def _comes(self, command: Publish) -> None:
        run = command.run
        if run.flags & DURABLE and (found := contexts(run)) and self._notes.room():
            now = self._notes.wall()
            nbytes = run.nbytes if len(run.records) == 1 else 0
            own = [context for _, context in found]
            note = SpanNote("store", command.address, command.slot, now, now, own, nbytes=nbytes)
            self._shard.when_ready(command.slot, partial(self._counts, note))

    def _counts(self, note: SpanNote) -> None:
        self._notes.add(note._replace(ended=self._notes.wall()))


def look(runs: list[Run]) -> None:
    """Read back from the log, which does not keep the flag: it is given again where a trace is wanted."""
    for run in runs:
        if contexts(run, 1):
            run.traced()
