"""Which slots are led in this edge's own zone.

Rule: knows slots, never their leaders; a SEND or SUBSCRIBE that may choose among slots asks it. Without a zone nothing
is near, and the choice is among all. Where there is no choice (a group, an address with one slot) it is not asked.
"""

from __future__ import annotations


class ZoneAffinity:
    """version   another number whenever `slots` has changed."""

    __slots__ = ("slots", "version")

    def __init__(self) -> None:
        self.slots: set[int] = set()
        self.version = 0

    def led(self, slot: int, here: bool) -> None:
        """The slot is led by an owner of our zone, or not (any more)."""
        if here == (slot in self.slots):
            return
        if here:
            self.slots.add(slot)
        else:
            self.slots.discard(slot)
        self.version += 1

    def among(self, slots: tuple[int, ...]) -> tuple[int, ...]:
        """Those of them that are near; all, where none is."""
        return tuple([slot for slot in slots if slot in self.slots]) or slots
