"""One alarm for all slots: the earliest moment at which an engine wants to be called.

Rule: it may ring too early, never too late: an engine that wants a later moment than it said does not take the alarm
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.engine.engine import Engine


class SlotAlarm:
    """set(at_ms, callback): a later call replaces an earlier one."""

    __slots__ = ("_at", "_ring", "_set")

    def __init__(self, set: Callable[[int, Callable[[], None]], None], ring: Callable[[], None]) -> None:
        self._set = set
        self._ring = ring
        self._at = 0
        """Epoch milliseconds, 0: it is not set."""

    def look(self, engines: Iterable[Engine]) -> None:
        """These may want to be called earlier than was known."""
        for engine in engines:
            due = engine.due
            if due and (not self._at or due < self._at):
                self._at = due
                self._set(due, self._ring)

    def rang(self) -> None:
        """It is not set any more: each slot that still waits is to be looked at."""
        self._at = 0
