"""What took longest in a turn that was slow, in words for the log.

Rule: nothing is kept about a part of a turn that was no long one, and nothing is looked up before the turn was slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker.core.commands import Command
from broker.engine.engine import Engine

LONG_S: Final = 0.01
"""A part of this length may be what made the turn slow."""
_NAMED: Final = 3
"""Addresses that a line names at most."""


class Blame:
    """The longest part of the turn under way."""

    __slots__ = ("_part", "_span", "_who")

    def __init__(self) -> None:
        self._span = 0.0
        self._part: Command | Engine | str = ""
        self._who: Callable[[int], str] = "session {}".format

    def names_by(self, who: Callable[[int], str]) -> None:
        """`who` says a session in words: only an edge knows its client."""
        self._who = who

    def saw(self, span: float, part: Command | Engine | str) -> None:
        """A part of LONG_S or more: a command, the dispatch of an engine, or something else by its name."""
        if span > self._span:
            self._span, self._part = span, part

    def name(self, inbox: list[Command]) -> str:
        """What is to blame, by the commands of the turn; begins anew."""
        part, span = self._part, self._span
        self._part, self._span = "", 0.0
        many = f"{len(inbox)} commands"
        if not part:
            return f"{many}, none of them long: {self._about(inbox)}"
        if isinstance(part, str):
            return f"{part} ({span * 1000:.0f} ms), {many}: {self._about(inbox)}"
        if isinstance(part, Engine):
            here = [command for command in inbox if command.slot == part.number]
            return f"dispatch of slot {part.number} ({span * 1000:.0f} ms), {many}: {self._about(here)}"
        return f"{type(part).__name__} ({span * 1000:.0f} ms) of {many}: {self._about([part])}"

    def _about(self, commands: list[Command]) -> str:
        found: dict[str, None] = {}
        for command in commands:
            about: Any = command
            address = getattr(about, "address", "")
            consumer = getattr(about, "consumer", 0)
            what = f"'{address[:100]}'" if address else f"consumer {consumer}" if consumer else type(command).__name__
            session = getattr(about, "session", 0)
            found[f"{what} of slot {command.slot}" + (f" by {self._who(session)}" if session else "")] = None
            if len(found) > _NAMED:
                break
        names = list(found)
        return ", ".join(names[:_NAMED]) + (" and others" if len(names) > _NAMED else "") or "nothing asked"
