"""Which settings an address has: exact name first, then patterns from specific to general, then the defaults.

Rule: Artemis' match rules: words split by `.`, `*` is exactly one word, `#` any number of words (in the middle, too, as
in AMQP's topics); a setting that the more specific table does not have is taken from the next. Must not know queues.
"""

# Example. engine.addresses has `#`, `orders.#`, `orders.*` and `orders.eu`. What orders.eu gets, the later over the
# earlier:
#     defaults     engine.address
#     `#`          the most general pattern; the longer a pattern with `#`, the more it names: `orders.#` comes behind
#                  it
#     `orders.*`   says how many words there are, so it is more specific than any `#`
#     `orders.eu`  its exact name, last of all
# `orders.eu.fr` gets the defaults, `#` and `orders.#`: `*` is exactly one word.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import RECURRING, TEMPORARY, Routing
from broker.core.virtual_host import HOST, VirtualHost, split, whose

_TEMPORARY = AddressSettings(routing_types="MULTICAST")
_RECURRING = AddressSettings(
    routing_types="ANYCAST", dead_letter_address="", max_size_messages=10_000, full_policy="FAIL"
)
"""Whatever is said of `#`: a life time, a ring or a pause is about what is sent, not about when."""
_LETTERS = ("dead_letter_address", "expiry_address")
_REMEMBERED = 32_768
"""Addresses whose settings are kept; names of reply topics would pile up else."""


class Matcher:
    """Looks settings up by address, and remembers. delimiter: between the words of a name."""

    __slots__ = ("_default", "_derived", "_exact", "_hosts", "_memo", "_patterns", "_values", "delimiter")

    def __init__(self, settings: EngineSettings) -> None:
        self.delimiter = settings.wildcard_delimiter
        self._default = settings.address
        tables: dict[str, Any] = {}
        self._hosts: dict[str, Matcher] = {}
        """Virtual host → its own entries, by the names that its clients use."""
        theirs: dict[str, dict[str, Any]] = {}
        for name, table in settings.addresses.items():
            host, local = split(name)
            (theirs.setdefault(host, {}) if host else tables)[local] = table
        for host, own in theirs.items():
            self._hosts[host] = Matcher(replace(settings, addresses=own))
        self._exact = {name: table for name, table in tables.items() if not self.is_pattern(name)}
        # From general to specific, so that later tables overwrite earlier ones.
        patterns = (name for name in tables if self.is_pattern(name))
        names = sorted(patterns, key=lambda name: specificity(name, self.delimiter))
        self._patterns: list[tuple[list[str], Any]] = [(self.words(name), tables[name]) for name in names]
        self._memo: dict[str, AddressSettings] = {}
        self._derived: dict[tuple[Any, ...], tuple[AddressSettings, AddressSettings]] = {}
        self._values: dict[str, set[Any]] = {}

    def __call__(self, address: str) -> AddressSettings:
        if address.startswith("$"):
            if address.startswith(TEMPORARY):
                return _TEMPORARY
            if address.startswith(RECURRING):
                return _RECURRING
            if address.startswith(HOST):
                return self._of_host(address)
        # Without entries nothing is remembered either: a million names cost nothing.
        if not self._exact and not self._patterns:
            return self._default
        found = self._memo.get(address)
        if found is None:
            if len(self._memo) >= _REMEMBERED:
                self._memo.clear()
            found = self._memo[address] = self._merge(address)
        return found

    def _of_host(self, address: str) -> AddressSettings:
        """By the entries of its virtual host alone; letters stay in it."""
        found = self._memo.get(address)
        if found is None:
            if len(self._memo) >= _REMEMBERED:
                self._memo.clear()
            name, local = split(address)
            own = self._hosts[name](local) if name in self._hosts else self._default
            # A letter of one virtual host must not land in a queue that clients of another one can read.
            host = VirtualHost(name, self.delimiter)
            letters = {
                field: host.kept(value) for field in _LETTERS if (value := getattr(own, field)) and name
            }  # fmt: skip
            found = self._memo[address] = self.derived(own, letters)
        return found

    def _merge(self, address: str) -> AddressSettings:
        words = self.words(address)
        merged: dict[str, Any] = {}
        for pattern, table in self._patterns:
            if matches(pattern, words):
                merged.update(table)
        merged.update(self._exact.get(address, {}))
        return self.derived(self._default, merged)

    def derived(self, base: AddressSettings, changes: Mapping[str, Any]) -> AddressSettings:
        """`base` with these changes; the same for the same ones: to make one is 30 µs, and 10,000 names have few."""
        if not changes:
            return base
        key = (id(base), *sorted(changes.items()))
        known = self._derived.get(key)
        if known is None:
            if len(self._derived) >= _REMEMBERED:
                self._derived.clear()
            known = self._derived[key] = (base, replace(base, **changes))  # an id is good as long as its object lives
        return known[1]

    def values(self, name: str) -> set[Any]:
        """All that any address may have as setting `name`."""
        found = self._values.get(name)
        if found is None:
            # Not per address: whoever asks for all values has a few tables to look at, and not all addresses there
            # may ever be.
            tables = [*self._exact.values(), *(table for _, table in self._patterns)]
            found = {getattr(self._default, name), *(table[name] for table in tables if name in table)}
            for host, own in self._hosts.items():
                theirs, of = own.values(name), VirtualHost(host, self.delimiter)
                found.update({of.kept(value) for value in theirs} if name in _LETTERS else theirs)
            self._values[name] = found
        return found

    def anywhere(self, name: str, address: str) -> bool:
        """May the yes/no setting `name` be on at this address, or at one that this pattern stands for."""
        if not self.is_pattern(address):
            return bool(getattr(self(address), name))
        if getattr(self._default, name):
            return True
        host, local = split(address)
        if host:
            return self._hosts[host].anywhere(name, local) if host in self._hosts else False
        words = self.words(address)
        # A pattern may cover an address that no settings name: then only what is said of patterns, or of names below
        # it, counts.
        exact = (self.words(other) for other, table in self._exact.items() if table.get(name))
        return any(matches(words, other) for other in exact) or any(
            overlap(words, pattern) for pattern, table in self._patterns if table.get(name)
        )

    def words(self, name: str) -> list[str]:
        """The parts of a name or pattern."""
        return name.split(self.delimiter)

    def is_pattern(self, name: str) -> bool:
        """See is_pattern()."""
        return is_pattern(name, self.delimiter)


