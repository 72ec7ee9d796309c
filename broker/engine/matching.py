"""Which settings an address has: exact name first, then patterns from specific to general, then the defaults.

Rule: Artemis' match rules: words split by `.`, `*` is exactly one word, `#` at the end any number of words; a
setting that the more specific table does not have is taken from the next. Must not know queues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.config.settings import AddressSettings, EngineSettings

_REMEMBERED = 4096
"""Addresses whose settings are kept; names of reply topics would pile up else."""


class Matcher:
    """Looks settings up by address, and remembers."""

    __slots__ = ("_default", "_exact", "_memo", "_patterns")

    def __init__(self, settings: EngineSettings) -> None:
        tables = settings.addresses
        self._default = settings.address
        self._exact = {name: table for name, table in tables.items() if not is_pattern(name)}
        # From general to specific, so that later tables overwrite earlier ones.
        names = sorted((name for name in tables if is_pattern(name)), key=_specificity)
        self._patterns: list[tuple[list[str], Any]] = [(name.split("."), tables[name]) for name in names]
        self._memo: dict[str, AddressSettings] = {}

    def __call__(self, address: str) -> AddressSettings:
        if not self._exact and not self._patterns:
            return self._default
        found = self._memo.get(address)
        if found is None:
            if len(self._memo) >= _REMEMBERED:
                self._memo.clear()
            found = self._memo[address] = self._merge(address)
        return found

    def _merge(self, address: str) -> AddressSettings:
        words = address.split(".")
        merged: dict[str, Any] = {}
        for pattern, table in self._patterns:
            if matches(pattern, words):
                merged.update(table)
        merged.update(self._exact.get(address, {}))
        return replace(self._default, **merged)


def is_pattern(name: str) -> bool:
    """Does the name stand for several addresses: a word of it is `*` or `#`."""
    if "*" not in name and "#" not in name:
        return False
    words = name.split(".")
    return "*" in words or "#" in words


def matches(pattern: list[str], words: list[str]) -> bool:
    """Does the pattern stand for the address; both split into words."""
    if pattern[-1] == "#":
        pattern = pattern[:-1]
        if len(words) < len(pattern):
            return False
        words = words[: len(pattern)]
    return len(pattern) == len(words) and all(p == w or (p == "*" and w) for p, w in zip(pattern, words, strict=True))


def _specificity(name: str) -> tuple[bool, int, bool, list[bool]]:
    """Sorts patterns that may match the same address from general to specific."""
    words = name.split(".")
    rest = "#" in words
    return not rest, len(words) if rest else 0, "*" not in words, [word != "*" for word in words]
