"""The watchdog: how long the steps of a loop take, and whose they were.

Rule: a step is measured as a whole, never a message of it, by two looks at the monotonic clock; whose it was is asked
only of one that was slow. Says at most one line a second for each kind of step. Must not know what steps do.

    turns = Steps(clock).kind("turn")
    began = turns.now()
    ...                                  # the step
    if turns.took(began):                # more than SLOW_S
        turns.tell("Publish to 'orders' of slot 3, session 17")
"""

from __future__ import annotations

import logging
from bisect import bisect_left

from broker.core.metrics import Metric

from .clock import Clock

log = logging.getLogger("stampede.watchdog")

BOUNDS_S = (0.001, 0.005, 0.02, 0.05, 0.25, 1.0)
"""Of the histogram. No step shall take more than the second (docs/adr/0009)."""
SLOW_S = 0.05
"""A step of this length is named: everybody on this loop has waited for it."""
EVERY_S = 1.0
"""So often a kind of step is complained of at most."""


class Kind:
    """Steps of one kind. slow: how many took more than SLOW_S; longest: seconds, since the start of the process."""

    __slots__ = ("_counts", "_quick", "_said", "_total", "_unsaid", "longest", "name", "now", "slow", "span")

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.now = clock.monotonic
        self._quick = 0
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._total = 0.0
        self._said = float("-inf")
        self._unsaid = 0
        self.slow = 0
        self.longest = 0.0
        self.span = 0.0
        """Seconds of the last one that was no quick one."""

    def took(self, began: float) -> bool:
        """A step that began then has ended. True: it was slow, tell()."""
        span = self.now() - began
        self._total += span
        if span <= BOUNDS_S[0]:
            self._quick += 1
            return False
        self.span = span
        self._counts[bisect_left(BOUNDS_S, span)] += 1
        self.longest = max(self.longest, span)
        if span <= SLOW_S:
            return False
        self.slow += 1
        return True

    def tell(self, whose: str) -> None:
        """What the slow step was about."""
        now = self.now()
        if now - self._said < EVERY_S:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more slow ones since the last line)" if self._unsaid else ""
        self._said, self._unsaid = now, 0
        log.warning("a %s took %.0f ms, everybody else has waited: %s%s", self.name, self.span * 1000, whose, more)

    def histogram(self) -> tuple[list[float], list[int], float]:
        """As core.metrics wants it."""
        return list(BOUNDS_S), [self._quick + self._counts[0], *self._counts[1:]], self._total


class Steps:
    """All kinds of one room."""

    __slots__ = ("_clock", "_kinds")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: list[Kind] = []

    def kind(self, name: str) -> Kind:
        """A kind of its own, kept for metrics()."""
        made = Kind(name, self._clock)
        self._kinds.append(made)
        return made

    def metrics(self) -> list[Metric]:
        """Families with a series for each kind."""
        kinds = self._kinds
        return [
            Metric(
                "stomp_step_seconds", "histogram",
                "Steps of the event loop by kind: while one runs, all other clients of the process wait.",
                [({"step": kind.name}, kind.histogram()) for kind in kinds],
            ),
            Metric(
                "stomp_step_longest_seconds", "gauge", "The longest step of its kind since the start.",
                [({"step": kind.name}, kind.longest) for kind in kinds],
            ),
            Metric(
                "stomp_steps_slow_total", "counter", f"Steps of more than {SLOW_S * 1000:g} ms; the log names them.",
                [({"step": kind.name}, float(kind.slow)) for kind in kinds],
            ),
        ]  # fmt: skip
