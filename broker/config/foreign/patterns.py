"""Regular expressions of a file of somebody else's, tried on names for no longer than what we have for them.

Python's engine tries one way after the other: `(a+)+$`, six characters, takes years for a name of forty. The ways are
bounded beforehand, from the pattern alone: a repetition has as many as the name has characters, `?` and alternatives
have theirs, what stands in a row multiplies. What repeats something that can itself match in several ways is not tried.

Rule: what a pattern costs is known before it is tried; what costs too much, or is not known here, is said by name.
"""

# Example. `^(orders|bills)\..*` on a name of 30 characters: 2 alternatives × 31 lengths of `.*`, from one place: 62
# ways. `(a|b)*c`: a repetition of two ways, so 2^30: refused before any name is looked at.

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 200
"""Characters of a pattern."""
NAME: Final = 255
"""… and of a name, as RabbitMQ has them."""
BUDGET: Final = 5_000_000_000
"""Ways, for all patterns of one file: 5 s at the most, as none takes longer than 1 ns. `.*one.*two` on 10,000 names of
30 characters takes a sixteenth of it."""
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
            found = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise TooMuchError(f"it is not understood: {error}") from None
        ways: dict[int, int] = {}
        matched: set[str] = set()
        for name in names:
            size = len(name)
            if size > NAME:
                continue
            if size not in ways:
                ways[size] = _STEP + _ways(text, size + 1)
            if ways[size] > self._left:
                raise TooMuchError("it could take minutes, or for ever")
            self._left -= ways[size]
            if found.search(name):
                matched.add(name)
        return frozenset(matched)


def _ways(text: str, most: int) -> int:
    """In how many ways a name can be tried, at most; most: what one repetition has. Raises TooMuchError."""
    walk = _Walk(text, most)
    ways = walk.choice()
    if walk.at < len(text):
        raise TooMuchError("it is not understood")
    return ways if text.startswith("^") and "|" not in text else ways * most


_GROUP: Final = re.compile(r"\((?:\?(?::|[=!]|<[=!]|P?<\w+>))?")
_ATOM: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\[^0-9]|[^\\()\[|*+?{]", re.DOTALL)
_REPEAT: Final = re.compile(r"(?:[*+?]|\{(\d*)(,?)(\d*)\})[?+]?")


class _Walk:
    """Through a pattern that Python has compiled."""

    def __init__(self, text: str, most: int) -> None:
        self._text = text
        self._most = most
        self.at = 0

    def choice(self) -> int:
        """Alternatives, up to the bracket that ends them."""
        ways = self._row()
        while self._text.startswith("|", self.at):
            self.at += 1
            ways += self._row()
        return ways

    def _row(self) -> int:
        ways = 1
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            one = self._one()
            ways = min(ways * self._repeated(one), BUDGET + 1)
        return ways

    def _one(self) -> int:
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
        return 1

    def _repeated(self, ways: int) -> int:
        found = _REPEAT.match(self._text, self.at)
        if found is None:
            return ways
        self.at = found.end()
        if found[0].startswith("?"):
            return 1 + ways
        if ways > 1:
            raise TooMuchError("it repeats what can itself match in several ways")
        if found[1] and not found[2]:
            return 1  # {3}: no other way
        most = found[3] or ""
        return min(int(most), self._most) + 1 if most else self._most + 1
