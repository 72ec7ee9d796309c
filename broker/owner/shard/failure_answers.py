"""What is answered when an owner stops because an engine has thrown.

Rule: the session that has asked for what made it throw is told so. Else an edge would ask the next leader the same, and
stop that as well, and the one behind it. Must not know engines.
"""

from __future__ import annotations

from typing import Any

from broker.core.commands import Barrier, Command, Confirm, Disconnect, DisconnectAll, Grant
from broker.core.effects import Effect, Refused
from broker.core.errors import Code


def blamed(command: Any, inbox: list[Command]) -> Refused | None:
    """The answer to the command of this inbox that has thrown: nothing of it has happened, nor will. None: nobody waits
    for one."""
    asked = command
    if isinstance(command, Disconnect):  # answered by the Barrier behind it
        at = next(at for at, each in enumerate(inbox) if each is command)
        asked = next((each for each in inbox[at + 1 :] if isinstance(each, Barrier)), None)
    seq: int = getattr(asked, "seq", 0)
    if not seq:
        return None
    detail = f"a {type(command).__name__} has stopped its owner, whose log says why; do not repeat it"
    return Refused(asked.session, seq, Code.INTERNAL, detail)


def unheard(inbox: list[Command]) -> list[Effect]:
    """The answers to commands that came too late."""
    return [
        Refused(command.session, command.seq, Code.OWNER_STOPPED)
        for command in inbox
        # These have no answer.
        if not isinstance(command, Grant | Confirm | Disconnect | DisconnectAll)
    ]
