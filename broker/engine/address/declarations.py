"""What the settings name: addresses and queues that exist because of them, and the settings of such queues.

Rule: values, looked up once per change of the settings; declare.py acts on them. Must not know what exists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import chain, islice
from typing import Any

from broker.config.addressing import AddressSettings, DivertSettings, QueueSettings
from broker.config.settings import EngineSettings
from broker.core.ids import SLOTS, slots_of

from .address_settings import Matcher

_OWN = {field.name for field in fields(QueueSettings)} & {field.name for field in fields(AddressSettings)}
"""What a queue may have otherwise than its address."""


class Declarations:
    """Those of one slot.

    queues      (address, name) → the table of the queue.    addresses   those that exist without queues."""

    __slots__ = ("_match", "addresses", "queues")

    def __init__(self, match: Matcher) -> None:
        self._match = match
        self.queues: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.addresses: set[str] = set()

    def settings(self, address: str, name: str) -> AddressSettings:
        """What applies to a queue: its own settings over those of its address."""
        settings, table = self._match(address), self.queues.get((address, name))
        if table is None:
            return settings
        return self._match.derived(settings, {key: value for key, value in table.items() if key in _OWN})


class Named:
    """All that one set of settings says, for all slots of a process: tens of thousands of names are read once, not
    once per slot."""

    __slots__ = ("_left", "_nothing", "_slots", "diverts", "match", "settings")

    def __init__(self, settings: EngineSettings) -> None:
        """Empty: grow() until it has all."""
        self.settings = settings
        self.match = match = Matcher(settings)
        self.diverts: dict[str, tuple[tuple[str, DivertSettings], ...]] = {}
        """Address → (name, settings) of those that start there, by name."""
        self._nothing = Declarations(match)
        self._slots: dict[int, Declarations] = {}
        self._left: Iterator[None] = chain(self._queues(), self._addresses(), self._diverts())

    def grow(self, most: int = sys.maxsize) -> bool:
        """Reads so many names more; True: there are others."""
        # Exactly `most` read says nothing of what is left; asked once more it reads none, and says that it has all.
        return sum(1 for _ in islice(self._left, most)) == most

    def _queues(self) -> Iterator[None]:
        """One of a wildcard is in all slots, as its consumers are."""
        match, queues = self.match, self.settings.queues
        for name, table in queues.items():
            address = table.get("address") or name
            everywhere = match.is_pattern(address)
            # A wildcard's queue is needed wherever a matching message may come, and that is any slot.
            for slot in range(SLOTS) if everywhere else slots_of(address, match(address).partitions):
                self._of(slot).queues[address, name] = table
            yield

    def _addresses(self) -> Iterator[None]:
        match = self.match
        for name, table in self.settings.addresses.items():
            if table.get("declared") and not match.is_pattern(name):
                for slot in slots_of(name, match(name).partitions):
                    self._of(slot).addresses.add(name)
            yield

    def _diverts(self) -> Iterator[None]:
        for name, table in sorted(self.settings.diverts.items()):
            divert = DivertSettings(**table)
            self.diverts[divert.address] = (*self.diverts.get(divert.address, ()), (name, divert))
            yield

    def _of(self, slot: int) -> Declarations:
        return self._slots.setdefault(slot, Declarations(self.match))

    def declarations(self, slot: int) -> Declarations:
        """To be read only."""
        return self._slots.get(slot, self._nothing)

    def places(self) -> set[int]:
        """Slots in which something is declared."""
        return set(self._slots)


_latest: list[Named] = []


def named(settings: EngineSettings) -> Named:
    """What these settings say; made anew only when they are others than the last time."""
    # Identity, not equality: to compare tens of thousands of tables would cost more than it saves. One is kept: all
    # slots of a process have the same settings but for moments.
    if not _latest or _latest[0].settings is not settings:
        fresh = Named(settings)
        fresh.grow()
        keep(fresh)
    return _latest[0]


def keep(latest: Named) -> None:
    """named() answers with this one: it has all that its settings say."""
    _latest[:] = [latest]


def reading(settings: EngineSettings, most: int) -> Iterator[None]:
    """Reads what they say, so many names a step, and keep()s it."""
    latest = Named(settings)
    while latest.grow(most):
        yield
    keep(latest)


def places(settings: EngineSettings) -> set[int]:
    """All slots in which something is declared."""
    return named(settings).places()
