"""Diverts that lead back to where they began: Addresses that forward to each other, directly or over others.

The broker ends such a circle after eight addresses, so each message would be there nine times. Of the Addresses of a
circle the youngest is refused, because without it there was none.

    orders (oldest) → audit → copies (youngest) → orders          copies is refused: "copies → orders → audit → copies"

Rule: pure but for the index. A step looks at each forwarding address once, however many ways lead to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..spec.model import Resource, Table
from ..spec.names import ADDRESS, Id
from .entries import age

Broker = tuple[str, str]
"""(namespace, name)."""


class _Forwards(NamedTuple):
    age: tuple[str, str]
    to: tuple[str, ...]
    """Addresses, without the queue that a destination may name."""


class Circles:
    """Which address forwards to which, by what Addresses say."""

    def __init__(self) -> None:
        self._forwards: dict[Broker, dict[str, dict[Id, _Forwards]]] = {}
        self._places: dict[Id, tuple[Broker, str]] = {}

    def put(self, resource: Resource) -> None:
        """What a resource says now."""
        self.drop(resource.id)
        name, to = _forwards(resource.raw)
        if resource.leaving or not to:
            return
        broker = resource.id.namespace, resource.broker
        self._places[resource.id] = broker, name
        there = self._forwards.setdefault(broker, {}).setdefault(name, {})
        there[resource.id] = _Forwards(age(resource), to)

    def drop(self, id: Id) -> None:
        place = self._places.pop(id, None)
        if place is None:
            return
        broker, name = place
        addresses = self._forwards[broker]
        del addresses[name][id]
        if not addresses[name]:
            del addresses[name]
        if not addresses:
            del self._forwards[broker]

    def through(self, resource: Resource, heard: Callable[[Id, str], bool] = lambda id, name: True) -> list[str]:
        """The addresses of a circle that there would not be without this resource, from its own to its own; [] for
        none. heard: does what an Address says of that address count."""
        place = self._places.get(resource.id)
        if place is None:
            return []
        broker, own = place
        addresses, mine = self._forwards[broker], self._forwards[broker][own][resource.id]
        before: dict[str, str] = {}
        waiting = [own]
        for name in waiting:
            there = [says for id, says in addresses.get(name, {}).items() if heard(id, name)]
            for next in mine.to if name == own else _older(there, mine.age):
                if next == own:
                    return _way(before, own, name)
                if next not in before:
                    before[next] = name
                    waiting.append(next)
        return []


def _older(there: Iterable[_Forwards], than: tuple[str, str]) -> tuple[str, ...]:
    """Of Addresses with one name the oldest counts (entries.conflict)."""
    first = min(there, default=None)
    return first.to if first is not None and first.age < than else ()


def _way(before: dict[str, str], own: str, last: str) -> list[str]:
    way = [own]
    while last != own:
        way.append(last)
        last = before[last]
    return [own, *reversed(way)] if len(way) > 1 else [own, own]


def _forwards(raw: Table) -> tuple[str, tuple[str, ...]]:
    """(address, where its diverts lead); ("", ()) for what has none."""
    spec = raw.get("spec") or {}
    if raw["kind"] != ADDRESS or not spec.get("diverts"):
        return "", ()
    to = [str(one).split("::")[0] for divert in spec["diverts"] for one in divert.get("forward") or ()]
    return str(spec.get("name", "")), tuple(dict.fromkeys(to))
