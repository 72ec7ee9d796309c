"""What an owner says of the slots that it shall lead: which it serves, which not, why, and since when.

The slot table says who shall lead a slot; only that owner knows whether it does. For people: `cluster status`.

Rule: looks, changes nothing. A slot counts from when it was first seen not to be served, so that every answer is as
exact as `look` is frequent.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from broker.seams.clock import Clock

from .slot_role import RoleState

WHY: Final = {
    RoleState.FOLLOWING: "has not begun to lead it: etcd has to answer first",
    RoleState.TAKING_OVER: "takes over: gets everything from the others, and gives them what they lack",
    RoleState.UNPROMISED: "takes over: the promise that it gave to the former leader has yet to run out",
    RoleState.HANDING_OVER: "hands it over",
    RoleState.STEPPING_DOWN: "reads its log back, to follow first",
    RoleState.SUSPENDED: "was declared dead, and is not registered again yet",
}


class Duties(Protocol):
    """slot_lifecycle.py."""

    def duties(self) -> dict[int, RoleState]:
        """Slots that this owner shall lead → what it is to them."""
        ...


class Waits(Protocol):
    """The leader side of replication."""

    def waits_for(self, slot: int) -> str:
        """Who keeps what is written in the slot from counting, "" = nobody that is known to."""
        ...


class SlotStatus:
    """`serves`: how many slots are served here, as of the last look."""

    __slots__ = ("_clock", "_duties", "_since", "_waits", "serves")

    def __init__(self, duties: Duties, waits: Waits, clock: Clock) -> None:
        self._duties = duties
        self._waits = waits
        self._clock = clock
        self._since: dict[int, tuple[float, str]] = {}
        """Slot that is not served → (since when, why)."""
        self.serves = 0

    def look(self) -> None:
        """To be called every second or so."""
        now = self._clock.monotonic()
        duties = self._duties.duties()
        found: dict[int, tuple[float, str]] = {}
        for slot, doing in duties.items():
            waits = self._waits.waits_for(slot)
            why = "; ".join(filter(None, (WHY.get(doing, ""), waits and f"waits for {waits}")))
            if why:
                # The reason may change, the time does not: "since when is it not served" is what is asked.
                found[slot] = (self._since.get(slot, (now, ""))[0], why)
        self._since = found
        self.serves = len(duties) - len(found)

    def told(self) -> dict[str, Any]:
        """For /api/slots."""
        self.look()
        now = self._clock.monotonic()
        slots = {
            str(slot): {"why": why, "since_s": round(now - since, 1)}
            for slot, (since, why) in sorted(self._since.items())
        }
        return {"serves": self.serves, "not_served": slots}
