"""What the settings name: addresses and queues that exist because of them, and the settings of such queues.

Rule: values, looked up once per change of the settings; declare.py acts on them. Must not know what exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from broker.config.addressing import AddressSettings, QueueSettings
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
        return replace(settings, **{key: value for key, value in table.items() if key in _OWN})


class Named:
    """All that one set of settings says, for all slots of a process: tens of thousands of names are read once, not
    once per slot."""

    __slots__ = ("_nothing", "_slots", "match", "settings")

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.match = match = Matcher(settings)
        self._nothing = Declarations(match)
        self._slots: dict[int, Declarations] = {}
        for name, address, slots in _queues(settings, match):
            for slot in slots:
                self._of(slot).queues[address, name] = settings.queues[name]
        for name, places in _addresses(settings, match):
            for slot in places:
                self._of(slot).addresses.add(name)

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
    if not _latest or _latest[0].settings is not settings:
        _latest[:] = [Named(settings)]
    return _latest[0]


def places(settings: EngineSettings) -> set[int]:
    """All slots in which something is declared."""
    return named(settings).places()


def _queues(settings: EngineSettings, match: Matcher) -> Iterator[tuple[str, str, tuple[int, ...] | range]]:
    """(queue, address, slots); a wildcard's queue is in all of them, as its consumers are."""
    for name, table in settings.queues.items():
        address = table.get("address") or name
        everywhere = match.is_pattern(address)
        yield name, address, range(SLOTS) if everywhere else slots_of(address, match(address).partitions)


def _addresses(settings: EngineSettings, match: Matcher) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, table in settings.addresses.items():
        if table.get("declared") and not match.is_pattern(name):
            yield name, slots_of(name, match(name).partitions)
