"""Messages of one queue that have been sent and are not back for the next time, and those that are not to come back.

Rule: a message is in one place at any time: not due (agenda), due (page index, ready), or here. Must not know headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from broker.core.message import Run

MOST: Final = 10_000
"""Numbers that are remembered."""


class OnTheirWay:
    """What recurring.py knows of a queue beside what is in it.

    flying   id → the message that is on its way."""

    __slots__ = ("_doomed", "flying")

    def __init__(self) -> None:
        self.flying: dict[int, Run] = {}
        self._doomed: dict[int, None] = {}
        """Oldest first."""

    def left(self, run: Run) -> None:
        """It has been sent."""
        self.flying[run.ids[0]] = run

    def back(self, id: int) -> bool:
        """It got where it was to go; may it come again."""
        self.flying.pop(id, None)
        return not self.ends(id)

    def ends(self, id: int) -> bool:
        """Was it cancelled. Said once."""
        if id not in self._doomed:
            return False
        # Ids are never given again, so what has ended once cannot come back under this number.
        del self._doomed[id]
        return True

    def doom(self, ids: Iterable[int]) -> None:
        """They are not to come again, wherever they are: what is here no more never comes either."""
        self._doomed.update(dict.fromkeys(ids))
        # A bound against somebody who cancels numbers that never were. The oldest have had the longest time to come
        # back: those that never do are among them. What is forgotten comes again, and can be cancelled again.
        for id in list(islice(self._doomed, max(len(self._doomed) - MOST, 0))):
            del self._doomed[id]
