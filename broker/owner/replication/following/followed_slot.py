"""A slot that is followed here: whose items count for it, and whether what is here is whole.

Rule: only the methods here change its state, and the table says which may follow which. Must not know epochs, promises
or the journal: the caller of a move has seen to those (follower.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from broker.core.states import StateTable

from ...slots.standby import Standby
from .leader_stream import LeaderStream


class FollowedState(Enum):
    """Of a slot, at its follower."""

    UNLED = "unled"
    """Nobody's items count. What is here stays: it is whole, as far as it goes."""
    LED = "led"
    """The items of one stream count, that of the highest epoch which is known; the journal has that epoch."""
    COPYING = "copying"
    """That stream sends a copy of the slot. What is here is of no moment at all until its end: nothing of it may be
    read, and nobody may lead from it."""
    HALF = "half"
    """A copy was begun, and its stream is gone. What is here is worth nothing: it is forgotten before anything new is
    taken, or when the slot is not followed any more."""


FOLLOWED: Final = StateTable(
    "A slot that is followed, at its follower (`owner/replication/following/followed_slot.py`; decided in"
    " `owner/replication/following/follower.py`).",
    FollowedState,
    {FollowedState.UNLED: "it is followed here from now on"},
    {
        FollowedState.UNLED: {FollowedState.LED: "the leader of the highest epoch asks what is here"},
        FollowedState.LED: {
            FollowedState.UNLED: "the stream is over, its leader has resigned, or what it sent cannot be used",
            FollowedState.COPYING: "a copy begins",
        },
        FollowedState.COPYING: {
            FollowedState.LED: "the copy is whole, or a leader asks, and its beginning is forgotten",
            FollowedState.HALF: "the stream is over, its leader has resigned, or what it sent cannot be used",
        },
        FollowedState.HALF: {FollowedState.LED: "a leader asks, and the half is forgotten"},
    },
    dict.fromkeys(FollowedState, "it is not followed here any more"),
)
PARTIAL: Final = frozenset((FollowedState.COPYING, FollowedState.HALF))
"""What is here is not whole."""


class FollowedSlot:
    """source   the stream whose items count, None: nobody's do.
    counted  the last item of which its leader has said that it counts; None: nobody has said so yet."""

    __slots__ = ("counted", "source", "standby", "state")

    def __init__(self, standby: Standby) -> None:
        self.state = FOLLOWED.begin(FollowedState.UNLED)
        self.standby = standby
        self.source: LeaderStream | None = None
        self.counted: int | None = None

    @property
    def partial(self) -> bool:
        """A copy was begun and not ended."""
        return self.state in PARTIAL

    def led_by(self, stream: LeaderStream) -> None:
        """Its items count from now on, and nobody else's. What was half has been forgotten (empties)."""
        if self.state is not FollowedState.LED:
            self.state = FOLLOWED.to(self.state, FollowedState.LED)
        self.source = stream

    def left_alone(self) -> None:
        """The items of its stream count no more."""
        self.state = FOLLOWED.to(self.state, FollowedState.HALF if self.partial else FollowedState.UNLED)
        self.source = None

    def copies(self, standby: Standby) -> None:
        """A copy begins, into this one. One that was under way is sent anew."""
        if self.state is not FollowedState.COPYING:
            self.state = FOLLOWED.to(self.state, FollowedState.COPYING)
        self.empties(standby)

    def is_whole(self) -> None:
        """The copy has ended."""
        self.state = FOLLOWED.to(self.state, FollowedState.LED)

    def empties(self, standby: Standby) -> None:
        """What was here is forgotten, for this one."""
        self.standby = standby
        self.counted = None

    def starts_from(self, standby: Standby) -> None:
        """Another standby, made by what has read the log anew."""
        self.standby = standby

    def counts(self, lsn: int) -> None:
        """Its leader says that everything up to there counts. It never becomes less: clients have been told of it."""
        self.counted = max(lsn, self.counted or 0)
