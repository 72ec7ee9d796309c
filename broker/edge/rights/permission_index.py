"""Which entries of edge.permissions have a say about an address, found without looking at all of them.

    exact names          by name
    patterns             by shape: those that differ in their literal words alone (`a.*.#`, `b.*.#`) are one table,
                         asked once; of what the shapes find the most specific decides
    a pattern asked for  by its first word: `orders.*` meets what begins with `orders`, `*` or `#`, and nothing else

An entry comes and goes without any other being looked at, so one of 100,000 that is changed stops nobody.

Rule: pure; finds and never decides. Must not know users, sessions or virtual hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from broker.config.permissions import FQQN, groups_of
from broker.engine.address.address_settings import covers, is_pattern, matches, overlap, specificity

MOST_SETS = 1000
"""Sets of groups whose operations are remembered, of each different set of values."""
_WILD = ("*", "#")


class Said:
    """What one or many entries say, word for word."""

    __slots__ = ("_entries", "_known", "values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self._entries = 0
        """How many say it."""
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def by_one_more(self) -> None:
        """Another entry says it."""
        self._entries += 1

    def by_one_less(self) -> bool:
        """One of them is gone. True: it was the last."""
        self._entries -= 1
        return not self._entries

    def operations(self, groups: frozenset[str]) -> frozenset[str]:
        """Theirs."""
        found = self._known.get(groups)
        if found is None:
            if len(self._known) >= MOST_SETS:
                self._known.clear()
            theirs = (operation for operation, text in self.values.items() if groups_of(text) & groups)
            found = self._known[groups] = frozenset(theirs)
        return found

    def groups(self, operation: str) -> frozenset[str]:
        """Whose an operation is."""
        return groups_of(self.values.get(operation, ""))


class PermissionEntry:
    """One match, as its table has it (match) and as clients of its virtual host know it (name)."""

    __slots__ = ("match", "name", "said")

    def __init__(self, match: str, name: str, said: Said) -> None:
        self.match = match
        self.name = name
        self.said = said


class _Shape:
    """Patterns that differ in their literal words alone. at: where those are. stars: where a `*` is. rest: it ends with
    `#`."""

    __slots__ = ("_at", "_count", "_rest", "_stars", "entries")

    def __init__(self, at: tuple[int, ...], stars: tuple[int, ...], rest: bool) -> None:
        self._at = at
        self._stars = stars
        self._rest = rest
        self._count = len(at) + len(stars)
        self.entries: dict[tuple[str, ...], PermissionEntry] = {}

    def find(self, words: list[str]) -> PermissionEntry | None:
        """The one that stands for this address: there is no other of the same shape."""
        if len(words) != self._count and not (self._rest and len(words) > self._count):
            return None
        for n in self._stars:
            if not words[n]:
                return None
        return self.entries.get(tuple([words[n] for n in self._at]))


class PermissionIndex:
    """The entries of one virtual host."""

    __slots__ = ("_delimiter", "_exact", "_first", "_odd", "_queues", "_shapes", "_sorted", "_twins")

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._exact: dict[str, PermissionEntry] = {}
        self._queues: dict[str, PermissionEntry] = {}
        """Of one queue each."""
        self._shapes: dict[tuple[tuple[int, ...], int, bool], _Shape] = {}
        self._odd: dict[str, PermissionEntry] = {}
        """`#` stands in the middle: no config has such, a table may."""
        self._first: dict[str, list[PermissionEntry]] = {}
        """All but those of queues, by their first word."""
        self._sorted: list[PermissionEntry] | None = None
        self._twins: dict[str, list[PermissionEntry]] = {}
        """Entries of one name, where there are several: a table can spell a queue of a host in two ways, and what rests
        at `$scheduled.$host/shop.orders` also as `$host/shop$scheduled.orders`. One of them counts, whichever came
        first."""

    def __len__(self) -> int:
        return len(self._queues) + sum(map(len, self._first.values()))

    def put(self, entry: PermissionEntry) -> None:
        """A new one; there is none of its match."""
        words, place, key = self._whereabouts(entry.name)
        had = place.get(key)
        if had is not None:
            twins = self._twins.setdefault(entry.name, [had])
            twins.append(entry)
            entry = max(twins, key=_spelling)
        place[key] = entry
        self._list(words, had, entry)

    def drop(self, name: str, match: str) -> None:
        """It is gone. match: as its table had it."""
        words, place, key = self._whereabouts(name)
        had, other = place.pop(key), None
        twins = self._twins.get(name)
        if twins is not None:
            twins[:] = [twin for twin in twins if twin.match != match]
            other = place[key] = max(twins, key=_spelling)
            if len(twins) == 1:
                del self._twins[name]
        self._list(words, had, other)
        if not place and place is not self._queues:
            self._shapes = {shape: kept for shape, kept in self._shapes.items() if kept.entries}

    def of(self, address: str, name: str) -> PermissionEntry | None:
        """The entry that has the last word there, because it speaks of all of it; None: there is none, and so it is for
        nobody. name: the address, or `address::queue`."""
        queue = self._queues.get(name)
        if not is_pattern(address, self._delimiter):
            return queue or self._exact.get(address) or self._narrowest(address.split(self._delimiter))
        widest = self._covering(address.split(self._delimiter))
        # A queue of many addresses: none of them is shown by its name.
        return widest if widest is None or queue is None else queue

    def some(self, address: str, name: str) -> list[PermissionEntry]:
        """The other entries that decide about addresses of this pattern; of an address there are none."""
        delimiter = self._delimiter
        if not is_pattern(address, delimiter):
            return []
        words = address.split(delimiter)
        last, queue = self._covering(words), self._queues.get(name)
        found = list(self._near(words[0]))
        if words != ["#"]:
            found = [entry for entry in found if overlap(entry.name.split(delimiter), words)]
        if last is None:
            return found if queue is None else [*found, queue]
        if last.name != "#":  # nothing is more general than that
            order = self._order(last)
            found = [entry for entry in found if self._order(entry) >= order]
        return [entry for entry in found if entry is not last or queue is not None]

    @property
    def entries(self) -> list[PermissionEntry]:
        """Those that are of no queue, from specific to general, exact names first."""
        if self._sorted is None:
            self._sorted = sorted(chain.from_iterable(self._first.values()), key=self._order, reverse=True)
        return self._sorted

    def _narrowest(self, words: list[str]) -> PermissionEntry | None:
        """The most specific pattern that stands for this address."""
        found = [entry for shape in self._shapes.values() if (entry := shape.find(words)) is not None]
        if self._odd:
            found += [entry for entry in self._odd.values() if matches(entry.name.split(self._delimiter), words)]
        return max(found, key=self._order) if len(found) > 1 else found[0] if found else None

    def _covering(self, words: list[str]) -> PermissionEntry | None:
        """The most specific pattern that stands for all addresses of this one."""
        delimiter, first = self._delimiter, words[0]
        # What stands for `*.x` begins with a `*` or `#` itself: not all need be looked at.
        near = self._near(first) if first not in _WILD else chain.from_iterable(map(self._begun, _WILD))
        wide = (entry for entry in near if is_pattern(entry.name, delimiter))
        whole = [entry for entry in wide if covers(entry.name.split(delimiter), words)]
        return max(whole, key=self._order) if whole else None

    def _near(self, first: str) -> Iterable[PermissionEntry]:
        """What may have an address in common with a pattern that begins so."""
        if first in _WILD:
            return chain.from_iterable(self._first.values())
        return chain.from_iterable(map(self._begun, (first, *_WILD)))

    def _begun(self, first: str) -> Sequence[PermissionEntry]:
        """Those with this first word."""
        return self._first.get(first, ())

    def _whereabouts(self, name: str) -> tuple[list[str] | None, dict[Any, PermissionEntry], Any]:
        """Its words, and where it is found, as what; no words: it is of one queue."""
        if FQQN in name:
            return None, self._queues, name
        words = name.split(self._delimiter)
        return words, *self._place(words, name)

    def _list(self, words: list[str] | None, old: PermissionEntry | None, new: PermissionEntry | None) -> None:
        """By their first word: this one in place of that one."""
        if words is None or old is new:
            return
        self._sorted = None
        listed = self._first.setdefault(words[0], [])
        if old is not None:
            listed.remove(old)
        if new is not None:
            listed.append(new)
        elif not listed:
            del self._first[words[0]]

    def _order(self, entry: PermissionEntry) -> tuple[Any, ...]:
        """Sorts from general to specific."""
        return not is_pattern(entry.name, self._delimiter), specificity(entry.name, self._delimiter)

    def _place(self, words: list[str], name: str) -> tuple[dict[Any, PermissionEntry], Any]:
        """Where an entry of no queue is found, and as what."""
        if "*" not in words and "#" not in words:
            return self._exact, name
        if "#" in words[:-1]:
            return self._odd, name
        rest = words[-1] == "#"
        front = words[:-1] if rest else words
        at = tuple([n for n, word in enumerate(front) if word != "*"])
        shape = at, len(front), rest
        found = self._shapes.get(shape)
        if found is None:
            stars = tuple([n for n, word in enumerate(front) if word == "*"])
            found = self._shapes[shape] = _Shape(at, stars, rest)
        return found.entries, tuple([front[n] for n in at])


def _spelling(entry: PermissionEntry) -> str:
    return entry.match
