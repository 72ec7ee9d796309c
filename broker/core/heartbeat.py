"""Heart-beats of streams between processes: when a process looks at its streams, and when one that is at rest speaks.

Most of what a cluster without traffic costs is heart-beats, and waking up for them.

Rule: pure; times are monotonic seconds that callers hand in. Must not know what a stream is, nor what is said on one:
how long a silence is borne is said in patience.py.
"""

# Example. A period is 80 ms, 500 ms of silence are borne; looks are due at 80, 160, 240 … ms of the process' clock.
#     traffic until 90     in the looks at 80 and 160 something was said since the last one: no heart-beat
#     240    nothing since: a heart-beat, 150 ms behind the last word
#     320    an even one, at which all streams at rest speak: a heart-beat
#     400    left out: whoever listens has heard us 80 ms ago
#     480    a heart-beat, 640 the next
# So a stream is never silent for longer than two periods, with traffic or without, and a process at rest speaks on all
# of its streams at once, and then not for two periods.

from __future__ import annotations

from typing import Final

REST: Final = 2
"""At rest a stream speaks every so many periods. As long is the pause that ends with a heart-beat behind traffic."""
HEARD: Final = 3
"""It does so only where whoever listens bears the silence of so many of those pauses."""
PROMISED: Final = 0.85
"""… and where a promise that each heart-beat renews is longer, by as much as the answer may take."""
MOST_S: Final = 0.2
"""… and where a pause is no longer. Who listens may have other settings than ours, while they are changed in one
process after the other, and an edge gives itself up by its grace: with 320 ms, a period four times as long as usual, a
pause is longer than what the usual dead_after_ms bears."""
LATE: Final = 0.5
"""Of a period: so late was a look of ours, or an answer."""
CALM_S: Final = 4.0
"""So long after that nothing is left out: a process that stands still now and then shall not be taken for dead sooner
than it was without pauses. On a machine that others need as well it is such a process."""
SHORT: Final = 0.1
"""Of a period: a timer that came so much before its time does not come twice."""


def until_look(now: float, period: float, silence: float) -> float:
    """Seconds to the next look of who looks every `period`. Where streams at rest pause, all who look in a process do
    so at the same moments: it wakes up once for them, and what they say leaves together. silence: as for pause()."""
    if pause(period, silence) == 1:
        return period
    left = period - now % period
    return left if left > SHORT * period else left + period


def speaks(now: float, period: float, pause: int) -> bool:
    """Is it one of the looks in which all of a process' streams at rest speak."""
    return round(now / period) % pause == 0


def pause(period: float, silence: float, promise: float = 0.0) -> int:
    """Every how many periods a stream at rest has to speak. silence: seconds that are borne by who listens.
    promise: seconds for which a heart-beat gets us one that we need; 0: it gets none."""
    longest = REST * period
    if longest > MOST_S or silence < HEARD * longest or (promise and promise * PROMISED < longest):
        return 1
    return REST


class Heartbeat:
    """Of one stream, one way."""

    __slots__ = ("_calm", "_looked", "_pause", "_period", "_quiet")

    def __init__(self, period: float, pause: int) -> None:
        """It speaks every so many periods, or more often."""
        self._period = period
        self._pause = pause
        self._quiet = 0
        """Periods since it spoke."""
        self._looked = 0.0
        self._calm = 0.0
        """When it may leave heart-beats out again."""

    def due(self, said: bool, now: float) -> bool:
        """A look; `said`: something was, since the last one. Must a heart-beat be? True: it is sent now."""
        looked, self._looked = self._looked, now
        if looked:
            self.late(now - looked - self._period, now)
        # What was said may have been said at the very beginning of the period.
        self._quiet = self._pause - 1 if said else self._quiet + 1
        may_wait = now >= self._calm and not speaks(now, self._period, self._pause)
        if self._quiet < self._pause and (said or may_wait):
            return False
        self._quiet = 0
        return True

    def late(self, seconds: float, now: float) -> None:
        """Something came so much behind its time: if that is much, nothing is left out for a while."""
        if seconds > LATE * self._period:
            self._calm = now + CALM_S
