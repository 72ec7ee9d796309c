"""Slots without a leader that can be reached: how long a session waits for one, and what it is told then.

Rule: looked at only while a slot is down, once a second, so an answer comes at most a second too late; what this
process itself slept counts for nobody's wait. Must not know what waits.
"""

# Example. Slot 9 loses its owner, 2 s later somebody stops this process (SIGSTOP) for a minute.
#     wakes     62 s have passed by the clock, of which the owner was away for 2 that anybody here has seen: it may have
#               come back in the first of the others. Who waits was told "for 30 s" at once
#     _look     comes 60 s late: down_since is 60 s later, and the slot is given up 28 s from now, if nobody serves it

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from broker.core.errors import Code
from broker.core.patience import stood_still
from broker.seams.clock import Clock, Later

from .slot_channel import SlotChannel

LOOK_S = 1.0


class Outages:
    """after_s        so long a slot may be without an owner.
    waited_for()   the slots that are not open, and for which commands wait.
    down()         all that are not open.
    give_up(slot)  who waits for it has waited long enough."""

    def __init__(
        self,
        after_s: float,
        clock: Clock,
        later: Later,
        waited_for: Callable[[], Iterable[SlotChannel]],
        give_up: Callable[[SlotChannel], None],
        down: Callable[[], Collection[SlotChannel]],
    ) -> None:
        self._after_s = after_s
        self._clock = clock
        self._later = later
        self._waited_for = waited_for
        self._give_up = give_up
        self._down = down
        self._watching = False
        self._period = min(LOOK_S, after_s / 2)
        self._began = 0.0
        """When it was last awake for sure."""

    def unavailable(self, channel: SlotChannel) -> tuple[Code, str]:
        """Why nothing in the slot is answered."""
        if channel.shelved:
            return Code.SLOT_SHELVED, (
                f"it is in slot {channel.slot}, which was shelved; others are not concerned. Ask the operator: "
                "`stampede cluster status`"
            )
        return Code.OWNER_UNAVAILABLE, (
            f"no owner has served it for {self._after_s:g} s (unavailable_after_s); "
            "try again later, or ask the operator: `stampede cluster status`"
        )

    def watch(self) -> None:
        """A command waits: has the slots without an owner looked at."""
        if not self._watching:
            self._watching = True
            self._began = self._clock.monotonic()
            self._later(self._period, self._look)

    def _look(self) -> None:
        self._watching = False
        now = self._clock.monotonic()
        slept = stood_still(self._began, now, self._period)
        down = self._down()
        for channel in down:
            channel.excuse(slept, now)
        # Also while nobody waits: whoever comes next is to be told what was seen, too.
        if down:
            self.watch()
        limit = now - self._after_s
        for channel in self._waited_for():
            if channel.down_since <= limit:
                self._give_up(channel)
            else:
                self.watch()
