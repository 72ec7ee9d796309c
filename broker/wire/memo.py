"""What is remembered of header blocks, shared by all connections of a listener.

Rule: bounded. Keys hold raw bytes, so each version has tables of its own: one for the full reading (heads.py), one for
short cuts.
"""

from __future__ import annotations

from .heads import Families
from .shortcuts.known_layouts import KnownLayouts
from .versions import Version


class Memo:
    """Tables of each version. `entries`: kinds of header blocks remembered per version, at most."""

    __slots__ = ("_families", "_layouts")

    def __init__(self, entries: int) -> None:
        self._families = {version: Families(entries, version) for version in Version}
        self._layouts = {version: KnownLayouts(entries, version, self._families[version]) for version in Version}

    def families(self, version: Version) -> Families:
        return self._families[version]

    def layouts(self, version: Version) -> KnownLayouts:
        return self._layouts[version]
