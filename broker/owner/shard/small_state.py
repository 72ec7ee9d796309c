"""The small state of all slots, for the head of a new segment: slot by slot, bit by bit.

Rule: each bit says what is so when it is asked for; what changes later is in the log behind it. Must not know what the
state is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from broker.core.ids import SLOTS
from broker.core.records import MetaRecord


class Keeper(Protocol):
    """Knows the small state of a slot: an engine, or a standby."""

    def small_state(self) -> Iterator[list[MetaRecord]]: ...


def small_state(keeper_of: Callable[[int], Keeper | None]) -> Iterator[list[MetaRecord]]:
    """All of it. A slot that gets into other hands meanwhile is begun anew: what is written of it is replaced."""
    for slot in range(SLOTS):
        keeper = keeper_of(slot)
        while keeper is not None:
            whose, keeper = keeper, None
            for piece in whose.small_state():
                yield piece
                # A slot that became led (or followed) between two bits has another keeper: half of one and half of
                # the other would be no state at all, and later records replace earlier ones.
                if (now := keeper_of(slot)) is not whose:
                    keeper = now
                    break
