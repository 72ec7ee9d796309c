"""Messages that say another destination than their sender wrote: the one of several that they went to, the queue that
consumes a topic, a connection's own name of its temporary queue. Clients of ActiveMQ Classic dispatch by it.

Rule: what the sender wrote stays behind it, as `original-destination`, unless it is a name that only others have. Bytes
in, bytes out; only who has such a destination pays for it. Must not know dialects.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.core.message import ESCAPED, Run
from broker.wire.events import Head, Sends
from broker.wire.versions import Version
from broker.wire.writer import escape

_LINE = b"destination:"


class Shown:
    """A destination to show. keep: the sender's stays, as original-destination."""

    __slots__ = ("_before", "flags", "keep", "nbytes")

    def __init__(self, destination: str, keep: bool) -> None:
        value = escape(destination, Version.V12).encode()
        self.flags = ESCAPED if b"\\" in value else 0
        self.keep = keep
        self._before = b"destination:%b\n" % value + (b"original-" if keep else b"")
        self.nbytes = len(self._before)

    def text(self, text: bytes) -> bytes:
        """Header lines, alone or with the body behind them. Unchanged when no destination stands in them."""
        start = 0 if text.startswith(_LINE) else text.find(b"\n" + _LINE) + 1
        # A record that begins with the empty line is all body.
        if not text.startswith(_LINE, start) or text.startswith(b"\n") or -1 < text.find(b"\n\n", 0, start) < start:
            return text
        rest = start if self.keep else text.index(b"\n", start) + 1
        return b"%b%b%b" % (text[:start], self._before, text[rest:])

    def parts(self, lines: bytes, records: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
        """The same for lines that all records have in common, or the records where they stand in these."""
        other = self.text(lines)
        return other, list(records) if other is not lines else [self.text(record) for record in records]

    def sends(self, event: Sends) -> Sends:
        """The frames of a SEND."""
        head = event.head
        lines, records = self.parts(head.lines, event.records)
        shown = Head(lines, head.headers, head.flags | self.flags, head.whole)
        return Sends(shown, records, event.receipts, sum(map(len, records)) + len(records) * len(lines))

    def run(self, run: Run) -> Run:
        """What is delivered."""
        lines, records = self.parts(run.lines, run.records)
        return Run(run.ids, lines, records, run.nbytes, run.flags | self.flags, attempts=run.attempts, blob=run.blob)
