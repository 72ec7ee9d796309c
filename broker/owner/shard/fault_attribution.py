"""Which engine has thrown: read off the exception, so that nothing on the way of a message has to keep account of it.

Rule: every way into an engine is a method of it, so its frame is among those the exception has come through; and where
what it wanted logged cannot be written, the record is a variable there.
"""

# Example. An ACK makes the engine of slot 9 divide by zero; the traceback, from the outside in:
#     Shard._run_turn → TurnCommands.carry_out → Engine.handle (self: engine 9) → settle → ZeroDivisionError
# slot_at_fault() walks all of it and keeps the innermost engine: 9. Where an engine calls into another one (a dead
# letter), the inner one is at work. Of a record that cannot be written the last frame with a `record` says whose:
# Appender.append. The slot is told to the controller, which keeps count: a slot that stops its leaders one by one
# goes into quarantine.
#
# The obvious way, a variable "slot at work" that is set before each command, would cost every message a store for
# what hardly ever happens.

from __future__ import annotations

from types import FrameType
from typing import Final

from broker.core.commands import Command
from broker.core.records import LogRecord
from broker.engine.engine import Engine

NOBODY: Final = -1


class NoEnd(Exception):
    """Thrown into a step of an engine that does not end (app/process/stall_detector.py): from there on it is one that
    has thrown."""


def step_of(frame: FrameType | None) -> FrameType | None:
    """The outermost call into an engine in this stack, None: none is at work. As long as it is the same one, the same
    step goes on."""
    found = None
    # From the inside out, so the last hit is the outermost call: it is the same one for as long as the step goes on.
    while frame is not None:
        if isinstance(frame.f_locals.get("self"), Engine):
            found = frame
        frame = frame.f_back
    return found


def slot_at_fault(error: BaseException) -> int:
    """The slot whose engine was at work, or whose record was, when it was thrown; NOBODY: none."""
    found = NOBODY
    traceback = error.__traceback__
    while traceback is not None:
        # f_locals makes a dict of the frame's variables: dear, and only asked when the owner stops.
        known = traceback.tb_frame.f_locals
        if isinstance(at_work := known.get("self"), Engine):
            found = at_work.number
        elif isinstance(record := known.get("record"), LogRecord):
            found = record.slot
        traceback = traceback.tb_next
    return found


def at_work(frame: FrameType | None) -> str:
    """What an engine is at in this stack, in words: its slot, and the command if one is being carried out; "": none."""
    slot, asked = NOBODY, ""
    while frame is not None:
        known = frame.f_locals
        if slot == NOBODY and isinstance(engine := known.get("self"), Engine):
            slot = engine.number
        if not asked and isinstance(command := known.get("command"), Command):
            address, session = getattr(command, "address", ""), getattr(command, "session", 0)
            asked = f", {type(command).__name__} of session {session}" + (f" for '{address[:100]}'" if address else "")
        frame = frame.f_back
    return f"slot {slot}{asked}" if slot != NOBODY else ""
