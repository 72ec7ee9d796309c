"""What a consumer held that has ended, while it comes back to its queue piece by piece.

Rule: in the order in which it was handed out; how it goes on with each message is decided in redelivery.py.
"""

from __future__ import annotations

from broker.core.effects import Turn
from broker.core.message import Run

BACK = 64
"""Runs that come back in one turn from a consumer that has ended, or _LONG times as many messages of long ones: a
client may hold as many as it likes, and give all of them back by going."""
_LONG = 32


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
        piece: dict[int, Run] = {}
        runs, last = 0, None
        for i, run in self._items:
            piece[i] = run
            # Runs as they are handed out are neighbours in a ledger: a change of run is a run to be cut and sorted
            # in.
            runs += run is not last
            last = run
            if runs + len(piece) // _LONG >= BACK:
                break
        self.left -= len(piece)
        return piece
