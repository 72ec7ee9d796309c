"""Slots that nobody serves: how long who waits for one waits, and what he is told then.

Rule: looked at only while somebody waits, once a second, so an answer comes at most a second too late. Must not know
what waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.core.errors import Code
from broker.seams.clock import Clock, Later

from .slot_channel import SlotChannel

LOOK_S = 1.0


class Outages:
    """after_s        so long a slot may be without an owner.
    waited_for()   the slots that are not open, and for which somebody waits.
    give_up(slot)  who waits for it has waited long enough."""

    def __init__(
        self,
        after_s: float,
        clock: Clock,
        later: Later,
        waited_for: Callable[[], Iterable[SlotChannel]],
        give_up: Callable[[SlotChannel], None],
    ) -> None:
        self._after_s = after_s
        self._clock = clock
        self._later = later
        self._waited_for = waited_for
        self._give_up = give_up
        self._watching = False

    def unavailable(self, lane: SlotChannel) -> tuple[Code, str]:
        """Why nothing in the slot is answered."""
        if lane.shelved:
            return Code.SLOT_SHELVED, (
                f"it is in slot {lane.slot}, which was shelved; others are not concerned. Ask the operator: "
                "`stampede cluster status`"
            )
        return Code.OWNER_UNAVAILABLE, (
            f"no owner has served it for {self._after_s:g} s (unavailable_after_s); "
            "try again later, or ask the operator: `stampede cluster status`"
        )

    def watch(self) -> None:
        """Somebody waits: has the slots without an owner looked at."""
        if not self._watching:
            self._watching = True
            self._later(min(LOOK_S, self._after_s / 2), self._look)

    def _look(self) -> None:
        self._watching = False
        limit = self._clock.monotonic() - self._after_s
        for lane in self._waited_for():
            if lane.down_since <= limit:
                self._give_up(lane)
            else:
                self.watch()
