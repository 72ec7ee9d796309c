"""Users who may keep no more bytes in the queues that they made, as edges have told last.

Each edge tells it with its question what is kept (admin/management/kept_quotas.py), and for how long that holds: if
none asks any more, for its last limit is gone or there is no edge, nobody is refused for ever.

Rule: the edge that tells last is believed, for all edges have the same limits and sums. Must not know either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from broker.engine.state.budget import Budget

LONGEST_S: Final = 600.0
"""An edge asks for a twentieth of its time at most, and says four of its rounds: enough for looks of 7 s."""


class FullMakers:
    """Of this process."""

    __slots__ = ("_budget", "_later", "_now", "_until", "_waits")

    def __init__(
        self, budget: Budget, now: Callable[[], float], later: Callable[[float, Callable[[], None]], Any]
    ) -> None:
        """now: seconds."""
        self._budget = budget
        self._now = now
        self._later = later
        self._until = 0.0
        self._waits = False

    def told(self, users: Iterable[str], seconds: float) -> None:
        """These are, for so long."""
        self._budget.fill_makers(users)
        self._until = self._now() + min(seconds, LONGEST_S)
        self._wait()

    def _wait(self) -> None:
        if self._budget.full_makers and not self._waits:
            self._waits = True
            self._later(max(self._until - self._now(), 0.0), self._looked)

    def _looked(self) -> None:
        self._waits = False
        if self._until <= self._now():
            self._budget.fill_makers(())
        self._wait()
