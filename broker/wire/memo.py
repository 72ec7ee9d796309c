"""What is remembered of header blocks, shared by all connections of a listener.

Rule: bounded; only blocks seen a second time are kept, because blocks that never come again would cost
inserts and garbage for nothing. Keys hold raw bytes, so each version has a table of its own.
"""

from __future__ import annotations

from .events import Head
from .versions import Version

SEEN_FACTOR = 4
"""Fingerprints of once-seen blocks kept per remembered block: they are plain ints, 30 times smaller."""


class Known:
    """A SEND block and the bytes of its body: whole head; or -1 and a head that is not whole, if it has no
    content-length."""

    __slots__ = ("head", "length")

    def __init__(self, head: Head, length: int) -> None:
        self.head = head
        self.length = length


class Table:
    """The blocks of one version.

    whole   block without its receipt line → Known.
    cut     block without its receipt and content-length lines → Head that is not whole. The block did have a
            content-length.
    """

    __slots__ = ("_entries", "_seen", "cut", "whole")

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._seen: set[int] = set()
        self.whole: dict[bytes, Known] = {}
        self.cut: dict[bytes, Head] = {}

    def again(self, fingerprint: int) -> bool:
        """Was a block with this fingerprint read before? If so there is room for one more entry now."""
        # A second-chance filter. Two blocks with one fingerprint do no harm: the second is remembered one time too
        # early, and under its own bytes. The hash of bytes is salted per process, so no client can choose what
        # collides.
        seen = self._seen
        if fingerprint not in seen:
            # Cleared, not aged: no bookkeeping per frame. The worst a client can do by ever new blocks is that
            # others' blocks are read in full once more after every `entries` × 4 of its own.
            if len(seen) >= self._entries * SEEN_FACTOR:
                seen.clear()
            seen.add(fingerprint)
            return False
        if len(self.whole) + len(self.cut) >= self._entries:
            self.whole.clear()
            self.cut.clear()
        return True


class Memo:
    """One table per version. `entries`: header blocks remembered per version, at most."""

    __slots__ = ("_tables",)

    def __init__(self, entries: int) -> None:
        self._tables = {version: Table(entries) for version in Version}

    def table(self, version: Version) -> Table:
        return self._tables[version]
