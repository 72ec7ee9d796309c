"""SEND frames of one connection, the cheapest way that fits.

In this order: many frames with the last block (bulk), many with one value changed (bulk), the memo of blocks,
the memo without receipt and content-length lines, the shape of the last block, the full reader.

Rule: every way gives what the full reader gives, or is not taken; what is remembered comes from complete
frames only. Must not know buffers, streaming or what follows a SEND.
"""

# Example. A sender whose SENDs differ in the header `n` only: n:1, n:2, n:3 … with content-length:5 each.
#     n:1   find: nothing is known, read in full (FULL). learn: block and meaning are the candidate for a shape
#     n:2   find: the candidate becomes a Shape; this block fits it (SHAPE). learn: one value differed, so OneValue is
#           made of what stands before and behind it
#     n:3   bulk: OneValue takes this frame and, if they are in the same read, the 15 after it, without the reader
#     a new destination    the value of a SIGNIFICANT header is new: no shape, read in full, and it begins again

from __future__ import annotations

from enum import IntEnum
from typing import Final

from broker.config.settings import WireSettings
from broker.core.message import TEXT

from .block import MAX_DIGITS, Block, read_send
from .bulk import OneValue, SameBlock
from .events import Head
from .intake import Intake
from .memo import Known, Table
from .shape import Shape
from .versions import Version

PATIENCE: Final = 4
"""Shapes in a row that did not fit the next block before they are tried only now and then."""
RETRY: Final = 64
"""Full readings until shapes are tried again."""


class Way(IntEnum):
    """How a block was understood: decides what there is to learn from it."""

    KNOWN = 0
    RECEIPT_CUT = 1
    BOTH_CUT = 2
    SHAPE = 3
    FULL = 4


class Found:
    """An understood SEND block. `lines`: relayed lines that stand in front of the record's content-length (only for
    heads of shapes). `length`: of the body, -1 = up to the first NUL."""

    __slots__ = ("block", "head", "length", "lines", "receipt", "way")

    def __init__(
        self, way: Way, head: Head, length: int, receipt: bytes | None, lines: bytes = b"", block: Block | None = None
    ) -> None:
        self.way = way
        self.head = head
        self.length = length
        self.receipt = receipt
        self.lines = lines
        self.block = block

    def open_head(self) -> Head:
        """A head of its own for a body that is streamed: without content-length and empty line."""
        head = self.head
        lines = head.lines
        if head.whole:
            lines = lines[: -len(b"content-length:%d\n\n" % self.length)]
        return Head(self.lines + lines, head.headers, head.flags, False)


