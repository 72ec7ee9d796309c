"""What the life of slots in one owner (slot_lifecycle.py) asks of those around it.

Rule: declared here, so that imports point down; which objects do it is known where they meet (app/owner.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from broker.core.slots import SlotRecord

from .standby import Standby


class EdgeServer(Protocol):
    """What accepts commands from edges (link.LinkServer)."""

    def serve(self, slot: int, epoch: int, news: Callable[[], None] | None = None) -> None:
        """`news`: only consumers that attach again get in before let_in(); called when an edge has told everything."""
        ...

    def let_in(self, slot: int) -> None: ...
    def unserve(self, slot: int, over: bool = False) -> None:
        """over: its engine goes, too, and will not be served again in this epoch."""
        ...

    def attached(self, slot: int) -> set[str]:
        """Edges that have told everything about the slot, in this epoch."""
        ...


class SlotRecords(Protocol):
    """Changes slot records: done(the new record, or None when it was not changed or nobody knows)."""

    def change(self, record: SlotRecord, new: SlotRecord, done: Callable[[SlotRecord | None], None]) -> None: ...


class Leading(Protocol):
    """The leader side of replication (leader.py)."""

    def lead(self, record: SlotRecord) -> None: ...
    def update(self, record: SlotRecord) -> None: ...
    def resign(self, slot: int) -> None: ...


class FollowerPort(Protocol):
    """The follower side (follower.py)."""

    def follow(self, standby: Standby, epoch: int) -> None: ...
    def unfollow(self, slot: int) -> Standby | None: ...
    def promised_until(self, slot: int) -> float: ...


class Crossings(Protocol):
    """Transactions over slots (coordinator.py)."""

    def resume(self, engine: Any) -> None: ...
