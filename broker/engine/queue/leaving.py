"""What of a queue is on its way to another address, as dead letters for instance: out of sight, in memory until it is
taken there, which may be days where that address is full.

Rule: knows moves and their bytes; what becomes of them is decided in routing/redelivery.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.effects import Move
from broker.core.memory import MESSAGE, RUN


class Leaving:
    """Of one queue.    nbytes   that it takes in memory."""

    __slots__ = ("_moves", "nbytes")

    def __init__(self) -> None:
        self._moves: dict[Move, int] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._moves)

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves)

    @property
    def messages(self) -> int:
        return sum([len(move.ids) for move in self._moves])

    def add(self, move: Move) -> None:
        """These are on their way."""
        run = move.run
        # What it takes now: where it goes it is numbered, and may get headers. A large body lies in a file.
        blob = run.blob.length if run.blob is not None else 0
        self._moves[move] = nbytes = RUN + MESSAGE * len(run.records) + run.nbytes - blob
        self.nbytes += nbytes

    def remove(self, move: Move) -> None:
        """They are where they go. What was of no queue, or is of an earlier one, is not here."""
        self.nbytes -= self._moves.pop(move, 0)