def plain_routing(settings: AddressSettings) -> Routing:
    """What a destination means that does not say, where the address has no queues yet."""
    if settings.routing_types in ("ANYCAST", "MULTICAST"):
        return Routing[settings.routing_types]
    return Routing[settings.default_routing]


def specificity(name: str, delimiter: str = ".") -> tuple[bool, int, bool, list[bool]]:
    """Sorts patterns that may match the same address from general to specific."""
    words = name.split(delimiter)
    # False sorts before True: patterns with `#` first, the shorter before the longer; then those with `*`, where of
    # two the one whose `*` stands further left is the more general one.
    rest = "#" in words
    return not rest, len(name) if rest else 0, "*" not in words, [word != "*" for word in words]


def is_pattern(name: str, delimiter: str = ".") -> bool:
    """Does the name stand for several addresses: a word of it is `*` or `#`."""
    if "*" not in name and "#" not in name:
        return False
    words = name.split(delimiter)
    return "*" in words or "#" in words


def matches(pattern: list[str], words: list[str]) -> bool:
    """Does the pattern stand for the address; both split into words."""
    if "#" in pattern[:-1]:
        return _stands_for(pattern, words, "")
    if pattern[-1] == "#":
        pattern = pattern[:-1]
        if len(words) < len(pattern):
            return False
        words = words[: len(pattern)]
    return len(pattern) == len(words) and all(p == w or (p == "*" and w) for p, w in zip(pattern, words, strict=True))


def first_said(entries: Iterable[tuple[str, bool]], delimiter: str) -> Callable[[str], bool]:
    """What is said of an address by the first of these patterns that stands for it, and is of the same virtual host;
    False: none is."""
    hosts: dict[str, list[tuple[list[str], bool]]] = {}
    for pattern, said in entries:
        host, local = whose(pattern)
        hosts.setdefault(host, []).append((local.split(delimiter), said))

    def of(address: str) -> bool:
        host, local = whose(address)
        words = local.split(delimiter)
        return next((said for pattern, said in hosts.get(host, ()) if matches(pattern, words)), False)

    return of


def covers(pattern: list[str], other: list[str]) -> bool:
    """Does the pattern stand for every address that the other one stands for; both split into words.

    `.secret` has two words, the first of them empty: `#` stands for it, `*.#` does not."""
    if "#" in pattern[:-1] or "#" in other[:-1]:
        return _stands_for(pattern, other, "#")
    if pattern[-1] == "#":
        pattern, rest = pattern[:-1], other[:-1] if other[-1] == "#" else other
        if len(rest) < len(pattern):
            return False
        other = rest[: len(pattern)]
    elif other[-1] == "#":
        return False
    return len(pattern) == len(other) and all(p == w or (p == "*" and w) for p, w in zip(pattern, other, strict=True))


def _stands_for(pattern: list[str], words: list[str], rest: str) -> bool:
    """With `#` anywhere, zero or more words. `*` stands for any word but the empty one and `rest`."""
    # All places of the pattern that may be reached with the words so far, at once: words × places steps. To try one
    # way after the other is exponential for `#.a.#.a.#.a`, which any client may subscribe to.
    at = _skipped(pattern, {0})
    for word in words:
        following = set()
        for n in at:
            if n == len(pattern):
                continue
            if pattern[n] == "#":
                following.add(n)
            elif pattern[n] == word or (pattern[n] == "*" and word and word != rest):
                following.add(n + 1)
        at = _skipped(pattern, following)
    return len(pattern) in at


def _skipped(pattern: list[str], at: set[int]) -> set[int]:
    """With the places that are reached over a `#` which stands for no word."""
    found = set(at)
    for n in at:
        while n < len(pattern) and pattern[n] == "#":
            n += 1
            found.add(n)
    return found


def overlap(one: list[str], other: list[str]) -> bool:
    """Is there an address that both patterns stand for; both split into words."""
    if "#" in one[:-1] or "#" in other[:-1]:
        return _meet(one, other)
    for a, b in zip(one, other, strict=False):
        if a == "#" or b == "#":
            return True
        if a != b and not (a == "*" and b) and not (b == "*" and a):
            return False
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) == len(longer) or (len(longer) == len(shorter) + 1 and longer[-1] == "#")


def _meet(one: list[str], other: list[str]) -> bool:
    """overlap() with `#` anywhere, row by row: which ends of `other` go together with this end of `one`."""
    # words × words steps, as above; `row[n]`: the rest of `one` from here and the rest of `other` from n have
    # something in common.
    last = [all(word == "#" for word in other[n:]) for n in range(len(other) + 1)]
    for a in reversed(one):
        row = [False] * len(other) + [last[-1] and a == "#"]
        for n in range(len(other) - 1, -1, -1):
            b = other[n]
            if a == "#" or b == "#":
                row[n] = (a == "#" and (last[n] or row[n + 1])) or (b == "#" and (row[n + 1] or last[n]))
            else:
                row[n] = last[n + 1] and (a == b or (a == "*" and b != "") or (b == "*" and a != ""))
        last = row
    return last[0]
