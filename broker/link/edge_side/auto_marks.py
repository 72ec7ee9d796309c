"""AUTO consumers count as served when they are given a message. Once a second their owner is asked whether that is
settled for good: until then a new owner would have to be told of it.

Rule: one question at a time for each slot, and none to nobody.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.commands import Barrier
from broker.seams.clock import Later

from .slot_channel import SlotChannel

MARK_S = 1.0


class AutoMarks:
    """send(slot, question, bytes)"""

    def __init__(self, later: Later, send: Callable[[SlotChannel, Barrier, int], object]) -> None:
        self._later = later
        self._send = send
        self.due: dict[SlotChannel, None] = {}
        """Whose owners are asked next; given() once for each is enough."""
        self._timer = False

    def given(self, channel: SlotChannel) -> None:
        """AUTO consumers of the slot were given something."""
        self.due[channel] = None
        if not self._timer:
            self._timer = True
            self._later(MARK_S, self._ask)

    def _ask(self) -> None:
        self._timer = False
        channels, self.due = self.due, {}
        for channel in channels:
            if channel.marked is not None or not channel.opened:
                self.given(channel)
                continue
            self._send(channel, channel.mark(), 0)
