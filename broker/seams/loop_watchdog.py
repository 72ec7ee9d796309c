"""The watchdog: how long the steps of a loop take, and whose they were.

Rule: a step is measured as a whole, never a message of it, by two looks at the monotonic clock; whose it was is asked
only of one that was slow. Says at most one line a second for each kind of step. Must not know what steps do.

The kinds that every message passes (turns and reads) have begin() and the quick half of took() in line: on the path of
a lone message their calls would be a tenth of all.

Of a slow one is said how much of it was ours: the time of the processor that it took at the least. What is more was
waited for, a processor that others had or the disk. That clock costs as much as all else here, so it is looked at a
hundred times a second at most: `used` at `marked`, for all kinds together. From then to the beginning of the step no
more can have been used than time has passed; the rest was the step's.

    turns = Steps(clock).kind("turn")
    began = turns.begin()
    ...                                  # the step
    if turns.took(began):                # more than SLOW_S
        turns.tell("Publish to 'orders' of slot 3, session 17")
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator

from broker.core.metrics import Histogram, Metric

from .clock import Clock, thread_seconds

log = logging.getLogger("stampede.watchdog")

BOUNDS_S = (0.001, 0.005, 0.02, 0.05, 0.25, 1.0)
"""Of the histogram. No step shall take more than the second (docs/adr/0009)."""
QUICK_S = BOUNDS_S[0]
"""Up to here a step is only counted."""
SLOW_S = 0.05
"""A step of this length is named: everybody on this loop has waited for it."""
EVERY_S = 1.0
"""So often a kind of step is complained of at most."""
PORTION_S = 0.0001
"""Of work for people that is done in pieces: so long a message waits for a portion of it, and it passes the loop five
times on its way."""
PORTION_MOST_S = 0.002
"""… of what somebody has waited long for: on a loop with much to do a tenth of a millisecond in each of its turns would
be seconds for a list of 100,000 queues."""
AGED_S = 0.1
"""With each of these the portions of one answer get longer by PORTION_S."""
PORTION = 64
"""Pieces of one, whatever the clock says: in simulations it stands still."""
MARK_S = 0.002
"""So old a look at the time of the processor may be when a step begins."""


def portion(work: Iterator[object], now: Callable[[], float], since: float | None = None) -> None:
    """As many pieces as PORTION_S has room for, one at least: what a piece takes depends on what the caches still hold,
    some microseconds or a hundred. Raises StopIteration with what `work` returns.

    since   when a client began to wait for it (seconds of `now`); None: none does."""
    began = now()
    aged = (began - since) / AGED_S if since is not None else 0.0
    most = min(PORTION_S * (1 + aged), PORTION_MOST_S)
    for _ in range(int(PORTION * most / PORTION_S)):
        next(work)
        if now() - began >= most:
            return


class Mark:
    """When the time of the processor was looked at, and what it was. due: from then on it is too old.

    beside   is called with each look."""

    __slots__ = ("beside", "cpu", "due", "marked", "used")

    def __init__(self, cpu: Callable[[], float]) -> None:
        self.cpu = cpu
        self.beside: Callable[[], object] = bool
        self.marked = self.due = float("-inf")
        self.used = 0.0

    def look(self, at: float) -> None:
        """A step begins at that time, and the last look is too old."""
        self.marked, self.due, self.used = at, at + MARK_S, self.cpu()
        self.beside()

    def also_calls(self, work: Callable[[], object]) -> None:
        """From now on with each look."""
        self.beside = work


class StepKindStats:
    """Steps of one kind. slow: how many took more than SLOW_S; longest: seconds, since the start of the process.

    quick, total   how many took no more than QUICK_S; seconds of all."""

    __slots__ = (
        "_counts", "_said", "_unsaid", "longest", "mark", "name", "now", "ours", "quick", "slow", "span", "total",
    )  # fmt: skip

    def __init__(self, name: str, clock: Clock, mark: Mark) -> None:
        self.name = name
        self.now = clock.monotonic
        self.mark = mark
        self.quick = 0
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.total = 0.0
        self._said = float("-inf")
        self._unsaid = 0
        self.slow = 0
        self.longest = 0.0
        self.span = 0.0
        """Seconds of the last one that was no quick one."""
        self.ours = 0.0
        """… of the last slow one, what it has computed at least."""

    def begin(self) -> float:
        """A step begins: when, for took()."""
        at = self.now()
        if at > self.mark.due:
            self.mark.look(at)
        return at

    def took(self, began: float) -> bool:
        """A step that began then has ended. True: it was slow, tell()."""
        span = self.now() - began
        if span <= QUICK_S:
            self.quick += 1
            self.total += span
            return False
        return self.took_long(began, span)

    def took_long(self, began: float, span: float) -> bool:
        """The same of one that took so long, more than QUICK_S."""
        self.total += span
        self.span = span
        self._counts[bisect_left(BOUNDS_S, span)] += 1
        self.longest = max(self.longest, span)
        if span <= SLOW_S:
            return False
        self.slow += 1
        mark = self.mark
        self.ours = max(mark.cpu() - mark.used - max(began - mark.marked, 0.0), 0.0)
        return True

    def tell(self, whose: str) -> None:
        """What the slow step was about."""
        now = self.now()
        if now - self._said < EVERY_S:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more slow ones since the last line)" if self._unsaid else ""
        self._said, self._unsaid = now, 0
        ours = f" ({self.ours * 1000:.0f} ms of them computing)" if self.ours >= 0.001 else ""
        log.warning(
            "a %s took %.0f ms%s, everybody else has waited: %s%s", self.name, self.span * 1000, ours, whose, more
        )

    def histogram(self) -> Histogram:
        """As core.metrics wants it."""
        return Histogram(list(BOUNDS_S), [self.quick + self._counts[0], *self._counts[1:]], self.total)


class Steps:
    """All kinds of one room."""

    __slots__ = ("_clock", "_kinds", "_mark")

    def __init__(self, clock: Clock, cpu: Callable[[], float] = thread_seconds) -> None:
        self._clock = clock
        self._mark = Mark(cpu)
        self._kinds: list[StepKindStats] = []

    def kind(self, name: str) -> StepKindStats:
        """A kind of its own, kept for metrics()."""
        made = StepKindStats(name, self._clock, self._mark)
        self._kinds.append(made)
        return made

    def also_calls(self, work: Callable[[], object]) -> None:
        """Calls it within a step, now and then: MARK_S apart at least, and never where there are no steps."""
        self._mark.also_calls(work)

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
