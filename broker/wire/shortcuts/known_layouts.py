"""Rows of names that have a layout, shared by all connections of a listener.

Rule: bounded; only names seen again and again are kept as a layout, because those that never come again would cost
patterns and garbage for nothing.
"""

from __future__ import annotations

from ..heads import Families
from ..versions import Version
from .layouts import Layout, Spare

LAYOUTS = 256
"""Of one version. A pattern of ten names takes about 8 KB, and 0.2 ms to make."""
LEARN_AFTER = 3
"""Times that a row of names has been read in full."""


class KnownLayouts:
    """Of one version: names → their layout."""

    __slots__ = ("_entries", "_families", "_seen", "_spare", "_version", "known")

    def __init__(self, entries: int, version: Version, families: Families) -> None:
        self._entries = entries
        self._version = version
        self._families = families
        self._seen: dict[int, int] = {}
        self._spare = Spare()
        self.known: dict[tuple[bytes, ...], Layout] = {}

    def layout(self, names: tuple[bytes, ...]) -> tuple[Layout | None, bool]:
        """The layout of these names, and whether it was made now; None: they have not been read often enough."""
        layout = self.known.get(names)
        if layout is not None:
            return layout, False
        # Fingerprints, not names: what comes once must not be kept. Two rows with one fingerprint make a layout too
        # early, of the names of the one that is asked for.
        fingerprint, seen = hash(names), self._seen
        if len(seen) >= self._entries:
            seen.clear()
        times = seen[fingerprint] = seen.get(fingerprint, 0) + 1
        if times < LEARN_AFTER:
            return None, False
        del seen[fingerprint]
        if len(self.known) >= LAYOUTS:
            # One, not all: each has its meanings, which take their time to free.
            self._spare.gives(self.known.pop(next(iter(self.known))))
        layout = self.known[names] = Layout(names, self._version, self._families.family, self._spare)
        return layout, True
