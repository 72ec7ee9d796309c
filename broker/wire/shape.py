"""SEND blocks that differ from the last one only in the values of headers nobody but consumers reads.

Rule: a Shape may only say what block.py would say of the same block. It is learned from complete frames with
plain blocks (no escapes, one colon per line, no name twice), and takes plain blocks only; receipt and
content-length always count as variable.
"""

from __future__ import annotations

from operator import ne
from typing import Final

from broker.core.message import GROUPED, TEXT, UNIQUE

from .block import MAX_DIGITS, Block
from .events import Head
from .rules import RESERVED

SIGNIFICANT: Final = frozenset(
    {
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "AMQ_SCHEDULED_TIME",
        "AMQ_SCHEDULED_ZONE",
        "auto-delete",
        "destination",
        "destination-type",
        "durable",
        "exclusive",
        "expiration",
        "expires",
        "persistent",
        "priority",
        "reply-to",
        "transaction",
        "ttl",
        "user-id",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-message-ttl",
        "x-overflow",
        "x-queue-type",
        "x-single-active-consumer",
    }
)
"""Headers of SEND that the broker may act on: a block whose value of one of these is new is read in full. Whoever
reads another one from Head.headers adds it here; a test of the edge holds its list against this one."""


class Shape:
    """What the last block looked like. `head` is shared by all frames of the shape: no lines, and of the headers
    only the significant ones."""

    __slots__ = ("_changed", "_keep", "_length_at", "_names", "_read", "_receipt_at", "_rows", "head")

    def __init__(self, raw: bytes, block: Block) -> None:
        self._rows = raw.split(b"\n")
        names = [row[: row.index(b":") + 1] for row in self._rows[1:-2]]
        texts = [name[:-1].decode() for name in names]
        # One entry per row: the name with its colon where the value may vary, else b"".
        self._names = [
            b"", *[b"" if text in SIGNIFICANT else name for name, text in zip(names, texts, strict=True)], b"", b""
        ]  # fmt: skip
        self._keep = [at for at, text in enumerate(texts, 1) if text not in RESERVED]
        self._receipt_at = texts.index("receipt") + 1 if "receipt" in texts else 0
        self._length_at = texts.index("content-length") + 1 if "content-length" in texts else 0
        headers = {name: value for name, value in block.headers.items() if name in SIGNIFICANT}
        marks = block.flags & (GROUPED | UNIQUE)
        self.head = Head(b"", headers, marks | (0 if self._length_at else TEXT), False)
        self._read = self._rows
        self._changed = 0

    def read(self, raw: bytes) -> tuple[bytes, int, bytes | None] | None:
        """(relayed lines, content-length or -1, raw receipt) of a block of this shape; None: it is not one, or it
        differs in nothing that is relayed (then it is one for the memo, which cuts those lines out)."""
        rows = raw.split(b"\n")
        old = self._rows
        # Each old row has one colon, and a row that differs must begin with its name and colon (below): so as many
        # colons as rows means that no value holds one.
        if (
            len(rows) != len(old)
            or raw.count(b":") != len(rows) - 3
            or b"\\" in raw
            or b"\r" in raw
            or b"\0" in raw
            # The block is plain and UTF-8, but `read` takes ASCII only, where a wrong encoding cannot hide in a
            # value.
            or not raw.isascii()
        ):
            return None
        names = self._names
        differs = list(map(ne, rows, old))
        changed = at = relayed = 0
        for _ in range(differs.count(True)):
            # Row 0 is the command and never differs: callers ask for SENDs only, and one with CR is refused above. So
            # each of these searches, from row 1 on, has something to find.
            at = differs.index(True, at + 1)
            name = names[at]
            if not name or not rows[at].startswith(name):
                return None
            changed += 1
            if at != self._receipt_at and at != self._length_at:
                relayed = at
        # Only receipt or content-length differ: the memo knows that block by now, and a shape would rebuild its
        # relayed lines in vain.
        if not relayed:
            return None
        length = -1
        if self._length_at:
            digits = rows[self._length_at][15:]
            if not digits.isdigit() or len(digits) > MAX_DIGITS:
                return None
            length = int(digits)
        receipt = rows[self._receipt_at][8:] if self._receipt_at else None
        # One relayed header and nothing else changed: only then `commit` can cut the block around that value for
        # bulk.OneValue.
        self._changed = relayed if changed == 1 else 0
        self._read = rows
        lines = b"\n".join([rows[at] for at in self._keep])
        return (lines + b"\n" if lines else b""), length, receipt

    def commit(self) -> tuple[bytes, bytes, bytes, bytes] | None:
        """The frame of the block last read is complete: the next one is compared with it.

        When it differed in one relayed value only, returns the block cut around that value: raw bytes before
        and behind, relayed lines before and behind."""
        rows = self._rows = self._read
        at = self._changed
        if not at:
            return None
        name = self._names[at]
        before = b"".join([row + b"\n" for row in rows[:at]]) + name
        behind = b"\n" + b"\n".join(rows[at + 1 :])
        kept_before = b"".join([rows[i] + b"\n" for i in self._keep if i < at]) + name
        kept_behind = b"".join([b"\n" + rows[i] for i in self._keep if i > at]) + b"\n"
        return before, behind, kept_before, kept_behind
