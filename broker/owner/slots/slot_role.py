"""What an owner is to one slot: its states, and what may become of each.

Rule: only the methods here change a state. Where callbacks of the old state must find that it is over, the change makes
a new role: they compare identities (slot_lifecycle.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.states import StateTable

from .standby import LastState, Standby

RETRY_S: Final = 0.2
"""How soon a change of a record that was not answered is tried again."""
LAST_RETRY_S: Final = 60.0
"""A transfer that the store does not answer stops the slot each time it is tried: ever more rarely."""


class RoleState(Enum):
    """Of a slot, in one owner. The values are told to people."""

    FOLLOWING = "following"
    """Its log is written by whoever leads it; a standby follows the log. Nothing of it is told here."""
    UNPROMISED = "not promised"
    """It shall be led here, but the former leader may still hand out: our promise to it runs. The epoch is not in the
    log, nothing is written."""
    TAKING_OVER = "taking over"
    """The epoch stands in the log; every in-sync follower is asked what it has, and is given what it lacks. Nothing is
    taken or handed out."""
    LEADING = "leading"
    """Its engine lives here; what every in-sync follower has on its disk is told, and handed out as long as they
    promise not to lead."""
    HANDING_OVER = "handing over"
    """As LEADING, but nothing is taken or handed out: the target gets everything, then the record is changed."""
    SUSPENDED = "suspended"
    """As LEADING, but nothing is taken or handed out: this process was declared dead. Who leads instead does so in a
    newer epoch."""
    STEPPING_DOWN = "stepping down"
    """It is led elsewhere, in a newer epoch; nothing of it is told here any more, and the log is read back to make a
    standby. Newer records wait for that."""


SLOT: Final = StateTable(
    "What an owner is to one slot (`owner/slots/slot_role.py`; decided in `owner/slots/slot_lifecycle.py`).",
    RoleState,
    {
        RoleState.FOLLOWING: "a record names this owner as a replica",
        RoleState.UNPROMISED: "a record names this owner as the leader",
    },
    {
        RoleState.FOLLOWING: {RoleState.UNPROMISED: "a record in a newer epoch names this owner as the leader"},
        RoleState.UNPROMISED: {
            RoleState.TAKING_OVER: "the promise has run out, or its leader has resigned",
            RoleState.STEPPING_DOWN: "a newer epoch, or declared dead",
        },
        RoleState.TAKING_OVER: {
            RoleState.LEADING: "every in-sync follower has everything",
            RoleState.STEPPING_DOWN: "a newer epoch, or declared dead",
        },
        RoleState.LEADING: {
            RoleState.HANDING_OVER: "the record has a target in sync",
            RoleState.SUSPENDED: "declared dead",
            RoleState.STEPPING_DOWN: "a newer epoch",
        },
        RoleState.HANDING_OVER: {
            RoleState.LEADING: "called off, or the store did not answer",
            RoleState.SUSPENDED: "declared dead",
            RoleState.STEPPING_DOWN: "a newer epoch, in which the target leads",
        },
        RoleState.SUSPENDED: {
            RoleState.LEADING: "registered again, and nobody leads instead",
            RoleState.STEPPING_DOWN: "a newer epoch",
        },
        RoleState.STEPPING_DOWN: {RoleState.FOLLOWING: "the standby stands"},
    },
    {RoleState.FOLLOWING: "no replica any more, and enough others have it"},
)
LED: Final = frozenset((RoleState.UNPROMISED, RoleState.TAKING_OVER, RoleState.LEADING, RoleState.HANDING_OVER))
"""It is led here, or about to be."""
BEFORE: Final = frozenset((RoleState.UNPROMISED, RoleState.TAKING_OVER))
"""It is about to be led here: what there is of it is a standby."""


class SlotRole:
    """What this owner is to one slot now.

    epoch    of the record it is about.
    kept     small state while stepping down, for the head of a new segment.
    gathered edges have come back to it, or were waited for.
    patience seconds until a transfer that was not answered is begun again."""

    __slots__ = ("epoch", "gathered", "kept", "patience", "standby", "state")

    def __init__(self, state: RoleState, epoch: int) -> None:
        """`state`: given to the table by the methods below, and by follows() and is_named()."""
        self.state = state
        self.epoch = epoch
        self.gathered = False
        self.kept: LastState | None = None
        self.patience = RETRY_S
        self.standby: Standby | None = None

    @classmethod
    def follows(cls, epoch: int) -> SlotRole:
        """A replica, from nothing."""
        return cls(SLOT.begin(RoleState.FOLLOWING), epoch)

    @classmethod
    def is_named(cls, before: SlotRole | None, epoch: int) -> SlotRole:
        """The leader by the record."""
        if before is None:
            return cls(SLOT.begin(RoleState.UNPROMISED), epoch)
        return cls(SLOT.to(before.state, RoleState.UNPROMISED), epoch)

    def fences(self) -> None:
        """No promise stands in the way: the epoch is about to be written."""
        self.state = SLOT.to(self.state, RoleState.TAKING_OVER)

    def leads(self) -> None:
        """Its engine lives."""
        self.state = SLOT.to(self.state, RoleState.LEADING)

    def hands_over(self) -> None:
        """It stands still, for its target."""
        self.state = SLOT.to(self.state, RoleState.HANDING_OVER)

    def suspends(self) -> None:
        """It stands still: this process was declared dead."""
        self.state = SLOT.to(self.state, RoleState.SUSPENDED)

    def steps_down(self, epoch: int) -> SlotRole:
        """Another owner leads in this epoch."""
        # A new object, here and in stands(): what is under way for the old one compares identities and finds that it
        # is over.
        return SlotRole(SLOT.to(self.state, RoleState.STEPPING_DOWN), epoch)

    def stands(self, epoch: int) -> SlotRole:
        """It has stepped down, and follows."""
        return SlotRole(SLOT.to(self.state, RoleState.FOLLOWING), epoch)

    def starts_from(self, standby: Standby) -> None:
        """What there is of it while it is about to be led here."""
        self.standby = standby

    def take_standby(self) -> Standby | None:
        """Takes that out: its engine lives, or it follows."""
        standby, self.standby = self.standby, None
        return standby

    def follows_on(self, epoch: int) -> None:
        """A replica still, under a newer record."""
        self.epoch = epoch

    def gathers(self) -> None:
        """Edges have come back to it, or were waited for."""
        self.gathered = True

    def keeps(self, state: LastState) -> None:
        """Its small state, for the head of a new segment while it steps down."""
        self.kept = state

    def waits_longer(self) -> float:
        """A transfer was not answered: so long until the next one is tried."""
        patience = self.patience
        self.patience = min(2 * patience, LAST_RETRY_S)
        return patience
