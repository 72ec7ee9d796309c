"""A subscription to a wildcard as its connection sees it: one, whose parts come into being with their first message.

It is in all slots of the broker and most never have a message for it: what it costs is one part, that stands for it in
the session's tables, and one more for each slot that has delivered something. Numbers of its consumers are a block, so
that a delivery tells whose part of which slot it is for.

Rule: a part is made of the standing one, and is like it but for slot, number and handle. Must not know owners.
"""

from __future__ import annotations

from broker.core.commands import BLOCK
from broker.core.ids import SLOTS

from .split_subscription import SplitSubscription
from .subscription import SlotSubscription

STANDING = SLOTS - 1
"""The slot of the part that stands for all: its number is the highest, and so its handle the longest."""


class WildcardSubscription(SplitSubscription):
    """first: number of the consumer of slot 0."""

    __slots__ = ("_quarter", "_standing", "first")

    def __init__(self, standing: SlotSubscription, first: int) -> None:
        super().__init__()
        self.first = first
        self._standing = standing
        self._quarter = standing.quarter
        self.join(standing)

    @property
    def whole(self) -> bool:
        return True

    def part(self, consumer: int) -> SlotSubscription:
        """The part with that consumer, made now and put into the tables; call when the tables have none."""
        standing = self._standing
        made = standing.sibling(consumer, consumer - self.first, self._quarter)
        self.join(made)
        standing.session.add_part(made)
        return made


def block(consumer: int) -> int:
    """Which block a consumer's number is of."""
    return consumer // BLOCK
