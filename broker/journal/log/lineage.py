"""Where each slot's log stands: next lsn, epochs, what is void, what is being copied.

Rule: `last` never says more than what is held without a gap: a slot that is being copied, or has a hole, holds
nothing. Must not know records, files or live_index.
"""

# Example. A slot was led in epoch 3 from lsn 1, in epoch 5 from lsn 40, and 51 is its last item:
#     lineage  [(3, 1), (5, 40)]     next 52     last() (5, 51)
#     begin_epoch(6)   epochs 6, own 0. last() is still (5, 51): an epoch without an item is no reason to be ahead of
#                      others. whole() has (6, 52) as well
#     item 52          enter(6, 52): the lineage grows, and an EPOCH record stands in front of the item
# A follower whose lineage has (4, 40) in place of (5, 40) has items 40 … that were never agreed on: the leader finds
# 39 as the last common item by comparing the two lists, without looking at a single record
# (owner/replication/catchup.py).

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.core.ids import SLOTS

FIRST_EPOCH: Final = 1
"""Of a slot that nobody ever gave an epoch: there is one replica."""
_LONGEST: Final = 32
"""Entries kept of a lineage. A follower that is older than these is seeded anew, which is always right."""

Lineage = list[tuple[int, int]]
"""(epoch, its first lsn) …, ascending in both"""


class SlotLogs:
    """All slots.

    next       slot → the next item's lsn; 0 = it never had one, or was reset.
    epochs     slot → highest epoch that began here, 0 = none: what is appended here carries it, what comes from a
               lower leader must be refused.
    own        slot → 1: the last entry of its lineage is of `epochs[slot]`.
    lineage    slot → epochs that have items.
    floors     slot → position of its last RESET: what stands before it is void.
    seeding    slots between RESET and SEEDED.
    holes      slots of which `repair` had to drop items that others may have.
    since      slot → lsn from which on the log holds every item of the slot (history.py); 0 = from its first.
    """

    def __init__(self) -> None:
        self.next = [0] * SLOTS
        self.epochs = [0] * SLOTS
        # Asked for each item, so it is a byte and not a comparison of two lists.
        self.own = bytearray(SLOTS)
        self.lineage: dict[int, Lineage] = {}
        self.floors: dict[int, int] = {}
        self.seeding: set[int] = set()
        self.holes: set[int] = set()
        self.since = [0] * SLOTS

    def freed(self, segment: int, begins: Sequence[int], ends: Sequence[int]) -> None:
        """The segment is about to go: the histories of its slots begin behind it.

        begins, ends: slot → lsn that was due when it began, and when the segment after it did."""
        for slot, (first, end) in enumerate(zip(begins, ends, strict=True)):
            # A slot without an item in that segment loses no history; one that was reset later never counted it.
            if first != end and self.floors.get(slot, 0) >> 32 <= segment and end > self.since[slot]:
                self.since[slot] = end

    def known(self) -> list[int]:
        """Slots with a history: every segment begins with an EPOCH of each."""
        return [slot for slot, epoch in enumerate(self.epochs) if epoch or slot in self.floors]

    def last(self, slot: int) -> tuple[int, int]:
        """(epoch, lsn) of the last item; (0, 0) = holds nothing that could be gone on from."""
        lsn = self.next[slot] - 1
        # Half a copy looks like a log, and must not win an election (I4).
        if lsn <= 0 or slot in self.seeding or slot in self.holes:
            return 0, 0
        return self.lineage[slot][-1][0], lsn

    def whole(self, slot: int) -> Lineage:
        """The lineage with the present epoch, also while that has no item."""
        table = list(self.lineage.get(slot, ()))
        if self.epochs[slot] and not self.own[slot]:
            table.append((self.epochs[slot], self.next[slot] or 1))
        return table

    def enter(self, slot: int, epoch: int, lsn: int) -> bool:
        """The next item, `lsn`, is of this epoch. True: the lineage has grown, an EPOCH has to be written."""
        self.epochs[slot] = max(self.epochs[slot], epoch)
        table = self.lineage.setdefault(slot, [])
        grown = not table or table[-1][0] != epoch
        if grown:
            table.append((epoch, lsn))
            # A bound on what each segment begins with: 256 slots × 32 entries × 16 bytes are 128 KiB.
            del table[:-_LONGEST]
        self.own[slot] = epoch == self.epochs[slot]
        return grown

    def clear(self, slot: int) -> None:
        """Nothing of the slot counts any more; its highest epoch stays."""
        self.next[slot] = self.own[slot] = self.since[slot] = 0
        self.lineage.pop(slot, None)
        self.holes.discard(slot)

    def become(self, slot: int, lineage: Lineage, lsn: int) -> None:
        """The slot is a whole copy up to `lsn`. Epochs without an item up to there are left out: what follows may
        be of another one."""
        self.seeding.discard(slot)
        self.next[slot] = lsn + 1
        # The leader's present epoch may have no item up to lsn.
        table = [entry for entry in lineage if entry[1] <= lsn][-_LONGEST:]
        self.lineage[slot] = table
        self.epochs[slot] = max([self.epochs[slot], *(epoch for epoch, _ in table)])
        self.own[slot] = bool(table) and table[-1][0] == self.epochs[slot]
