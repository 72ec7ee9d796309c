"""What is remembered of header blocks, shared by all connections of a listener.

Rule: bounded; only names seen again and again are kept as a layout, because those that never come again would cost
patterns and garbage for nothing. Keys hold raw bytes, so each version has a table of its own.
"""

from __future__ import annotations

from .layouts import REMEMBERED, HeadFamily, Layout, Said
from .versions import Version

LAYOUTS = 256
"""Of one version. A pattern of ten names takes about 8 KB, and 0.2 ms to make."""
LEARN_AFTER = 3
"""Times that a row of names has been read in full."""


class Table:
    """The blocks of one version.

    families   what blocks say → the heads of those that say it.
    layouts    names → their layout."""

    __slots__ = ("_entries", "_seen", "_version", "families", "layouts")

    def __init__(self, entries: int, version: Version) -> None:
        self._entries = entries
        self._version = version
        self._seen: dict[int, int] = {}
        self.families: dict[Said, HeadFamily] = {}
        self.layouts: dict[tuple[bytes, ...], Layout] = {}

    def family(self, said: Said) -> HeadFamily:
        """The heads of blocks that say that."""
        family = self.families.get(said)
        if family is None:
            family = HeadFamily(said, self._version)
            if sum([len(value) for _, value in said]) <= REMEMBERED:
                if len(self.families) >= self._entries:
                    self.families.clear()
                self.families[said] = family
        return family

    def layout(self, names: tuple[bytes, ...]) -> tuple[Layout | None, bool]:
        """The layout of these names, and whether it was made now; None: they have not been read often enough."""
        layout = self.layouts.get(names)
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
        if len(self.layouts) >= LAYOUTS:
            # One, not all: each has up to FAMILIES meanings, which take their time to free.
            del self.layouts[next(iter(self.layouts))]
        layout = self.layouts[names] = Layout(names, self._version, self.family)
        return layout, True


class Memo:
    """One table per version. `entries`: kinds of header blocks remembered per version, at most."""

    __slots__ = ("_tables",)

    def __init__(self, entries: int) -> None:
        self._tables = {version: Table(entries, version) for version in Version}

    def table(self, version: Version) -> Table:
        return self._tables[version]
