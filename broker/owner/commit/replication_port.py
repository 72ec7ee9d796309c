"""What the shard asks of replication, and the answer of a process that has none.

Rule: numbers are the shard's commit numbers; `ready` is what may be told, `may_dispatch` what may be handed out.
Must not know streams, epochs or followers: see leader.py.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from broker.core.records import Item


class Replicas(Protocol):
    """See docs/adr/0004. All calls in the loop's thread.

    backlog   bytes sealed that some in-sync follower does not have yet: producers are paused above a bound.
    alone     there are no followers and never will be: the local disk is all that counts."""

    alone: ClassVar[bool]
    backlog: int

    def sealed(self, number: int, items: list[Item]) -> None:
        """The commit `number` is closed and on its way to the local disk. Numbers come in order, none is left out."""
        ...

    def committed(self, number: int) -> None:
        """It is on the local disk."""
        ...

    def ready(self, slot: int) -> int:
        """The highest commit of which everything of this slot is on the local disk and on those of all in-sync
        followers. Never above the local one."""
        ...

    def may_dispatch(self, slot: int) -> bool:
        """Does every in-sync follower promise that nobody else leads the slot now."""
        ...


class Alone:
    """One copy: what is on the local disk counts."""

    alone: ClassVar[bool] = True
    __slots__ = ("_committed", "backlog")

    def __init__(self) -> None:
        self.backlog = 0
        self._committed = 0

    def sealed(self, number: int, items: list[Item]) -> None:
        pass

    def committed(self, number: int) -> None:
        self._committed = number

    def ready(self, slot: int) -> int:
        # Nobody else is needed, so `ready` is the same for all slots.
        return self._committed

    def may_dispatch(self, slot: int) -> bool:
        return True
