"""Patience: how long another process may be silent before it is taken for dead; it learns from false alarms.

On an overloaded machine every process is late. A peer that takes that for death breaks a stream; the next one asks and
replays everything, which costs the very time that was missing. So a silence that proves to have been a false alarm
doubles the patience with that process, and a minute without one halves it. The first real freeze in a quiet minute is
found as fast as the settings say, and a process that truly ends is found by its broken connections, which need no
patience.

Rule: pure; times are monotonic seconds that callers hand in. One object per process that is listened to.
Must not know what a stream is.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 8
"""Patience grows to so many times what the settings say, and no further."""
CALM_S: Final = 60.0
"""So long without a false alarm halves it."""
SHORTLY_S: Final = 10.0
"""Who speaks again within so long of being judged lived all the time. A cut network that heals, and a process that was
stopped and goes on, look the same: patience with them grows as well, which MOST and CALM_S bound. Who was away for
longer was judged rightly."""
ANSWER_S: Final = 1.5
"""For the first word on a new stream: connecting takes both ends several turns of their loops."""


class Patience:
    """With one process."""

    __slots__ = ("_boot", "_factor", "_judged_at", "_learned_at", "_silence_s")

    def __init__(self, silence_s: float) -> None:
        """`silence_s`: what is borne as long as nothing was learned (dead_after_ms)."""
        self._silence_s = silence_s
        self._factor = 1
        self._learned_at = 0.0
        self._judged_at: float | None = None
        self._boot = ""

    def silence(self, now: float) -> float:
        """Seconds of silence to be borne on a stream that has spoken."""
        return self.stretched(self._silence_s, now)

    def answer(self, now: float) -> float:
        """The same on a new stream that has not."""
        return self.stretched(max(ANSWER_S, self._silence_s), now)

    def stretched(self, seconds: float, now: float) -> float:
        """Another bound on the same process, as many times longer."""
        return seconds * self._now(now)

    def judged(self, now: float, boot: str = "") -> None:
        """It was silent for longer, and is given up. `boot`: of the process, where it is known."""
        self._judged_at = now
        self._boot = boot

    def ended(self) -> None:
        """Its process is known to have ended (nobody listens at its address): the judgement was right."""
        self._judged_at = None

    def answered(self, now: float, boot: str = "") -> bool:
        """It speaks, on a new stream. True: giving it up was a false alarm."""
        judged, self._judged_at = self._judged_at, None
        if judged is None or now - judged > SHORTLY_S or boot != self._boot:
            return False
        self._factor = min(MOST, 2 * self._now(now))
        self._learned_at = now
        return True

    def _now(self, now: float) -> int:
        if self._factor == 1:
            return 1
        return max(1, self._factor >> int((now - self._learned_at) / CALM_S))


def longest_silence(silence_s: float) -> float:
    """What anybody's patience may grow to, on a stream that has spoken."""
    return silence_s * MOST


def longest_answer(silence_s: float) -> float:
    """The same on a new stream that has not."""
    return max(ANSWER_S, silence_s) * MOST


def stood_still(ticked: float, now: float, period: float) -> float:
    """Seconds by which our own tick, due one period after the last, came late. They count as nobody's silence: what was
    said meanwhile may wait to be read. So a tick adds at most one period to a silence, and nobody is judged before our
    loop has gone round, and read, as often as the bound has periods."""
    return max(0.0, now - ticked - period)
