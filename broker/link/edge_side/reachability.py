"""Which owners this edge reaches, so that others may move leaders to where the edges can reach them.

An owner may live, lead and be well for everybody but the edges: a broken way says nothing about it, and its slots fail
all the same for as long as it lasts. What makes it known is that no stream to it has spoken for a while; what ends it
is a stream that has spoken for a while, longer each time that it proves to have been too early. For that the edge goes
on dialling an owner that it has reported though no slot is led there any more.

Rule: pure; times are monotonic seconds that callers hand in. Must not know what is done about it.
"""

# Example, after_s 5. The network between this edge and A breaks for 20 s, A lives (its lease is renewed):
#     0 s    lost: down since 0
#     5 s    reported: if most edges say so, the controller gives A's slots to others
#     20 s   heard: up since 20. Not reached yet, as a way that comes and goes is worse than none
#     25 s   STEADY_S later: reached again. If it is lost within ten minutes, the next time takes 10 s, then 20 … 80

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

log = logging.getLogger("stampede.link")

LOOK_S: Final = 0.5
"""How often look() should be called."""
LATE_S: Final = 4 * LOOK_S
"""A look that comes so late comes from a process that stood still: what it missed is no silence of anybody."""
STEADY_S: Final = 5.0
"""So long a stream must live before its owner passes for reached again."""
MOST_S: Final = 80.0
"""The same at most: it doubles for an owner that is lost again soon."""
SOON_S: Final = 600.0


class _One:
    """What is known of one owner. down: since when it has not spoken.   up: since when its stream lives."""

    __slots__ = ("down", "ended", "hold", "reported", "up")

    def __init__(self) -> None:
        self.down: float | None = None
        self.up: float | None = None
        self.reported = False
        self.hold = STEADY_S
        self.ended: float | None = None


class Reach:
    """after_s: an owner that has not been reached for so long is reported."""

    __slots__ = ("_after_s", "_looked", "_owners")

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._looked: float | None = None
        self._owners: dict[str, _One] = {}

    def lost(self, owner: str, now: float) -> None:
        """A stream to it is over, or is only being dialled."""
        one = self._owners.setdefault(owner, _One())
        one.up = None
        if one.down is None:
            one.down = now

    def heard(self, owner: str, now: float) -> None:
        """A new stream has spoken."""
        one = self._owners.setdefault(owner, _One())
        one.down, one.up = None, now

    def unused(self, owner: str) -> None:
        """Nothing is asked of it any more: whether it is reached nobody knows."""
        if owner in self._owners:
            self._owners[owner].down = self._owners[owner].up = None

    def reported(self, owner: str) -> bool:
        one = self._owners.get(owner)
        return one is not None and one.reported

    def look(self, now: float, alive: Collection[str]) -> tuple[str, ...]:
        """The owners that are not reached, of those that others say are alive; every LOOK_S."""
        late = self._looked is not None and now - self._looked > LATE_S
        self._looked = now
        for owner, one in list(self._owners.items()):
            if owner not in alive:
                del self._owners[owner]
                continue
            # We stood still: the owner may have spoken all the time.
            if late and one.down is not None:
                one.down = now
            if not one.reported:
                self._judge(owner, one, now)
            elif one.up is not None and now - one.up >= one.hold:
                one.reported, one.ended = False, now
                log.info("%s is reached again", owner)
        return tuple(sorted(owner for owner, one in self._owners.items() if one.reported))

    def _judge(self, owner: str, one: _One, now: float) -> None:
        if one.down is None or now - one.down < self._after_s:
            return
        again = one.ended is not None and now - one.ended < SOON_S
        one.hold = min(2 * one.hold, MOST_S) if again else STEADY_S
        one.reported = True
        log.warning(
            "%s is alive and has not been reached from here for %.3g s: where most edges say so, others lead its slots",
            owner, now - one.down,
        )  # fmt: skip
