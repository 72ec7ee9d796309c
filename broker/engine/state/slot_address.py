"""An address of a slot: its queues by type, what it does with messages, and what it holds.

Rule: data; routing/addresses.py binds queues to it and keeps its lists. Must not know commands.
"""

from __future__ import annotations

from broker.core.address import Routing

from ..address.address_rules import Rules
from ..address.quota import AddressUsage
from ..queue.filters import Filters
from ..queue.queue import Queue


class Address:
    """An address exists as long as it has queues, or is declared.

    rules   what it does with messages; None: nothing, it is plain.
    filters   who takes what of its multicast queues; None: nobody has ever asked for less than everything.
    start   where the round robin over anycast queues goes on."""

    __slots__ = (
        "_counted", "_selective", "anycast", "declared", "filters", "multicast", "name", "queues", "quota", "rules",
        "start",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[str, Queue] = {}
        self.anycast: list[Queue] = []
        self.multicast: list[Queue] = []
        self.filters: Filters | None = None
        self.start = 0
        self.declared = False
        self.rules: Rules | None = None
        self.quota: AddressUsage | None = None
        """What it holds, where that has a limit."""
        self._counted = 0
        self._selective: set[str] | None = None
        """Names of queues that were selective when they were noted; how many have a maker: to ask all of 20,000
        queues whenever one goes would be 8 ms."""

    def came(self, queue: Queue) -> None:
        """It is one of its queues from now on."""
        self.queues[queue.name] = queue
        (self.anycast if queue.routing is Routing.ANYCAST else self.multicast).append(queue)
        self._counted += queue.counted()
        self.note(queue)

    def note(self, queue: Queue) -> bool:
        """What enters one of its queues may have changed; has it."""
        known = self._selective
        if queue.selective() is (known is not None and queue.name in known):
            return False
        if known is None:
            known = self._selective = set()
        known ^= {queue.name}
        return True

    def went(self, queue: Queue) -> None:
        """It is none of its queues any more."""
        del self.queues[queue.name]
        (self.anycast if queue.routing is Routing.ANYCAST else self.multicast).remove(queue)
        self._counted -= queue.counted()
        if self._selective is not None:
            self._selective.discard(queue.name)

    @property
    def selective(self) -> bool:
        """Does not every message enter all of its queues."""
        return bool(self._selective or self.filters)

    @property
    def counted(self) -> bool:
        """Has one of its queues a maker, and a name to send to."""
        return self._counted > 0

    def obey(self, rules: Rules | None) -> None:
        """What it does with messages from now on."""
        self.rules = rules

    def filter(self) -> None:
        """Some queue of it has a filter: from now on it is looked who takes what."""
        self.filters = Filters(self.name, self.multicast)

    def declare(self, declared: bool) -> None:
        """It stands in the settings, or does so no more."""
        self.declared = declared

    def count(self, quota: AddressUsage | None) -> None:
        """What it holds is counted anew, from nothing on; None: not at all."""
        self.quota = quota

    def turn_on(self, start: int) -> None:
        """The next message goes to the queue after that."""
        self.start = start
