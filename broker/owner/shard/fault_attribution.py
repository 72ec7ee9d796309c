"""Which slot is to blame for what was thrown, and what an engine is at: both as the engines say it (engine/at_work.py).

Rule: only asked when the owner stops, or seems to stand still. Nothing is read off a stack, and nothing is guessed: an
error that no engine says to be its own is no slot's fault.
"""

# Example. An ACK makes the engine of slot 9 divide by zero. Engine.handle keeps the error as its `fault`, and it goes
# on through TurnCommands and the shard; there at_fault() finds that it is the fault of engine 9. Of a record that
# cannot be written no engine knows: whoever appends it throws Unwritable, with the record's slot. The slot is told to
# the controller, which keeps count: a slot that stops its leaders one by one goes into quarantine.

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from broker.core.commands import Command
from broker.engine.at_work import Work

from ..commit.group_commit import Unwritable

NOBODY: Final = -1


class NoEnd(Exception):
    """Thrown into a step of an engine that does not end (app/process/stall_detector.py): from there on it is one that
    has thrown."""


class Working(Protocol):
    """An engine."""

    @property
    def number(self) -> int: ...
    @property
    def at_work(self) -> Work | None: ...
    @property
    def fault(self) -> Exception | None: ...
    @property
    def carrying(self) -> Command | None: ...
    @property
    def changes(self) -> int: ...


Step = tuple[Working, Work, int]
"""One call into an engine: two steps are the same one if all three are."""


def step_of(engines: Iterable[Working]) -> Step | None:
    """The call that is under way; None: no engine is at work."""
    for engine in engines:
        if (work := engine.at_work) is not None:
            return engine, work, engine.changes
    return None


def same(step: Step | None, other: Step | None) -> bool:
    """Does the same call still go on."""
    if step is None or other is None:
        return False
    return step[0] is other[0] and step[1] is other[1] and step[2] == other[2]


def at_fault(error: BaseException, engines: Iterable[Working]) -> tuple[int, Command | None]:
    """The slot whose engine, or whose record, has thrown it; NOBODY: none. And the command that had come before the
    turn in which a piece of it threw: nobody else would be told that it is not to be asked for again."""
    if isinstance(error, Unwritable):
        return error.slot, None
    # A StopIteration becomes a RuntimeError where it leaves a generator: a large COMMIT is one.
    thrown = (error, error.__cause__) if isinstance(error, RuntimeError) else (error,)
    for engine in engines:
        if engine.fault is not None and engine.fault in thrown:
            return engine.number, engine.carrying
    return NOBODY, None


def told(step: Step | None) -> str:
    """What an engine is at, in words: its slot, and the command if one is being carried out; "": none."""
    if step is None:
        return ""
    engine, work, _ = step
    # Of a call the name says less than a command among what it was given.
    given: list[Any] = [*work[1]] if isinstance(work, tuple) else [work]
    command = next((each for each in given if isinstance(each, Command)), engine.carrying)
    if command is None:
        return f"slot {engine.number}"
    address, session = getattr(command, "address", ""), getattr(command, "session", 0)
    asked = f"{type(command).__name__} of session {session}" + (f" for '{address[:100]}'" if address else "")
    return f"slot {engine.number}, {asked}"
