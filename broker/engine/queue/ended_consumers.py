"""What comes back to its queue piece by piece: of consumers that have ended, and of those that say so of very much.

Rule: in the order in which it was handed out; how it goes on with each message is decided in redelivery.py.
"""

from __future__ import annotations

from collections import deque

from broker.core.effects import Turn
from broker.core.message import Run

from ..consumers.pieces import piece_of


class Leaving:
    """What a consumer held that has ended, as far as it is not back yet. turn: the last one in which some came."""

    __slots__ = ("_items", "failed", "left", "turn")

    def __init__(self, messages: dict[int, Run], failed: bool) -> None:
        self._items = iter(messages.items())  # nobody else knows these
        self.left = len(messages)
        self.failed = failed
        self.turn: Turn | None = None

    def came(self, turn: Turn) -> bool:
        """A piece comes back in this turn. False: one has already."""
        if self.turn is turn:
            return False
        # The Turn itself, not its number: one queue may be dispatched several times in a turn, and gets one piece.
        self.turn = turn
        return True

    def next_piece(self) -> dict[int, Run]:
        """The next piece."""
        piece = piece_of(self._items)
        self.left -= len(piece)
        return piece


class ComingBack:
    """Of one queue.

    ended      what ended consumers held, who ended first first.
    settling   consumers that live, and whose word on what they hold is being carried out (dispatch/settle.py): what is
               left of it is in their ledgers."""

    __slots__ = ("ended", "settling")

    def __init__(self) -> None:
        self.ended: deque[Leaving] = deque()
        self.settling: set[int] = set()
