"""An address of a slot: its queues by type, what it does with messages, and what it holds.

Rule: data; who binds a queue to it keeps its lists (routing/addresses.py). Must not know commands.
"""

from __future__ import annotations

from ..address.address_rules import Rules
from ..address.quota import AddressUsage
from ..queue.filters import Filters
from ..queue.queue import Queue


class Address:
    """An address exists as long as it has queues, or is declared.

    rules   what it does with messages; None: nothing, it is plain.
    filters   who takes what of its multicast queues; None: nobody has ever asked for less than everything.
    start   where the round robin over anycast queues goes on."""

    __slots__ = ("anycast", "declared", "filters", "multicast", "name", "queues", "rules", "start", "stock")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[str, Queue] = {}
        self.anycast: list[Queue] = []
        self.multicast: list[Queue] = []
        self.filters: Filters | None = None
        self.start = 0
        self.declared = False
        self.rules: Rules | None = None
        self.stock: AddressUsage | None = None
        """What it holds, where that has a limit."""

    def obey(self, rules: Rules | None) -> None:
        """What it does with messages from now on."""
        self.rules = rules

    def filter(self) -> None:
        """Some queue of it has a filter: from now on it is looked who takes what."""
        self.filters = Filters(self.name, self.multicast)

    def declare(self, declared: bool) -> None:
        """It stands in the settings, or does so no more."""
        self.declared = declared

    def count(self, stock: AddressUsage | None) -> None:
        """What it holds is counted anew, from nothing on; None: not at all."""
        self.stock = stock

    def turn_on(self, start: int) -> None:
        """The next message goes to the queue after that."""
        self.start = start
