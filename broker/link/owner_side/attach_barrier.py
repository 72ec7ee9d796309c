"""What edges ask of a slot while its new leader still waits for some of them.

Rule: consumers come in at once, all else waits, in the order in which it came, until every edge may have come: a
message that was routed before would pass by the subscriptions of an edge that attaches late, for nothing but the memory
of the last leader knew of them. Must not know why the wait ends.
"""

# Example. B leads slot 9 since a moment; edges E and F live. E's consumer holds message 4, F's a topic subscriber.
#     E attaches   passes at once: the engine learns that 4 is with E's consumer, and gives it to nobody else
#     E's SEND     to the topic: waits. F's subscriber is not known here yet, and would miss it for ever
#     F attaches   passes. F has told everything (Open told): `news` says so to the slot lifecycle
#     let_in       all live edges are there, or 0.2 s are over: what waited is carried out in the order in which it
#                  came, so much in a step of the loop. What comes meanwhile waits behind it

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from broker.core.commands import Command, Subscribe

from ..codec.codec import Open

Peer = TypeVar("Peer")
Waiting = Command | Open


class AttachBarrier(Generic[Peer]):
    """Slots that are led here and do not take everything yet.

    waiting   slot → whose it is, behind which Open of his it came, what it is."""

    __slots__ = ("_called", "_queued", "news", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, deque[tuple[Peer, int, Waiting]]] = {}
        self._queued: dict[int, set[tuple[Peer, int]]] = {}
        """Who has something waiting: nothing of his may overtake that."""
        self._called: dict[int, Callable[[], None]] = {}
        self.news: dict[int, None] = {}

    def open(self, slot: int, news: Callable[[], None]) -> None:
        """From now on things wait. `news` is called when another edge has told everything."""
        self.waiting[slot] = deque()
        self._queued[slot] = set()
        self._called[slot] = news

    def release(self, slot: int, most: int) -> list[tuple[Peer, int, Waiting]]:
        """What has waited longest is let in now, so much of it. When that was all, nothing waits there any more."""
        self._called.pop(slot, None)
        waiting = self.waiting.get(slot, deque())
        taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        if not waiting:
            self.close(slot)
        return taken

    def close(self, slot: int) -> None:
        """Nothing waits any more: what did is forgotten."""
        self._called.pop(slot, None)
        self._queued.pop(slot, None)
        self.waiting.pop(slot, None)

    def passes(self, peer: Peer, opening: int, command: Waiting) -> bool:
        """Need it not wait, in a slot where things do: it attaches a consumer again, and stands before all else."""
        attaches = type(command) is Subscribe and command.resume is not None
        # Of the same edge in the same opening order is kept: a Subscribe behind an Unsubscribe that waits must wait,
        # too.
        return attaches and (peer, opening) not in self._queued[command.slot]

    def keep_back(self, peer: Peer, opening: int, command: Waiting) -> None:
        self._queued[command.slot].add((peer, opening))
        self.waiting[command.slot].append((peer, opening, command))

    def told(self, slot: int) -> None:
        """An edge has told everything; what it told is on its way to the shard."""
        if slot in self._called:
            # Not at once: what it told has to be with the shard first, or the slot would be opened before its last
            # consumer is in.
            self.news[slot] = None

    def call(self) -> None:
        """It is with the shard."""
        if self.news:
            news, self.news = self.news, {}
            for slot in news:
                if (called := self._called.get(slot)) is not None:
                    called()
