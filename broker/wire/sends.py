"""SEND frames of one connection, read in full: what a block says, and the event of a frame that is complete.

Rule: every SEND can be read so; a short cut (shortcuts/known_sends.py) only saves it. Must not know buffers, streaming
or what follows a SEND.
"""

# Example. SEND with destination, a header with an escape, and 900 octets whose length is given. find reads the block
# (block.py); the connection waits until the body is whole; add makes of it a record that begins with the length, has
# the lines as they came, and the body behind them: what a MESSAGE will be made of without another look.

from __future__ import annotations

from broker.config.settings import WireSettings
from broker.core.message import TEXT

from .block import SendBlock, read_send
from .events import Head
from .heads import Families
from .intake import Intake
from .versions import Version


class SendReader:
    """Made with the first SEND of a connection."""

    __slots__ = ("_families", "_settings", "_version")

    def __init__(self, version: Version, settings: WireSettings, families: Families) -> None:
        self._version = version
        self._settings = settings
        self._families = families

    def find(self, raw: bytes) -> SendBlock:
        """What a complete block says. Raises ProtocolViolation."""
        return read_send(raw, self._version, self._settings)

    def open_head(self, block: SendBlock) -> Head:
        """A head of its own for a body that is streamed: without content-length and empty line."""
        headers = self._families.family(block.said).headers
        return Head(block.lines, headers, block.flags | (TEXT if block.length < 0 else 0), False)

    def add(self, intake: Intake, block: SendBlock, body: bytes) -> None:
        """The frame is complete. body: with its NUL."""
        # As short cuts have it; by where content-length stands it is known later who gave it (core.message.is_text).
        if block.length >= 0:
            record, flags = b"content-length:%d\n%b\n%b" % (block.length, block.lines, body), block.flags
        else:
            record = b"%bcontent-length:%d\n\n%b" % (block.lines, len(body) - 1, body)
            flags = block.flags | TEXT
        family = self._families.known.get(block.said) or self._families.family(block.said)
        intake.add(family, flags, record, block.receipt, True)
