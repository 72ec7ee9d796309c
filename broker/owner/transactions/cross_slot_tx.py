"""One transaction over several slots, as its coordinator has it under way (coordinator.py).

Rule: states and counts; what is asked of whom, and what is written, is the coordinator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from broker.core.commands import Publish, Settle
from broker.core.effects import Refused, Turn
from broker.core.states import StateTable
from broker.engine.engine import Engine

AGAIN_MOST: Final = 200
"""So often a participant is asked again whose consumers' edge has not found its new leader yet."""

Parts = list[Publish | Settle]


class CrossSlotState(Enum):
    """Of a transaction over several slots, where it is coordinated."""

    PREPARING = "preparing"
    """Each participant is asked to prepare its parts; who has, keeps them out of sight. Nothing is decided: whoever
    leads the slot next knows nothing of it, and says so to those who inquire."""
    DECIDED = "decided"
    """The decision and this slot's own part are one record of its log. It will happen everywhere, whoever leads: the
    next leader goes on from the log."""
    DONE = "done"
    """Every participant has said that it has happened; the client is told."""
    ABORTED = "aborted"
    """It happens nowhere; where it was prepared it is given back, and the client is told why."""


CROSS_SLOT: Final = StateTable(
    "A transaction over slots, at its coordinator (`owner/transactions/cross_slot_tx.py`; decided in "
    "`owner/transactions/coordinator.py`).",
    CrossSlotState,
    {CrossSlotState.PREPARING: "COMMIT, or a dead letter for an address of another slot"},
    {
        CrossSlotState.PREPARING: {
            CrossSlotState.DECIDED: "everybody has prepared, and this slot's own part can be done",
            CrossSlotState.ABORTED: "somebody refuses, or this slot's own part cannot be done any more",
        },
        CrossSlotState.DECIDED: {CrossSlotState.DONE: "everybody has heard of it"},
    },
    {
        CrossSlotState.PREPARING: "the slot is led here no more",
        CrossSlotState.DECIDED: "the slot is led here no more",
        CrossSlotState.DONE: "the log forgets it",
        CrossSlotState.ABORTED: "those who prepared it are told",
    },
)


class CrossSlotTx:
    """One of them under way, for as long as `engine` leads the slot here.

    check     raises RefusedError if this slot's part cannot be done (any more).    own   does it. Both piece by piece.
    done      tells that it has happened, everywhere.
    refused   tells that it has not.
    epoch     in which the slot is led here.
    holding   participants that may have prepared it.    again   how often one of them may still be asked again."""

    __slots__ = (
        "again", "check", "done", "engine", "epoch", "failed", "holding", "key", "others", "own", "refused", "slot",
        "state", "tx", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        tx: str,
        engine: Engine,
        others: dict[int, Parts],
        check: Callable[[Engine], Iterator[None]],
        own: Callable[[Engine, Turn], Iterator[None]],
        done: Callable[[Engine, Turn], None],
        refused: Callable[[Refused], None],
        epoch: int,
        key: object = None,
    ) -> None:
        self.tx = tx
        self.engine = engine
        self.slot = engine.number
        self.others = others
        self.check = check
        self.own = own
        self.done = done
        self.refused = refused
        self.epoch = epoch
        self.key = key
        self.state = CROSS_SLOT.begin(CrossSlotState.PREPARING)
        self.waiting = len(others)
        self.holding: list[int] = []
        self.failed: Refused | None = None
        self.again = AGAIN_MOST

    def may_wait(self, slot: int) -> bool:
        """May this participant be asked again: it settles for consumers whose edge may still be on its way there. One
        of the times is used up."""
        # One "no" is enough: then nobody is asked again.
        if self.failed is not None or self.again <= 0:
            return False
        waits = any(isinstance(part, Settle) for part in self.others[slot])
        self.again -= waits
        return waits

    def answered(self, slot: int, refused: Refused | None, may_hold: bool) -> bool:
        """A participant has prepared its parts, or not. Returns whether all have answered. may_hold: it may have heard
        the question, whatever came of it."""
        self.waiting -= 1
        # Who may hold it has said nothing of the transaction: that does not hide why another one cannot carry it out.
        if refused is not None and not (may_hold and self.failed is not None):
            self.failed = refused
        # An owner that did not answer may have prepared it and died: it is told as if it had.
        if refused is None or may_hold:
            self.holding.append(slot)
        return not self.waiting

    def is_decided(self) -> None:
        """The decision is in the group that is about to be written."""
        self.state = CROSS_SLOT.to(self.state, CrossSlotState.DECIDED)

    def is_aborted(self, why: Refused) -> None:
        """It happens nowhere."""
        self.failed = why
        self.state = CROSS_SLOT.to(self.state, CrossSlotState.ABORTED)

    def is_done(self, led: Engine, turn: Turn) -> None:
        """It has happened everywhere."""
        self.state = CROSS_SLOT.to(self.state, CrossSlotState.DONE)
        self.done(led, turn)
