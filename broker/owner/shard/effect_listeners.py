"""Listeners of what the shard did: the port of an edge in the same process, or the server of links.

Rule: calls only; nobody here knows what is done with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from broker.core.commands import Command
from broker.core.effects import Effect

from . import failure_answers


class Listener(Protocol):
    """See the head of this file."""

    def on_effects(self, effects: list[Effect]) -> None: ...
    def on_relief(self) -> None:
        """The disk has caught up: paused producers may go on."""
        ...

    def on_stopped(self, why: str) -> None:
        """The shard has failed and takes nothing more."""
        ...


def tell_blamed(listener: Listener | None, command: Command | None, inbox: Sequence[Command]) -> None:
    """This command of the inbox has made its engine throw; None: none of it has."""
    blamed = None if command is None else failure_answers.blamed(command, list(inbox))
    if blamed is not None and listener is not None:
        listener.on_effects([blamed])
