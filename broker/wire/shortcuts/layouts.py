"""SEND blocks by their names: where everything stands in a block of known names, whatever the values.

Producers write the same header names in the same order again and again, with other values each time. A Layout is such a
row of names as one pattern: it finds the end of the block, checks every octet of it and hands out what a broker acts
on, in one step of C. What such blocks mean is a HeadFamily (heads.py): all that say the same to a broker share it.

Rule: a layout may only say what block.py says of the same block, and takes plain blocks only (no escape, CR, NUL or
further colon, ASCII, no name twice). It is learned from blocks that block.py has read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from broker.core.message import TEXT

from ..events import Head
from ..heads import MARKS, NAMES_SAID, NOT_RELAYED, REMEMBERED, SAID, HeadFamily, Said, said_of
from ..versions import Version

FAMILIES: Final = 64
"""Meanings that each layout may remember, …"""
SPARE: Final = 8192
"""… and so many more all of one version together: a client that writes to 5,000 queues in turn says as many things."""
NAMES: Final = 48
NAMES_BYTES: Final = 1024
"""Of a row that is made a layout: the pattern of 48 takes 1.5 ms to make, of 90 of 170 bytes 70."""

# Possessive, so that a block that does not fit is left at the first octet that differs, and never gone through again.
# What the class leaves out needs a closer look, which block.py has: a colon has to be escaped, a backslash may be
# wrong, CR may be a part of the line's end, and what is not ASCII may not be UTF-8.
_VALUE: Final = rb"[^\n\r:\\\0\x80-\xff]*+"
# 1.0 trims values (C11): what may have to be trimmed is read in full.
_UNPADDED: Final = rb"[^\n\r:\\\0\x80-\xff \t]*+"
_NAME: Final = re.compile(rb"[^\n\r:\\\0\x80-\xff]+").fullmatch
_LENGTH: Final = b"content-length"
_RECEIPT: Final = b"receipt"


class Spare:
    """What layouts may remember beyond FAMILIES each, together."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = SPARE

    def allows(self) -> bool:
        """A layout remembers one more; False: it may not."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True

    def gives(self, layout: Layout) -> None:
        """It is gone."""
        self.left += max(len(layout.families) - FAMILIES, 0)


class Layout:
    """A row of names.

    match      pattern of a whole block, from SEND to the empty line.
    lines_at, length_at, receipt_at, said_at   groups of it: stretches of relayed lines, content-length and receipt
               (0: it has none), and what a broker acts on, in the order of `said`.
    lines_in, said_in   the only group of these; 0: there are several, or none.
    flags      of its messages.
    families   values → what they mean.
    family     of the values `values`, which were asked for last; head: that of a lone message of them."""

    __slots__ = (
        "_family_of", "_named", "_spare", "families", "family", "flags", "head", "length_at", "lines_at", "lines_in",
        "match", "receipt_at", "said", "said_at", "said_in", "values",
    )  # fmt: skip

    def __init__(
        self, names: Sequence[bytes], version: Version, family: Callable[[Said], HeadFamily], spare: Spare
    ) -> None:
        value = _UNPADDED if version is Version.V10 else _VALUE
        pattern, groups, open_at = [b"SEND\n"], 0, 0
        self.length_at = self.receipt_at = 0
        # What is relayed are whole lines, as written: neighbours are one group, so that of the usual block (destination
        # and the sender's own, then receipt and content-length) it is one slice, not one a header.
        stretches: list[int] = []
        said: dict[bytes, int] = {}
        for name in names:
            if (name not in NOT_RELAYED) is not bool(open_at):
                if open_at:
                    pattern.append(b")")
                    open_at = 0
                else:
                    pattern.append(b"(")
                    groups += 1
                    open_at = groups
                    stretches.append(groups)
            take = value
            if name == _LENGTH:
                self.length_at = groups = groups + 1
                take = b"([0-9]{1,18})"
                # Eighteen digits as in block.py (MAX_DIGITS): more are over every limit.
            elif name == _RECEIPT:
                self.receipt_at = groups = groups + 1
                take = b"(%b)" % value
            elif name in SAID:
                said[name] = groups = groups + 1
                take = b"(%b)" % value
            # All other values are matched and not handed out: a group costs as much as 30 octets.
            pattern.append(b"%b:%b\n" % (re.escape(name), take))
        pattern.append(b")\n" if open_at else b"\n")
        self.match = re.compile(b"".join(pattern)).match
        self.lines_at = stretches
        self.lines_in = stretches[0] if len(stretches) == 1 else 0
        # By name, not as they stand in the block: who says the same in another order has the same family.
        self.said = sorted(said)
        self.said_at = [said[name] for name in self.said]
        self.said_in = self.said_at[0] if len(self.said_at) == 1 else 0
        self.flags = sum([flag for name, flag in MARKS.items() if name in names]) | (0 if self.length_at else TEXT)
        self._named = {name: b"" for name in NAMES_SAID.intersection(names)}
        self._family_of = family
        self._spare = spare
        self.families: dict[object, HeadFamily] = {}
        self.values: object = None
        self.family = HeadFamily((), version)
        self.head: Head

    def means(self, values: bytes | tuple[bytes, ...]) -> HeadFamily:
        """A block with these values: its family."""
        family = self.families.get(values)
        if family is None:
            # One group alone comes as it is, several as a tuple (re's group()).
            each = values if isinstance(values, tuple) else (values,)
            family = self._family_of(said_of({**self._named, **dict(zip(self.said, each, strict=True))}))
            # Not what is long: a client that makes up 10 KB of reply-to for each message would have 64 times that kept
            # in each layout.
            if sum(map(len, each)) <= REMEMBERED:
                if len(self.families) >= FAMILIES and not self._spare.allows():
                    del self.families[next(iter(self.families))]
                self.families[values] = family
        self.values, self.family, self.head = values, family, family.head(self.flags)
        return family
