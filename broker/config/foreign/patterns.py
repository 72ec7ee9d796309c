"""Regular expressions of another broker's file, tried on names for no longer than what we have for them.

Python's engine tries one way after the other: `(a+)+$`, six characters, takes years for a name of forty. The ways are
bounded beforehand, from the pattern alone: `?` and alternatives have theirs, what stands in a row multiplies, and
repetitions share the name. What repeats something that can itself match in several ways is not tried.

Rule: what a pattern costs is known before it is tried; what costs too much, or is not known here, is said by name.
"""

# Example. `^(orders|bills)\..*` on a name of 30 characters: 2 alternatives × 31 lengths of `.*`, from one place: 62
# ways. `.*a.*b`: where it begins and two lengths, together 30 at most: 33 over 3. `(a|b)*c`: a repetition of two ways,
# so 2^30: refused before any name is looked at.

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from math import comb
from typing import Final, NamedTuple

LONGEST: Final = 200
"""Characters of a pattern."""
NAME: Final = 255
"""… and of a name, as RabbitMQ has them."""
BUDGET: Final = 10_000_000_000
"""Nanoseconds, for all patterns of one file. `.*one.*two` on 10,000 names of 30 characters takes less than half of it,
by the most that it could be."""
_WAY: Final = 30
"""Nanoseconds a way: 25 were measured for `a?a?a?…b`."""
_ATOM_NS: Final = 8
"""… and for each character that may be looked at in it: 6."""
_STEP: Final = 300
"""What a call costs, however simple the pattern is."""


class TooMuchError(Exception):
    """The pattern is not tried; its text says why."""


class Trial:
    """What is left for one file."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._left = budget

    def pattern(self, text: str, names: Iterable[str]) -> frozenset[str]:
        """Those of the names that it is found in. Raises TooMuchError."""
        if len(text) > LONGEST:
            raise TooMuchError(f"it is longer than {LONGEST} characters")
        try:
            with warnings.catch_warnings():
                # `[[:alpha:]]` means something to RabbitMQ, and something else here.
                warnings.simplefilter("error", FutureWarning)
                found = re.compile(text)
        except (re.error, OverflowError, RecursionError, FutureWarning) as error:
            raise TooMuchError(f"it is not understood: {error}") from None
        walk = _Walk(text)
        ways = walk.choice()
        if walk.at < len(text):
            raise TooMuchError("it is not understood")
        # Without a beginning it is tried from each place: one length more.
        free = ways.free + (not text.startswith("^") or "|" in text)
        each = ways.fixed * (_WAY + _ATOM_NS * ways.atoms)
        costs: dict[int, int] = {}
        matched: set[str] = set()
        for name in names:
            size = len(name)
            if size > NAME:
                continue
            if size not in costs:
                # So many lengths that are `size` together, or less.
                costs[size] = _STEP + each * comb(size + free, free)
            if costs[size] > self._left:
                raise TooMuchError("it could take minutes, or for ever")
            self._left -= costs[size]
            if found.search(name):
                matched.add(name)
        return frozenset(matched)


class _Ways(NamedTuple):
    """In how many ways something can match: `fixed` for each choice of the lengths of `free` repetitions.

    atoms   characters that may be looked at in one of them."""

    fixed: int
    free: int
    atoms: int


_ONE: Final = _Ways(1, 0, 1)


_GROUP: Final = re.compile(r"\((?:\?(?::|[=!]|<[=!]|P?<\w+>))?")
_ATOM: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[^0-9]|[^\\()\[|*+?{]", re.DOTALL)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")


class _Walk:
    """Through a pattern that Python has compiled. Raises TooMuchError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def choice(self) -> _Ways:
        """Alternatives, up to the bracket that ends them."""
        ways = self._row()
        while self._text.startswith("|", self.at):
            self.at += 1
            other = self._row()
            ways = _Ways(ways.fixed + other.fixed, max(ways.free, other.free), ways.atoms + other.atoms)
        return ways

    def _row(self) -> _Ways:
        fixed, free, atoms = 1, 0, 0
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            one = self._repeated(self._one())
            fixed, free, atoms = min(fixed * one.fixed, BUDGET), free + one.free, min(atoms + one.atoms, BUDGET)
        return _Ways(fixed, free, atoms)

    def _one(self) -> _Ways:
        """A character, a class, or a group."""
        if (group := _GROUP.match(self._text, self.at)) is not None:
            self.at = group.end()
            ways = self.choice()
            if not self._text.startswith(")", self.at):
                raise TooMuchError("it has a group of a kind that is not known here")
            self.at += 1
            return ways
        if (atom := _ATOM.match(self._text, self.at)) is None:
            raise TooMuchError(f"{self._text[self.at : self.at + 2]!r} in it is not known here")
        self.at = atom.end()
        return _ONE

    def _repeated(self, ways: _Ways) -> _Ways:
        found = _REPEAT.match(self._text, self.at)
        if found is None:
            return ways
        self.at = found.end()
        if found[0].startswith("?"):
            return ways._replace(fixed=ways.fixed + 1)
        if ways.fixed > 1 or ways.free:
            raise TooMuchError("it repeats what can itself match in several ways")
        least, most = int(found[1] or 0), int(found[3] or NAME)
        if found[1] and not found[2]:
            return _Ways(1, 0, ways.atoms * max(least, 1))  # {3}: no other way
        if most < NAME:
            return _Ways(most + 1, 0, ways.atoms * max(most, 1))
        return _Ways(1, 1, ways.atoms * max(least, 1))
