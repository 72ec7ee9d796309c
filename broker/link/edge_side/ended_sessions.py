"""Ends of sessions that had many consumers in a slot: forgotten one slot after the other, some in each step.

An owner answers for all of its slots in one message; 200 wildcards of a client that has left are 17,000 consumers of
such a message, and everybody else's answers stood behind them.

Rule: what is forgotten late is as if its answer had come late: until then it is kept, and said again to a new leader.
Must not know links.
"""

# Example. Session 5 had 200 wildcards; A leads 85 slots and answers the end of all of them in one message.
#     later   each of the 85 answers waits here, as 200 consumers are more than FEW; its Disconnect stays in `kept`
#     step    three slots are forgotten (PIECE), the others in the next steps of the loop
#     A dies  B is told of Disconnects that are still kept, and finds nothing to end; its answers find nothing either

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from broker.core.commands import Disconnect
from broker.seams.clock import Schedule

from .consumer_replay import PendingCommand
from .slot_channel import SlotChannel

FEW: Final = 16
"""Consumers of a session in one slot that are forgotten at once, of some 2 µs each."""
PIECE: Final = 500
"""… of all sessions, in one step."""


class EndedSessions:
    """finish(channel, entry): that Disconnect is answered."""

    def __init__(self, schedule: Schedule, finish: Callable[[SlotChannel, PendingCommand], None]) -> None:
        self._schedule = schedule
        self._finish = finish
        self._waiting: deque[tuple[SlotChannel, PendingCommand]] = deque()
        self._under_way: PendingCommand | None = None

    def later(self, channel: SlotChannel, entry: PendingCommand) -> bool:
        """It is finished in a step of its own. False: it is no end of a session, or a small one."""
        command = entry.command
        if type(command) is not Disconnect or entry is self._under_way:
            return False
        if len(channel.sessions.get(command.session, ())) <= FEW:
            return False
        if not self._waiting:
            self._schedule(self._some)
        self._waiting.append((channel, entry))
        return True

    def _some(self) -> None:
        left = PIECE
        while self._waiting and left > 0:
            channel, entry = self._waiting.popleft()
            # Answered twice, if its owner has changed meanwhile.
            if channel.kept.get(entry.number) is entry and isinstance(entry.command, Disconnect):
                left -= len(channel.sessions.get(entry.command.session, ()))
                self._under_way = entry
                self._finish(channel, entry)
                self._under_way = None
        if self._waiting:
            self._schedule(self._some)