class SendReader:
    """Made with the first SEND of a connection."""

    __slots__ = (
        "_candidate", "_cut", "_misses", "_one", "_rest", "_same", "_settings", "_shape", "_shape_first", "_small",
        "_table", "_version",
    )  # fmt: skip

    def __init__(self, version: Version, settings: WireSettings, table: Table) -> None:
        self._version = version
        self._settings = settings
        self._table = table
        self._same: SameBlock | None = None
        self._one: OneValue | None = None
        self._shape: Shape | None = None
        self._shape_first = False
        self._candidate: tuple[bytes, Block] | None = None
        self._misses = 0
        # The block last looked up: without its receipt line, and without its content-length line too.
        self._rest = b""
        self._cut = b""
        # Blocks up to here pass every size limit of a single line.
        # A block that is shorter than both limits cannot have a line over either; the number of lines is the same as
        # in the remembered block.
        self._small = min(settings.max_header_bytes, settings.max_header_block_bytes)

    def bulk(self, intake: Intake) -> int:
        """Takes frames from intake.pos on. Returns the empty lines passed, or -1 if nothing was taken."""
        if self._same is not None:
            eols = self._same.take(intake)
            if eols >= 0:
                return eols
        if self._one is not None and self._one.take(intake):
            return 0
        return -1

    def find(self, raw: bytes) -> Found:
        """What a complete block says. Raises ProtocolViolation."""
        # The order is by price: comparing bytes, a dict look-up, two cuts and a look-up, a split, the reader.
        same = self._same
        if same is not None and raw == same.block:
            return Found(Way.KNOWN, same.head, same.size - 1, None)
        known = self._table.whole.get(raw)
        if known is not None:
            return Found(Way.KNOWN, known.head, known.length, None)
        self._rest = self._cut = b""
        # Not for 1.0, which trims values (C11): two blocks may mean the same there and differ, or the other way
        # round.
        if len(raw) <= self._small and self._version is not Version.V10:
            if self._shape_first:
                found = self._find_shape(raw) or self._find_cut(raw)
            else:
                found = self._find_cut(raw) or self._find_shape(raw)
            # A length over the limit falls through to the reader, whose complaint names the limit.
            if found is not None and found.length <= self._settings.max_frame_bytes:
                self._shape_first = found.way is Way.SHAPE
                return found
        block = read_send(raw, self._version, self._settings)
        headers, length = sender_headers(block), block.length
        if length >= 0:
            head = Head(b"%bcontent-length:%d\n\n" % (block.lines, length), headers, block.flags, True)
        else:
            head = Head(block.lines, headers, block.flags | TEXT, False)
        return Found(Way.FULL, head, length, block.receipt, b"", block)

    def _find_cut(self, raw: bytes) -> Found | None:
        """Without its receipt, or without receipt and content-length, the block may be a known one."""
        rest, receipt = raw, None
        at = raw.find(b"\nreceipt:")
        if at >= 0:
            # In front of an empty line there is a line end, so index finds one.
            end = raw.index(b"\n", at + 9)
            receipt = raw[at + 9 : end]
            if b"\\" in receipt or b"\r" in receipt or b"\0" in receipt or not receipt.isascii():
                return None
            # Two receipt lines in a block: the second one is still in `rest`, and no block with a receipt line is
            # ever in the table (_remember takes plain blocks, which have no name twice). So the first counts (C17) or
            # the reader is asked.
            rest = raw[:at] + raw[end:]
            known = self._table.whole.get(rest)
            if known is not None:
                return Found(Way.RECEIPT_CUT, known.head, known.length, receipt)
        self._rest = rest
        at = rest.find(b"\ncontent-length:")
        if at < 0:
            return None
        end = rest.index(b"\n", at + 16)
        digits = rest[at + 16 : end]
        if not digits.isdigit() or len(digits) > MAX_DIGITS:
            return None
        self._cut = rest[:at] + rest[end:]
        head = self._table.cut.get(self._cut)
        if head is None:
            return None
        return Found(Way.BOTH_CUT, head, int(digits), receipt)

    def _find_shape(self, raw: bytes) -> Found | None:
        candidate = self._candidate
        # Made only when a next block asks: most candidates never have one, and a Shape splits the whole block.
        if candidate is not None:
            self._candidate = None
            self._misses += 1
            # Traffic without shapes pays for four tries, then for one in 64.
            if self._misses <= PATIENCE or self._misses % RETRY == 0:
                self._shape = Shape(*candidate)
        shape = self._shape
        if shape is None:
            return None
        seen = shape.read(raw)
        if seen is None:
            return None
        self._misses = 0
        lines, length, receipt = seen
        return Found(Way.SHAPE, shape.head, length, receipt, lines)

    def learn(self, raw: bytes, found: Found) -> None:
        """The frame with this block, the last one looked up, was complete and in order."""
        # Only now: a block whose frame turns out to be broken must leave nothing behind that a later frame is judged
        # by.
        way, head, length = found.way, found.head, found.length
        if found.receipt is None and head.whole:
            if self._same is None:
                self._same = SameBlock(raw, head, length + 1)
            elif self._same.block != raw:
                self._same.set(raw, head, length + 1)
        if way is Way.FULL:
            block = found.block
            if block is not None and block.raw_values is None and len(raw) <= self._small:
                self._candidate = (raw, block)
                self._shape = None
                self._remember(raw, found)
        elif way is Way.RECEIPT_CUT and head.whole:
            at = raw.index(b"\nreceipt:") + 9
            self._learn_one(raw[:at], raw[raw.index(b"\n", at) :], None, head, length)
        elif way is Way.SHAPE and self._shape is not None:
            around = self._shape.commit()
            if around is not None and length >= 0:
                self._learn_one(around[0], around[1], (around[2], around[3]), head, length)

    def _learn_one(
        self, before: bytes, behind: bytes, kept: tuple[bytes, bytes] | None, head: Head, length: int
    ) -> None:
        # Whatever the value is, the block stays within `_small` and the frame within the limit of frames: OneValue
        # need not look.
        room = self._small - len(before) - len(behind)
        if self._small + length < self._settings.max_frame_bytes:
            self._one = OneValue(before, behind, kept, head, length, room)

    def _remember(self, raw: bytes, found: Found) -> None:
        """Tells the memo of a plain block read in full. Transactions do not come again; and there must be room for
        the two lines that may be added to a known block."""
        head, table = found.head, self._table
        if "transaction" in head.headers or len(head.headers) > self._settings.max_headers - 2:
            return
        rest = self._rest or raw
        if (found.receipt is None or self._rest) and table.again(hash(rest)):
            table.whole[rest] = Known(head, found.length)
        cut = self._cut
        # The complement keeps cut blocks apart from whole ones in the one set of fingerprints.
        if cut and table.again(~hash(cut)):
            line = b"content-length:%d\n\n" % found.length
            table.cut[cut] = Head(head.lines[: -len(line)], head.headers, head.flags, False)


def sender_headers(block: Block) -> dict[str, str]:
    """The headers a Head shows: all but those that belong to the single frame."""
    headers = block.headers
    headers.pop("receipt", None)
    headers.pop("content-length", None)
    return headers
