"""How many partitions addresses have, and how many of them messages may go to by now.

Rule: subscribers first, senders last. Messages go to new partitions when every edge that lives has heard of them, its
subscriptions have parts there (growing.py), and so have those that nobody uses (Newcomers). A later change of settings
takes the place of one that is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from broker.config.settings import EngineSettings
from broker.engine.address.address_settings import Matcher

from .partitioner import partitions_by_pattern

Then = Callable[[], None]


class Newcomers(Protocol):
    """Who sees to the subscriptions that nobody uses."""

    def follow(self, grown: Callable[[str], Sequence[int]], then: Then) -> None:
        """grown(address): all its slots, if it has new ones. `then` is called when every durable subscription is in
        all of them, unless follow() is called again before."""
        ...


class Growing(Protocol):
    """What the edge does for it."""

    def subscribers_follow(self, then: Then) -> None:
        """Every open subscription gets its parts."""
        ...

    def others_have_heard(self, then: Then) -> None:
        """Called when every edge that lives has: none goes without the store for longer than a lease."""
        ...

    def senders_follow(self) -> None:
        """What is known of routes is read anew."""
        ...

    def slots(self, address: str) -> Sequence[int]: ...


class PartitionGrowth:
    """match   the settings of an address."""

    __slots__ = ("_change", "_edge", "_newcomers", "_sending", "_split", "match")

    def __init__(self, edge: Growing, settings: EngineSettings) -> None:
        self._edge = edge
        self.match = self._sending = Matcher(settings)
        self._split = partitions_by_pattern(settings)
        """The partitions that messages go to."""
        self._change = 0
        """Number of the last one; an earlier one that is under way goes nowhere."""
        self._newcomers: Newcomers | None = None

    def partitions(self, address: str) -> int:
        return self.match(address).partitions

    def sent_partitions(self, address: str) -> int:
        """Those that messages may go to."""
        return self._sending(address).partitions

    def configure(self, settings: EngineSettings) -> None:
        """Address settings have changed."""
        self.match = Matcher(settings)
        self._change += 1
        split = partitions_by_pattern(settings)
        self._edge.subscribers_follow(partial(self._followed, self._change, split))

    def grow_with(self, newcomers: Newcomers, grown: Mapping[str, int], engine: EngineSettings) -> None:
        """grown: addresses that have more partitions already, and how many of them messages may go to until those
        have subscribers."""
        self._newcomers = newcomers
        if grown:
            wanted, addresses = self._split, dict(engine.addresses)
            for address, partitions in grown.items():
                addresses[address] = {**addresses.get(address, {}), "partitions": partitions}
            before = replace(engine, addresses=addresses)
            self._sending, self._split = Matcher(before), partitions_by_pattern(before)
            self._prepare(self._change, wanted)

    def _followed(self, change: int, split: dict[str, object]) -> None:
        """Every subscription of this edge is where messages may go from now on."""
        self._edge.others_have_heard(partial(self._prepare, change, split))

    def _prepare(self, change: int, split: dict[str, object]) -> None:
        """Subscriptions that nobody uses come first. Also those that were made while others had not heard of it."""
        if change == self._change:
            if self._newcomers is None or split == self._split:
                self._send_there(change, split)
            else:
                self._newcomers.follow(self._grown, partial(self._send_there, change, split))

    def _grown(self, address: str) -> Sequence[int]:
        """Where a message for it goes soon, if it may go elsewhere now."""
        return self._edge.slots(address) if self.partitions(address) > self.sent_partitions(address) else ()

    def _send_there(self, change: int, split: dict[str, object]) -> None:
        """Messages follow new partitions."""
        if change == self._change:
            self._sending, self._split = self.match, split
            self._edge.senders_follow()
